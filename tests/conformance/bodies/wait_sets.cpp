// Waits for slots, requests and readers together.
#include <array>

#include "tests/conformance/body.hpp"
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
  const auto source = world.allocate(DType::u8, {100});
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

}  // namespace

Bodies wait_set_bodies() {
  return {{"finds_each_kind_of_handle_in_a_set", finds_each_kind_of_handle_in_a_set}};
}

}  // namespace weft::conformance
