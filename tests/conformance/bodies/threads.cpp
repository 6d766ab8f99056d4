// Several threads of a rank, each with slots of its own.
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

constexpr int kThreads = 3;

/// Runs `body` in several threads; rethrows the exception of the first thread that failed.
void run_threads(const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void serves_threads_with_slots_of_their_own(World& world) {
  const Check check(world);
  Meeting meeting(world);
  run_threads([&](int thread) {
    const auto text = std::to_string(thread);
    RingEdge fixed(world,
                   {.name = "fixed " + text, .dtype = DType::u8, .shape = {900}, .depth = 2});
    RingEdge dynamic(world, {.name = "dynamic " + text,
                             .dtype = DType::u8,
                             .shape = {0},
                             .depth = 2,
                             .placement = Placement::dynamic});
    const auto source = allocate_source(world, DType::u8, {900});
    for (std::uint64_t n = 1; n <= (kSanitized ? 30 : 150); ++n) {
      fill(world, source, pattern_of(world.rank(), thread, n));
      check.ok(fixed.remote.put(source).wait(), "put");
      const auto some = allocate_source(world, DType::u8, {static_cast<std::int64_t>(n * 7)});
      fill(world, some, pattern_of(world.rank(), thread + 10, n));
      auto request = dynamic.remote.put(some);
      check.holds(check.ok(fixed.slot.wait(), "wait").tensor(),
                  pattern_of(previous_of(world), thread, n), "fixed tensor");
      check.holds(check.ok(dynamic.slot.wait(), "wait").tensor(),
                  pattern_of(previous_of(world), thread + 10, n), "dynamic tensor");
      check.ok(request.wait(), "put");
    }
    Meeting(world, "threads " + text).wait();
  });
  meeting.wait();
}

void attaches_from_several_threads(World& world) {
  const Check check(world);
  Meeting meeting(world);
  run_threads([&](int thread) {
    Meeting among(world, "threads " + std::to_string(thread));
    for (std::uint64_t n = 1; n <= 15; ++n) {
      const std::string name = std::to_string(thread) + '/' + std::to_string(n);
      const auto source = allocate_source(world, DType::i64, {100});
      if (n % 2 != 0) {
        RingEdge edge(world, {.name = name, .dtype = DType::i64, .shape = {100}});
        fill(world, source, pattern_of(world.rank(), thread, n));
        check.ok(edge.remote.put(source).wait(), "put");
        check.holds(check.ok(edge.slot.wait(), "wait").tensor(),
                    pattern_of(previous_of(world), thread, n), "tensor");
        among.wait();
      } else {
        PublishedEdge edge(world, {.name = name, .dtype = DType::i64, .shape = {100}});
        fill(world, check.ok(edge.slot.next(), "next"), pattern_of(world.rank(), thread, n));
        check.ok(edge.slot.publish(), "publish");
        check.ok(edge.reader.get(source), "get");
        check.holds(source, pattern_of(next_of(world), thread, n), "version");
        among.wait();
      }
    }
  });
  meeting.wait();
}

}  // namespace

Bodies thread_bodies() {
  return {{"serves_threads_with_slots_of_their_own", serves_threads_with_slots_of_their_own, true},
          {"attaches_from_several_threads", attaches_from_several_threads, true}};
}

}  // namespace weft::conformance
