// Waits for slots, requests and readers together.
#include <array>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;

void finds_each_kind_of_handle_in_a_set(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge in(world, {.name = "in", .dtype = DType::u8, .shape = {100}});
  RingEdge full(world, {.name = "full", .dtype = DType::u8, .shape = {100}});
  PublishedEdge news(world, {.name = "news", .dtype = DType::u8, .shape = {100}});
  const auto source = allocate_source(world, DType::u8, {100});
  check.ok(full.remote.put(source).wait(), "put");
  Request pending = full.remote.put(source);
  const std::array<Slot*, 1> slots{&in.slot};
  const std::array<PublishedReader*, 1> readers{&news.reader};
  const std::array<Request*, 1> requests{&pending};
  const WaitSet set{.slots = slots, .requests = requests, .readers = readers};
  const auto began = Clock::now();
  const auto late = check.ends(world.wait_any(set, Deadline::after(milliseconds(200))).status(),
                               Code::timeout, "nothing was put, published or let go");
  check(Clock::now() - began >= milliseconds(200), "the wait ended before its deadline");
  for (const char* words : {"none of 3", "\"in\"", "\"news\"", "\"full\""})
    check(late.message.find(words) != std::string::npos, late.message);
  meeting.wait();
  for (int n = 0; n < 5; ++n) {
    check.ok(in.remote.put(source).wait(), "put");
    check.equal(check.ok(world.wait_any(set), "wait_any"), 0U, "the slot with an arrival");
    check.ok(in.slot.wait(), "wait").release();
    meeting.wait();
    check.ok(news.slot.next(), "next");
    check.ok(news.slot.publish(), "publish");
    check.equal(check.ok(world.wait_any(set), "wait_any"), 2U, "the reader with a new version");
    check.ok(news.reader.view(), "view").release();
    meeting.wait();
    check.ok(full.slot.wait(), "wait").release();
    check.equal(check.ok(world.wait_any(set), "wait_any"), 1U, "the request that has ended");
    check.ok(pending.wait(), "put");
    meeting.wait();
    pending = full.remote.put(source);
  }
  meeting.wait();
  check.ok(full.slot.wait(), "wait").release();
  check.ok(full.slot.wait(), "wait").release();
  check.ok(pending.wait(), "put");
  meeting.wait();
}

/// A plan that needs the next rank, a message of the previous one, and a slot, together.
void finds_plans_and_messages_in_a_set(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge in(world, {.name = "in", .dtype = DType::u8, .shape = {100}});
  const auto source = allocate_source(world, DType::u8, {100});
  Messages messages(world);
  Collectives all = Collectives::open(world);
  const auto values = allocate_source(world, DType::i32, {5000});
  Plan plan = all.plan(all_reduce(values, Reduction::sum));
  const auto into = allocate_source(world, DType::u8, {10'000});
  const auto sent = allocate_source(world, DType::u8, {10'000});
  const std::array<Slot*, 1> slots{&in.slot};
  for (int n = 0; n < 5; ++n) {
    set_values(world, values, std::vector<std::int32_t>(5000, 1));
    MessageRequest message = messages.irecv(previous_of(world), 1, into);
    const std::array<MessageRequest*, 1> awaited{&message};
    const std::array<Plan*, 1> plans{&plan};
    const WaitSet set{.slots = slots, .plans = plans, .messages = awaited};
    const bool late_starter = world.rank() == 0 && world.size() > 1;
    if (!late_starter) check.ok(plan.start(), "start");
    if (late_starter) {
      const WaitSet without{.slots = slots, .messages = awaited};
      const auto late =
          check.ends(world.wait_any(without, Deadline::after(milliseconds(20))).status(),
                     Code::timeout, "nothing has come");
      check.says(late.message, "none of 2");
      check.says(late.message, "no message from rank " + std::to_string(previous_of(world)));
      check.ok(plan.start(), "start");
    }
    check.equal(check.ok(world.wait_any(set), "wait_any"), 1U, "the plan");
    check.ok(plan.wait(), "all_reduce");
    check.equal(values_of<std::int32_t>(world, values)[4999], world.size(), "the sum");
    meeting.wait();
    MessageRequest sending = messages.isend(next_of(world), 1, sent);
    const WaitSet rest{.slots = slots, .messages = awaited};
    check.equal(check.ok(world.wait_any(rest), "wait_any"), 1U, "the message");
    check.equal(check.ok(message.wait(), "recv").bytes, 10'000U, "its bytes");
    check.ok(sending.wait(), "send");
    message = messages.irecv(previous_of(world), 2, into);
    meeting.wait();
    check.ok(in.remote.put(source).wait(), "put");
    check.equal(check.ok(world.wait_any(rest), "wait_any"), 0U, "the slot");
    check.ok(in.slot.wait(), "wait").release();
    check.ends(message.cancel(), Code::cancelled, "cancel");
    meeting.wait();
  }
  Plan none;
  const std::array<Plan*, 1> empty{&none};
  check.ends(world.wait_any(WaitSet{.plans = empty}).status(), Code::bad_argument, "an empty plan");
}

}  // namespace

Bodies wait_set_bodies() {
  return {{"finds_each_kind_of_handle_in_a_set", finds_each_kind_of_handle_in_a_set},
          {"finds_plans_and_messages_in_a_set", finds_plans_and_messages_in_a_set}};
}

}  // namespace weft::conformance
