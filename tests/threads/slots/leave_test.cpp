// A rank that leaves with messages to send takes nobody by surprise.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "p2p/rendezvous/rendezvous_messages.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

class Leave : public testing::TestWithParam<const char*> {};

// Its peer tells that it leaves, and reads nothing before and for a while after that; the
// connection holds only some messages.
TEST_P(Leave, ComesAfterAllThatWasSentBefore) {
  constexpr int kMessages = 2000;
  Meeting meeting(2);
  run_on(2, settings().with(Setting::fabric, GetParam()), [&](World& world) {
    detail::WorldState& state = WorldAccess::state(world);
    if (world.rank() == 0) {
      meeting.wait();
      state.local.progress.run([&] {
        for (int i = 0; i < kMessages; ++i)
          state.mesh.send(state.mesh.peer(1), p2p::RendezvousOnControl());
      });
      return;
    }
    state.local.progress.post([] { std::this_thread::sleep_for(milliseconds(300)); });
    meeting.wait();
    std::thread leaving([&] { EXPECT_TRUE(world.leave().ok()); });
    std::this_thread::sleep_for(milliseconds(100));
    state.local.progress.post([] { std::this_thread::sleep_for(milliseconds(500)); });
    leaving.join();
    EXPECT_EQ(state.mesh.peer(0).state.load(), p2p::PeerState::left);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Leave, testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::tests
