// Ranks as threads that poll what their peers write.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_rig.hpp"

namespace weft::p2p::verbs::fake {
namespace {

constexpr std::size_t kWords = 64;

std::uint64_t& word(Side& side, std::size_t index) {
  return *reinterpret_cast<std::uint64_t*>(&side.memory[index * 8]);
}
std::uint64_t seen(Side& side, std::size_t index) {
  return std::atomic_ref<std::uint64_t>(word(side, index)).load(std::memory_order_acquire);
}

// In each round, puts a payload that ends in a sequence word and takes the peer's: by polling the
// word in even rounds if `in_order`, otherwise by completion. Each put answers the peer's, so that
// no rank overwrites memory that the other still reads.
void play(Side& side, const Pair& pair, Side& peer, bool first, int rounds, bool in_order) {
  constexpr std::size_t kOut = 0;
  constexpr std::size_t kIn = 1024;
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(rounds); ++round) {
    const bool tail = in_order && round % 2 == 0;
    if (!tail) {
      ASSERT_EQ(pair.receive(round), 0);
    }
    const auto put = [&] {
      for (std::size_t i = 0; i < kWords; ++i) word(side, kOut + i) = round;
      ibv_send_wr request =
          write_request(round, peer, kIn * 8, tail ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
                        IBV_SEND_SIGNALED);
      ASSERT_EQ(pair.send(request, {side.sge(kOut * 8, kWords * 8)}), 0);
    };
    const auto take = [&] {
      if (tail)
        while (seen(side, kIn + kWords - 1) != round) std::this_thread::yield();
      else
        while (true) {
          const auto wc = side.poll();
          ASSERT_TRUE(wc);
          ASSERT_EQ(wc->status, IBV_WC_SUCCESS);
          if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) break;
        }
      for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(word(side, kIn + i), round);
    };
    if (first) put();
    take();
    if (!first) put();
  }
}

class FakeThreads : public TwoRanks {
 protected:
  void run(int rounds) {
    const bool in_order = a_->verbs->data_in_order(ab_->qp.get(), IBV_WR_RDMA_WRITE);
    std::thread other([&] { play(*b_, *ba_, *a_, false, rounds, in_order); });
    play(*a_, *ab_, *b_, true, rounds, in_order);
    other.join();
  }
};

TEST_F(FakeThreads, PolledWordsAndCompletionsComeAfterTheirPayload) {
  const NicSpec spec{.data_in_order = true};
  make(spec, spec);
  run(400);
}

TEST_F(FakeThreads, SoTheyDoWhenEverythingIsLateAndScattered) {
  const NicSpec spec{.faults = {.delayed = 0.3, .late = 0.3, .scattered = 0.5, .spurious = 0.2}};
  make(spec, spec);
  run(200);
}

}  // namespace
}  // namespace weft::p2p::verbs::fake
