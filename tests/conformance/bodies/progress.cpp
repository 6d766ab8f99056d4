// Conformance bodies: the operations that a rank has started go on while the rank waits for
// something else. Otherwise each of these bodies would hang.
#include <array>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

/// More messages than a sender's ring holds, of a size that goes through the ring.
constexpr std::uint64_t kQueued = 300;
/// Elements: too large to travel with the words of the call, so the fabric sends several pieces
/// between hosts.
constexpr std::int64_t kLarge = kSanitized ? 50'000 : 200'000;

/// A group of all ranks with an all_reduce of ones in it.
struct Sum {
  explicit Sum(World& of, std::int64_t count = kLarge)
      : world(of),
        group(Collectives::open(world)),
        tensor(allocate_source(world, DType::i32, {count})) {
    plan = group.plan(all_reduce(tensor, Reduction::sum));
  }
  void start(const Check& check) {
    set_values(world, tensor,
               std::vector<std::int32_t>(static_cast<std::size_t>(tensor.shape().elements()), 1));
    check.ok(plan.start(), "start");
  }
  void wait(const Check& check) {
    check.ok(plan.wait(), "wait for a plan");
    verify(check);
  }
  void verify(const Check& check) const {
    for (const auto value : values_of<std::int32_t>(world, tensor))
      check.equal(value, group.size(), "all_reduce");
  }

  World& world;
  Collectives group;
  Tensor tensor;
  Plan plan;
};

bool is_odd(const World& world) { return world.rank() % 2 == 1; }

void groups_go_on_in_waits_for_each_other(World& world) {
  const Check check(world);
  Meeting meeting(world);
  std::array<Sum, 2> sums{Sum(world), Sum(world, 3 * kLarge / 2)};
  for (int again = 0; again < 5; ++again) {
    for (Sum& sum : sums) sum.start(check);
    for (const bool last : {is_odd(world), !is_odd(world)}) sums[last ? 1 : 0].wait(check);
  }
  meeting.wait();
}

void groups_go_on_in_tests_of_each_other(World& world) {
  const Check check(world);
  Meeting meeting(world);
  std::array<Sum, 2> sums{Sum(world), Sum(world)};
  for (Sum& sum : sums) sum.start(check);
  for (const bool last : {is_odd(world), !is_odd(world)}) {
    Sum& sum = sums[last ? 1 : 0];
    check(meeting.soon([&] { return sum.plan.test(); }), "it ends");
    sum.wait(check);
  }
  meeting.wait();
}

/// Rank 0 waits for a message that the last rank sends once it has its sum.
void a_group_goes_on_in_waits_for_messages(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  Sum sum(world);
  const Tensor word = allocate_source(world, DType::u8, {8});
  sum.start(check);
  if (world.rank() == 0 && world.size() > 1)
    (void)check.ok(messages.recv(world.size() - 1, 1, word), "recv");
  sum.wait(check);
  if (world.rank() > 0 && world.rank() == world.size() - 1)
    check.ok(messages.send(0, 1, word), "send");
  meeting.wait();
}

void a_group_goes_on_in_waits_for_arrivals(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Sum sum(world);
  RingEdge edge(world, {.name = "after the sum", .dtype = DType::u8, .shape = {100}});
  sum.start(check);
  if (world.rank() == 0 && world.size() > 1) (void)check.ok(edge.slot.wait(), "arrival");
  sum.wait(check);
  if (world.rank() > 0 && next_of(world) == 0)
    check.ok(edge.remote.put(allocate_source(world, DType::u8, {100})).wait(), "put");
  meeting.wait();
}

/// Two puts into one buffer: the second completes once the owner has released the first.
void a_group_goes_on_in_waits_for_credits(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Sum sum(world);
  RingEdge edge(world, {.name = "one buffer", .dtype = DType::u8, .shape = {100}});
  const Tensor source = allocate_source(world, DType::u8, {100});
  sum.start(check);
  if (world.rank() == 0 && world.size() > 1)
    for (int i = 0; i < 2; ++i) check.ok(edge.remote.put(source).wait(), "put");
  sum.wait(check);
  if (world.rank() == 1)
    for (int i = 0; i < 2; ++i) (void)check.ok(edge.slot.wait(), "arrival");
  meeting.wait();
}

/// Rank 0 sends rank 1 more than the ring holds; rank 1 receives all of it before it enters the
/// collective.
template <typename Wait, typename Come>
void queued_sends_go_on_in(World& world, const Wait& wait, const Come& come) {
  const Check check(world);
  Messages messages(world);
  const Tensor word = allocate_source(world, DType::u8, {24});
  fill(world, word, pattern_of(0, 1, 1));
  std::vector<MessageRequest> sending;
  for (std::uint64_t n = 0; world.rank() == 0 && world.size() > 1 && n < kQueued; ++n)
    sending.push_back(messages.isend(1, n, word));
  for (std::uint64_t n = 0; world.rank() == 1 && n < kQueued; ++n) {
    fill(world, word, 0);
    (void)check.ok(messages.recv(0, n, word), "recv");
    check.holds(word, pattern_of(0, 1, 1), "message");
  }
  if (world.rank() == 0)
    wait();
  else
    come();
  check.ok(messages.wait_all(sending), "sends");
}

