// A rank leaves, and its world goes, while a GPU copies for every kind of call.
#include "tests/cuda/world/gpu_rank.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Copies take tens of milliseconds.
class Leave : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }
};

TEST_F(Leave, DoesNotWaitForCopiesAndTakesNothingFromThem) {
  const Deadline at_once = Deadline::after(std::chrono::nanoseconds(1));
  run_on(1, [&](World& world) {
    const Tensor host = world.allocate(DType::f32, {1000});
    const Tensor gpu = world.allocate(DType::f32, {1000}, Memory::gpu(0));
    // A dynamic slot: into a fixed one the writer's copy would have ended with its put.
    const SlotSpec spec{
        .name = "in", .shape = {1000}, .placement = Placement::dynamic, .memory = Memory::gpu(0)};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    const Request putting = remote.put(host);
    EXPECT_EQ(slot.wait(at_once).code(), Code::timeout);
    PublishedSlot news =
        world.expose_published({.name = "news", .shape = {1000}, .memory = Memory::gpu(0)});
    (void)news.next().value();
    EXPECT_EQ(news.publish(at_once).code(), Code::timeout);
    Messages messages(world);
    MessageRequest receiving = messages.irecv(0, Tag(1), gpu);
    messages.send(0, 1, host.part(0, {10})).or_throw();
    EXPECT_EQ(receiving.wait(at_once).code(), Code::timeout);
    auto group = Collectives::open(world);
    Plan plan = group.plan(all_reduce(gpu, Reduction::sum));
    plan.start().or_throw();
    Rendezvous exchange = Rendezvous::open(world, {.memory = Memory::gpu(0)});
    exchange.send(0, "t", 1, host).or_throw();
    while (exchange.recv(0, "t", 1, at_once).status().text().find("has arrived") ==
           std::string::npos)
      std::this_thread::yield();
    EXPECT_TRUE(world.leave().ok());
  });
  EXPECT_TRUE(late_copies_end());
}

}  // namespace
}  // namespace weft::tests
