// Handles that are empty, were moved from, or have outlived what they were made from: their calls
// fail with one of two codes or say nothing, and any order of destruction is safe.
// handle_calls.py compares the table of calls with the headers.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/threads/handles/every_handle.hpp"

namespace weft::tests {
namespace {

using Answer = HandleCall::Answer;

void expect_empty(EveryHandle& all, const HandleCall& call) {
  SCOPED_TRACE(call.name);
  const Status status = outcome(call, all);
  if (call.answer == Answer::is_quiet || call.answer == Answer::has_ended) {
    EXPECT_TRUE(status.ok()) << status.text();
    return;
  }
  EXPECT_EQ(status.code(), Code::bad_argument) << status.text();
  EXPECT_NE(status.detail().message.find(call.type()), std::string::npos) << status.text();
}

void expect_orphan(EveryHandle& all, const HandleCall& call) {
  SCOPED_TRACE(call.name);
  const Status status = outcome(call, all);
  if (call.answer != Answer::fails && call.answer != Answer::has_ended) return;
  EXPECT_EQ(status.code(), Code::closed) << status.text();
}

TEST(Handles, ThatWereDefaultConstructedAreBadArguments) {
  EveryHandle all;
  for (const HandleCall& call : handle_calls())
    if (has_handle_for(all, call)) expect_empty(all, call);
}

TEST(Handles, ThatWereMovedFromAreBadArguments) {
  const Places places;
  auto all = make_every_handle(places);
  const auto holder = std::make_unique<EveryHandle>(std::move(*all));
  for (const HandleCall& call : handle_calls()) expect_empty(*all, call);
}

TEST(Handles, ThatWereMovedFromByAssignmentAreEmptyToo) {
  const Places places;
  auto all = make_every_handle(places);
  EveryHandle holder;
  holder.slot = all->world.expose({.name = "another", .shape = kShape});
  holder.published = all->world.expose_published({.name = "one more", .shape = kShape});
  holder.signal = Signal::expose(all->world, "a second");
  holder.slot = std::move(all->slot);
  holder.published = std::move(all->published);
  holder.signal = std::move(all->signal);
  holder.viewer = std::move(all->viewer);
  holder.remote = std::move(all->remote);
  EXPECT_EQ(all->slot.wait(at_once()).code(), Code::bad_argument);
  EXPECT_EQ(all->published.next(at_once()).code(), Code::bad_argument);
  EXPECT_EQ(all->signal.wait_at_least(1, at_once()).code(), Code::bad_argument);
  // Their former slots are closed at once: the names are free.
  all->slot = all->world.expose({.name = "another", .shape = kShape});
  all->signal = Signal::expose(all->world, "a second");
}

TEST(Handles, ThatOutliveTheirWorldAreClosed) {
  const Places places;
  auto all = make_every_handle(places);
  all->tensor.as<float>()[3] = 7;
  const std::span<float> arrived = all->arrival.as<float>();
  const std::span<float> viewed = all->viewed.as<float>();
  { const World gone = std::move(all->world); }
  EXPECT_EQ(all->tensor.as<float>()[3], 7);
  EXPECT_EQ(all->arrival.as<float>().data(), arrived.data());
  EXPECT_EQ(arrived.size(), 4U);
  EXPECT_EQ(viewed.size(), 4U);
  float sum = 0;
  for (const float element : viewed) sum += element;  // its memory is there
  for (const float element : arrived) sum += element;
  all->traced.as<float>()[0] = sum;
  for (const HandleCall& call : handle_calls())
    if (call.type() != "World") expect_orphan(*all, call);
}

TEST(Handles, OfAWorldThatHasLeftAreClosed) {
  const Places places;
  auto all = make_every_handle(places);
  all->world.leave().or_throw();
  for (const HandleCall& call : handle_calls()) expect_orphan(*all, call);
  EXPECT_EQ(all->world.size(), 1);
  EXPECT_FALSE(all->world.allocate(DType::f32, kShape).empty());
}

TEST(Handles, ThatOutliveAnotherHandleAreClosed) {
  const Places places;
  auto all = make_every_handle(places);
  all->remote = {};
  EXPECT_EQ(all->request.wait(at_once()).code(), Code::closed);
  all->collectives = {};
  EXPECT_EQ(all->plan.start().code(), Code::closed);
  all->publisher.reset();
  EXPECT_EQ(all->publication->publish(std::span(&all->tensor, 1)).code(), Code::closed);
  all->executor.reset();
  EXPECT_EQ(all->checkpoints->step_ended().code(), Code::closed);
  EXPECT_EQ(all->variables->pull().code(), Code::closed);
  all->server.reset();
  all->table->initialize().or_throw();
}

/// A tensor that was received stays readable when its slot has gone, and its name is free.
TEST(Handles, ArrivalsKeepTheMemoryOfTheirSlots) {
  World world = World::join();
  Slot slot = world.expose({.name = "s", .shape = kShape});
  RemoteSlot remote = world.attach(0, "s");
  Tensor sent = world.allocate(DType::f32, kShape);
  for (float& element : sent.as<float>()) element = 5;
  remote.put(sent).wait().or_throw();
  Arrival arrival = slot.wait().value();
  PublishedSlot published = world.expose_published({.name = "p", .shape = kShape});
  PublishedReader reader = world.attach_published(0, "p");
  for (float& element : published.next().value().as<float>()) element = 6;
  published.publish().or_throw();
  Arrival viewed = reader.view().value();
  slot = {};
  reader = {};
  Slot next = world.expose({.name = "s", .shape = kShape});
  EXPECT_EQ(arrival.as<float>()[3], 5);
  EXPECT_EQ(viewed.as<float>()[3], 6);
  EXPECT_EQ(published.readers(), 1);  // it detaches with its last arrival
  viewed.release();
  for (int i = 0; i < 1000 && published.readers() != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(published.readers(), 0);
}

TEST(Handles, MayGoInEveryOrderOfTwo) {
  const Places places;
  std::size_t tried = 0;
  for (const Kind& first : kinds())
    for (const Kind& second : kinds()) {
      if (&first == &second) continue;
      SCOPED_TRACE(std::string(first.name) + ", then " + second.name);
      auto all = make_every_handle(places);
      first.drop(*all);
      // Its calls may answer anything, and come back.
      for (const HandleCall& call : handle_calls())
        if (call.type() == second.name &&
            std::string(call.name).find("leave") == std::string::npos && has_handle_for(*all, call))
          (void)outcome(call, *all);
      second.drop(*all);
      ++tried;
    }
  EXPECT_EQ(tried, kinds().size() * (kinds().size() - 1));
}

TEST(Handles, MayGoInEveryOrderAfterTheirWorldHasLeft) {
  const Places places;
  for (const Kind& first : kinds()) {
    SCOPED_TRACE(first.name);
    auto all = make_every_handle(places);
    all->world.leave().or_throw();
    first.drop(*all);
  }
}

/// Both ends, on two ranks: the other rank hears that this one has left.
TEST(Handles, OfOneRankThatOutliveTheirWorldDontHoldUpAnother) {
  struct Program {
    Slot slot;
    RemoteSlot remote;
    World world;
  };
  InProcessJob job(2, settings());
  std::thread other([&] {
    Program program;
    program.world = job.join(1);
    program.slot = program.world.expose({.name = "to 1", .shape = kShape});
    program.remote = program.world.attach(0, "to 0");
    EXPECT_TRUE(program.slot.wait().ok());
    const Tensor tensor = program.world.allocate(DType::f32, kShape);
    EXPECT_TRUE(program.remote.put(tensor, Until::delivered).wait().ok());
    program.world = World();
    EXPECT_EQ(program.slot.wait().code(), Code::closed);
    EXPECT_EQ(program.remote.put(tensor).wait().code(), Code::closed);
  });
  World world = job.join(0);
  Slot slot = world.expose({.name = "to 0", .shape = kShape});
  RemoteSlot remote = world.attach(1, "to 1");
  EXPECT_TRUE(remote.put(world.allocate(DType::f32, kShape)).wait().ok());
  EXPECT_TRUE(slot.wait().ok());
  EXPECT_EQ(slot.wait().code(), Code::peer_left);
  other.join();
  EXPECT_TRUE(world.leave().ok());
}

}  // namespace
}  // namespace weft::tests
