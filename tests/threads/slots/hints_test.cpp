// The timeout of a call suggests WEFT_TIMEOUT only where that was the limit.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/errors.hpp"
#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"
#include "weft/signal.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using Wait = std::function<Status(Deadline)>;

TEST(Hints, NameTheSettingOnlyForWaitsWithoutADeadline) {
  Meeting meeting(2);
  const Deadline enough = Deadline::after(std::chrono::seconds(20));
  run_on(2, settings().with(Setting::timeout, "1s"), [&](World& world) {
    const SlotSpec spec{.name = "in", .shape = {4}};
    const PublishedSpec news{.name = "news", .shape = {4}};
    Slot slot = world.expose(spec);
    PublishedSlot published = world.expose_published(news);
    const int other = 1 - world.rank();
    PublishedReader reader = world.attach_published(other, news, enough);
    Signal signal = Signal::expose(world, "signal");
    Messages messages(world);
    Rendezvous rendezvous = Rendezvous::open(world, {}, enough);
    Collectives group = Collectives::open(world, enough);
    const Tensor tensor = world.allocate(DType::f32, {4});
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    meeting.wait();
    if (world.rank() == 0) {
      const std::array<Slot*, 1> slots{&slot};
      plan.start().or_throw();
      const std::vector<std::pair<const char*, Wait>> waits{
          {"Slot::wait", [&](Deadline d) { return slot.wait(d).status(); }},
          {"PublishedReader::view", [&](Deadline d) { return reader.view(d).status(); }},
          {"PublishedReader::get", [&](Deadline d) { return reader.get(tensor, d); }},
          {"Signal::wait_at_least",
           [&](Deadline d) { return signal.wait_at_least(1, d).status(); }},
          {"Messages::recv", [&](Deadline d) { return messages.recv(1, 1, tensor, d).status(); }},
          {"Messages::probe", [&](Deadline d) { return messages.probe(1, 1, d).status(); }},
          {"Rendezvous::recv", [&](Deadline d) { return rendezvous.recv(1, "k", 1, d).status(); }},
          {"Plan::wait", [&](Deadline d) { return plan.wait(d); }},
          {"World::wait_any", [&](Deadline d) { return world.wait_any(slots, d).status(); }}};
      for (const auto& [name, wait] : waits) {
        const Status given = wait(Deadline::after(milliseconds(10)));
        EXPECT_EQ(given.code(), Code::timeout) << name << ": " << given.text();
        EXPECT_FALSE(contains(given.text(), "WEFT_TIMEOUT")) << given.text();
        EXPECT_TRUE(contains(given.text(), "a longer deadline")) << given.text();
        const Status own = wait({});
        EXPECT_TRUE(contains(own.text(), "a longer deadline: WEFT_TIMEOUT")) << name << own.text();
      }
    }
    meeting.wait();
    if (world.rank() == 1) plan.start().or_throw();
    EXPECT_TRUE(plan.wait(enough).ok());
    meeting.wait();
  });
}

TEST(Timeouts, CallASignalASignalAndTellTheBitsOfATagOnlyIfSomeDoNotCount) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Signal signal = Signal::expose(world, "steps");
    Messages messages(world);
    const Tensor tensor = world.allocate(DType::f32, {4});
    const auto soon_late = [] { return Deadline::after(milliseconds(10)); };
    meeting.wait();
    if (world.rank() == 0) {
      const std::string signals = signal.wait_at_least(1, soon_late()).status().text();
      EXPECT_TRUE(contains(signals, "signal \"steps\"")) << signals;
      EXPECT_FALSE(contains(signals, "slot")) << signals;
      const std::string attach =
          thrown_by([&] { (void)RemoteSignal::attach(world, 1, "none", soon_late()); }).text();
      EXPECT_TRUE(contains(attach, "signal \"none\"")) << attach;
      EXPECT_FALSE(contains(attach, "slot")) << attach;
      const std::string exact = messages.recv(1, 9, tensor, soon_late()).status().text();
      EXPECT_TRUE(contains(exact, "(tag 9)")) << exact;
      const std::string masked =
          messages.recv(1, Tag(8, 0xf8), tensor, soon_late()).status().text();
      EXPECT_TRUE(contains(masked, "(tag 8, bits 0xf8)")) << masked;
      const std::string any = messages.probe(1, kAnyTag, soon_late()).status().text();
      EXPECT_TRUE(contains(any, "(any tag)")) << any;
    }
    meeting.wait();
  });
}

TEST(Timeouts, OfAWaitTellThatThisRankHasNotReleasedTheLastTensor) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {4}};
    if (world.rank() == 1) {
      RemoteSlot remote = world.attach(0, spec);
      remote.put(world.allocate(DType::f32, {4})).wait().or_throw();
      meeting.wait();
    } else {
      Slot slot = world.expose(spec);
      Arrival kept = slot.wait().value();
      const Status held = slot.wait(Deadline::after(milliseconds(10))).status();
      EXPECT_TRUE(tells(held, Code::timeout, {"this rank has not released tensor 1"}));
      kept.release();
      const Status late = slot.wait(Deadline::after(milliseconds(10))).status();
      EXPECT_FALSE(contains(late.text(), "released")) << late.text();
      meeting.wait();
    }
  });
}

}  // namespace
}  // namespace weft::tests
