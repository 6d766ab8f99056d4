// Rendezvous: a tensor that is offered under a key and step arrives once, whole, whichever side
// comes first.
#include <string>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"
#include "weft/rendezvous.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

Rendezvous open(World& world, const std::string& name) {
  return Rendezvous::open(world, {.name = name, .memory = settings().ends.owner});
}

Tensor filled(World& world, const Shape& shape, std::uint64_t pattern) {
  Tensor tensor = allocate_source(world, DType::f32, shape);
  fill(world, tensor, pattern);
  return tensor;
}

void exchanges_keys_in_either_order(World& world) {
  if (world.size() < 2) return;
  const Check check(world);
  Meeting meeting(world);
  Rendezvous exchange = open(world, "either order");
  for (const bool asked_first : {false, true})
    for (std::uint64_t step = 0; step < 12; ++step) {
      const std::string key = asked_first ? "late" : "early";
      // The shape changes now and then, which costs another round trip.
      const Shape shape{static_cast<std::int64_t>(1 + step / 5), 700};
      if (asked_first) {
        check(!exchange.ready(previous_of(world), key, step), "a tensor that was not offered");
        meeting.wait();
      }
      check.ok(exchange.send(next_of(world), key, step,
                             filled(world, shape, pattern_of(world.rank(), 1, step))),
               "send");
      const Received got = check.ok(exchange.recv(previous_of(world), key, step), "recv");
      check.equal(got.tensor.shape(), shape, "shape");
      check(got.tensor.memory().is_gpu() == settings().ends.owner.is_gpu(), "the memory");
      check(!got.is_dead, "a tensor with content");
      check.holds(got.tensor, pattern_of(previous_of(world), 1, step), key);
    }
  check.ok(exchange.serve(), "serve");
  meeting.wait();
}

void exchanges_large_and_empty_tensors(World& world) {
  if (world.size() < 2) return;
  const Check check(world);
  Meeting meeting(world);
  Rendezvous exchange = open(world, "sizes");
  std::uint64_t step = 0;
  for (const std::int64_t elements : {std::int64_t{0}, std::int64_t{1}, settings().large / 4})
    for (int again = 0; again < 2; ++again) {
      ++step;
      check.ok(exchange.send(next_of(world), "w", step,
                             filled(world, {elements}, pattern_of(world.rank(), 2, step))),
               "send");
      const Received got = check.ok(exchange.recv(previous_of(world), "w", step), "recv");
      check.holds(got.tensor, pattern_of(previous_of(world), 2, step), "tensor");
    }
  check.ok(exchange.serve(), "serve");
  meeting.wait();
}

/// Every rank offers several keys to every other one, which receives them all at once, in another
/// order.
void exchanges_all_keys_with_all_ranks(World& world) {
  if (world.size() < 2) return;
  constexpr std::uint64_t kSteps = 5;
  const Check check(world);
  Meeting meeting(world);
  Rendezvous exchange = open(world, "all to all");
  const auto pattern = [&](int from, int to, std::uint64_t step) {
    return pattern_of(from, to + 10, step);
  };
  for (std::uint64_t step = 0; step < kSteps; ++step)
    for (int to = 0; to < world.size(); ++to)
      if (to != world.rank())
        check.ok(
            exchange.send(to, "part", step, filled(world, {300}, pattern(world.rank(), to, step))),
            "send");
  std::vector<KeyStep> wanted;
  for (std::uint64_t step = kSteps; step-- > 0;) wanted.push_back({"part", step});
  for (int from = 0; from < world.size(); ++from) {
    if (from == world.rank()) continue;
    auto all = exchange.recv(from, wanted);
    check.equal(all.size(), wanted.size(), "results");
    for (std::size_t i = 0; i < all.size(); ++i)
      check.holds(check.ok(std::move(all[i]), "recv").tensor,
                  pattern(from, world.rank(), wanted[i].step), "part");
  }
  check.ok(exchange.serve(), "serve");
  meeting.wait();
}

void tells_of_tensors_without_content(World& world) {
  if (world.size() < 2) return;
  const Check check(world);
  Meeting meeting(world);
  Rendezvous exchange = open(world, "no content");
  check.ok(exchange.send_dead(next_of(world), "dead", 0), "send_dead");
  check.ok(exchange.send_error(next_of(world), "error", 0, Code::mismatch, "no such tensor"),
           "send_error");
  check(check.ok(exchange.recv(previous_of(world), "dead", 0), "recv").is_dead, "a dead tensor");
  const ErrorDetail sent =
      check.ends(exchange.recv(previous_of(world), "error", 0).status(), Code::mismatch, "error");
  check.says(sent.message, "no such tensor");
  check.ends(exchange.recv(previous_of(world), "dead", 0).status(), Code::bad_argument,
             "a key that was received before");
  check.ends(
      exchange.recv(previous_of(world), "never", 0, Deadline::after(std::chrono::milliseconds(5)))
          .status(),
      Code::timeout, "a key that was never offered");
  check.ok(exchange.cancel(previous_of(world), "never", 0), "cancel");
  check.ok(exchange.serve(), "serve");
  meeting.wait();
}

}  // namespace

Bodies rendezvous_bodies() {
  return {{"exchanges_keys_in_either_order", exchanges_keys_in_either_order},
          {"exchanges_large_and_empty_tensors", exchanges_large_and_empty_tensors},
          {"exchanges_all_keys_with_all_ranks", exchanges_all_keys_with_all_ranks},
          {"tells_of_tensors_without_content", tells_of_tensors_without_content}};
}

}  // namespace weft::conformance