void queued_sends_go_on_in_waits_for_a_group(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Collectives group = Collectives::open(world);
  const auto meet = [&] { check.ok(group.run(barrier()), "barrier"); };
  queued_sends_go_on_in(world, meet, meet);
  meeting.wait();
}

void queued_sends_go_on_in_waits_for_arrivals(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Slot slot;
  if (world.rank() == 0 && world.size() > 1)
    slot = world.expose({.name = "all taken", .dtype = DType::u8, .shape = {1}});
  queued_sends_go_on_in(
      world,
      [&] {
        if (world.size() > 1) (void)check.ok(slot.wait(), "arrival");
      },
      [&] {
        if (world.rank() != 1) return;
        RemoteSlot remote =
            world.attach(0, {.name = "all taken", .dtype = DType::u8, .shape = {1}});
        check.ok(remote.put(allocate_source(world, DType::u8, {1})).wait(), "put");
      });
  meeting.wait();
}

/// The receiver reads the tensor directly from the sender's memory; the sender waits for that and
/// then enters the collective.
void posted_receives_go_on_in_waits_for_a_group(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  Collectives group = Collectives::open(world);
  const Tensor tensor = allocate_source(world, DType::u8, {settings().large / 4});
  MessageRequest receiving;
  if (world.rank() == 0 && world.size() > 1) receiving = messages.irecv(1, 5, tensor);
  if (world.rank() == 1) {
    fill(world, tensor, pattern_of(1, 5, 1));
    check.ok(messages.send(0, 5, tensor), "send");
  }
  check.ok(group.run(barrier()), "barrier");
  if (world.rank() == 0 && world.size() > 1) {
    // A GPU's copy of what has come may go on.
    check(settings().ends.other.is_gpu() || receiving.test(),
          "it was received before the sender came");
    (void)check.ok(receiving.wait(), "recv");
    check.holds(tensor, pattern_of(1, 5, 1), "message");
  }
  meeting.wait();
}

/// A thread whose exceptions join() rethrows.
class Thread {
 public:
  template <typename Body>
  explicit Thread(Body body)
      : thread_([this, body = std::move(body)] {
          try {
            body();
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}
  ~Thread() {
    if (thread_.joinable()) thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void join() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::thread thread_;
};

void a_group_goes_on_while_another_thread_waits(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Collectives others = Collectives::open(world);
  Sum sum(world);
  for (int again = 0; again < 5; ++again) {
    sum.start(check);
    const auto meet = [&] { check.ok(others.run(barrier()), "barrier"); };
    if (world.rank() == 0) Thread(meet).join();  // weft sees nothing of this wait
    sum.wait(check);
    if (world.rank() > 0) meet();
  }
  meeting.wait();
}

/// Each thread waits for its own operations and makes progress on those of the others too.
void threads_move_what_each_of_them_has_begun(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  std::deque<Sum> sums;
  for (int i = 0; i < 2; ++i) sums.emplace_back(world, 3000);
  std::deque<Thread> threads;
  for (Sum& sum : sums)
    threads.emplace_back([&] {
      for (int again = 0; again < (kSanitized ? 20 : 100); ++again) {
        sum.start(check);
        while (again % 3 == 0 && !sum.plan.test()) std::this_thread::yield();
        sum.wait(check);
      }
    });
  const Tensor out = allocate_source(world, DType::u8, {100});
  const Tensor in = allocate_source(world, DType::u8, {100});
  for (std::uint64_t n = 0; n < (kSanitized ? 30 : 150); ++n) {
    MessageRequest receiving = messages.irecv(previous_of(world), n, in);
    fill(world, out, pattern_of(world.rank(), 3, n));
    check.ok(messages.send(next_of(world), n, out), "send");
    (void)check.ok(receiving.wait(), "recv");
    check.holds(in, pattern_of(previous_of(world), 3, n), "message");
  }
  for (Thread& thread : threads) thread.join();
  meeting.wait();
}

}  // namespace

Bodies progress_bodies() {
  return {
      {"groups_go_on_in_waits_for_each_other", groups_go_on_in_waits_for_each_other},
      {"groups_go_on_in_tests_of_each_other", groups_go_on_in_tests_of_each_other},
      {"a_group_goes_on_in_waits_for_messages", a_group_goes_on_in_waits_for_messages},
      {"a_group_goes_on_in_waits_for_arrivals", a_group_goes_on_in_waits_for_arrivals},
      {"a_group_goes_on_in_waits_for_credits", a_group_goes_on_in_waits_for_credits},
      {"queued_sends_go_on_in_waits_for_a_group", queued_sends_go_on_in_waits_for_a_group},
      {"queued_sends_go_on_in_waits_for_arrivals", queued_sends_go_on_in_waits_for_arrivals},
      {"posted_receives_go_on_in_waits_for_a_group", posted_receives_go_on_in_waits_for_a_group},
      {"a_group_goes_on_while_another_thread_waits", a_group_goes_on_while_another_thread_waits,
       true},
      {"threads_move_what_each_of_them_has_begun", threads_move_what_each_of_them_has_begun, true},
  };
}

}  // namespace weft::conformance
