// Conformance bodies: errors name the slot and the rank, on both sides where two ranks disagree.
#include <array>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;

const SlotSpec kSpec{.name = "contract", .dtype = DType::f32, .shape = {2, 3}, .depth = 2};

Deadline shortly() { return Deadline::after(milliseconds(10)); }

void tells_both_sides_of_a_mismatch(World& world) {
  const Check check(world);
  Meeting meeting(world);
  auto slot = world.expose(kSpec);
  std::vector<std::pair<SlotSpec, std::string>> wrong(5, {kSpec, ""});
  wrong[0] = {kSpec, "f64[2, 3]"};
  wrong[0].first.dtype = DType::f64;
  wrong[1] = {kSpec, "f32[3, 2]"};
  wrong[1].first.shape = {3, 2};
  wrong[2] = {kSpec, "depth 3"};
  wrong[2].first.depth = 3;
  wrong[3] = {kSpec, "synchronous"};
  wrong[3].first.flow = Flow::unsafe_synchronous;
  wrong[4] = {kSpec, "dynamic"};
  wrong[4].first.placement = Placement::dynamic;
  const auto refuses = [&](const auto& attach, const std::string& words) {
    const auto asked = check.throws(Code::mismatch, attach, "attach");
    check.says(asked.message, words);
    check.says(asked.message, "f32[2, 3] depth 2");
    check.equal(asked.slot, kSpec.name, "the slot named to the asker");
    check.equal(asked.peer, next_of(world), "the owner named to the asker");
    const auto told = check.ends(slot.wait().status(), Code::mismatch, "the owner's wait");
    check.says(told.message, words);
    check.says(told.message, "f32[2, 3] depth 2");
    check.equal(told.peer, previous_of(world), "the asker named to the owner");
    meeting.wait();
  };
  for (const auto& [other, words] : wrong) {
    const SlotSpec& spec = other;
    refuses([&] { world.attach(next_of(world), spec); }, words);
  }
  const PublishedSpec published{
      .name = kSpec.name, .dtype = kSpec.dtype, .shape = kSpec.shape, .depth = kSpec.depth};
  refuses([&] { world.attach_published(next_of(world), published); }, "written by its owner");
  refuses([&] { world.attach_published(next_of(world), kSpec.name); }, "written by its owner");
  auto remote = world.attach(next_of(world), kSpec);
  check.ok(remote.put(world.allocate(DType::f32, {2, 3})).wait(), "put after the mismatches");
  check.ok(slot.wait(), "wait after the mismatches").release();
  meeting.wait();
}

void names_the_writer_that_is_there(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const int holder = world.size() - 1;
  Slot slot;
  RemoteSlot remote;
  if (world.rank() == 0) slot = world.expose(kSpec);
  if (world.rank() == holder) remote = world.attach(0, kSpec);
  meeting.wait();
  const auto taken = check.throws(
      Code::writer_taken, [&] { world.attach(0, kSpec); }, "a second writer");
  check.says(taken.message, "rank " + std::to_string(holder));
  check.equal(taken.slot, kSpec.name, "the slot named");
  meeting.wait();
}

void names_slot_and_rank_of_what_is_late(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto late = [&](const Status& status, int peer, const std::string& slot) {
    const auto detail = check.ends(status, Code::timeout, slot);
    check.equal(detail.slot, slot, "the slot named");
    check.equal(detail.rank, world.rank(), "the rank that reports");
    check.equal(detail.peer, peer, "the rank named");
  };
  auto lonely = world.expose({.name = "lonely", .dtype = DType::u8, .shape = {1}});
  late(lonely.wait(shortly()).status(), -1, "lonely");
  RingEdge edge(world, {.name = "late", .dtype = DType::u8, .shape = {100}});
  meeting.wait();
  late(edge.slot.wait(shortly()).status(), previous_of(world), "late");
  meeting.wait();
  const auto source = world.allocate(DType::u8, {100});
  check.ok(edge.remote.put(source).wait(), "put");
  auto pending = edge.remote.put(source);
  late(pending.wait(shortly()), next_of(world), "late");
  check.ends(pending.cancel(), Code::cancelled, "cancel");
  PublishedEdge news(world, {.name = "news", .shape = {2}});
  late(news.reader.view(shortly()).status(), next_of(world), "news");
  late(news.reader.get(world.allocate(DType::f32, {2}), shortly()), next_of(world), "news");
  const std::array<Slot*, 1> slots{&lonely};
  check.ends(world.wait_any(slots, shortly()).status(), Code::timeout, "wait_any");
  const auto nobody = check.throws(
      Code::timeout, [&] { world.attach(next_of(world), "nothing", shortly()); }, "attach");
  check.equal(nobody.slot, "nothing", "the slot named");
  check.equal(nobody.peer, next_of(world), "the rank named");
  meeting.wait();
}

void refuses_what_does_not_fit(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge edge(world, kSpec);
  PublishedEdge news(world, {.name = "news", .shape = {4}});
  const auto right = world.allocate(DType::f32, {2, 3});
  const auto wrong = world.allocate(DType::f32, {3, 2});
  const auto refused = check.ends(edge.remote.put(wrong).wait(), Code::mismatch, "put");
  check.says(refused.message, "f32[3, 2]");
  check.says(refused.message, "f32[2, 3]");
  check.ends(edge.remote.put(world.allocate(DType::i32, {2, 3})).wait(), Code::mismatch, "dtype");
  const std::vector<Tensor> parts(2, right);
  check.ends(edge.remote.put(parts).wait(), Code::mismatch, "a gathered put of too much");
  check.ends(news.slot.publish(), Code::bad_argument, "publish before next");
  check.ends(news.reader.get(right), Code::mismatch, "get into a wrong shape");
  const std::array outside{SlotRun{3, 2, right.data()}};
  check.ends(news.reader.get(outside), Code::bad_argument, "a run outside the slot");
  check.throws(
      Code::duplicate_name, [&] { world.expose(kSpec); }, "expose twice");
  check.throws(
      Code::bad_argument, [&] { world.attach(world.size(), kSpec); }, "no such rank");
  check.throws(
      Code::bad_argument, [&] { world.expose({.name = "", .shape = {1}}); }, "no name");
  check.ok(edge.remote.put(right).wait(), "put after the refusals");
  check.equal(check.ok(edge.slot.wait(), "wait").sequence(), 1U, "sequence after the refusals");
  meeting.wait();
}

}  // namespace

Bodies error_bodies() {
  return {{"tells_both_sides_of_a_mismatch", tells_both_sides_of_a_mismatch},
          {"names_the_writer_that_is_there", names_the_writer_that_is_there},
          {"names_slot_and_rank_of_what_is_late", names_slot_and_rank_of_what_is_late},
          {"refuses_what_does_not_fit", refuses_what_does_not_fit}};
}

}  // namespace weft::conformance
