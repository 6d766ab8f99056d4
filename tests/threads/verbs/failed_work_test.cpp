// A work request fails in the middle of traffic: operations on that path end soon with the reason,
// and everything else goes on.
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "p2p/transport/verbs/device/failures.hpp"
#include "tests/threads/verbs/nics.hpp"

namespace weft::tests {
namespace {

const SlotSpec kSpec{.name = "in", .dtype = DType::f32, .shape = {3000}, .depth = 3};
constexpr std::uint64_t kMost = 200;

/// The results on rank 0, which puts into a slot of each other rank, and on those ranks.
struct Seen {
  std::array<Status, 3> of_the_writer;  ///< by owner: how its puts ended
  std::array<Status, 3> of_the_owner;   ///< how its waits ended
};

/// Puts until one fails.
Status put_many(World& world, RemoteSlot& remote, std::uint64_t from, std::uint64_t to) {
  const auto tensor = world.allocate(kSpec.dtype, kSpec.shape);
  for (std::uint64_t n = from; n <= to; ++n) {
    fill(tensor, pattern_of(0, remote.owner(), n));
    if (Status status = remote.put(tensor).wait(); !status.ok()) return status;
  }
  return {};
}

/// Receives until nothing more comes; every tensor must be whole and the next in order.
Status receive_many(World& world, Slot& slot, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t n = from; n <= to; ++n) {
    auto arrival = slot.wait();
    if (!arrival.ok()) return arrival.status();
    EXPECT_EQ(arrival->sequence(), n);
    EXPECT_TRUE(holds(arrival->tensor(), pattern_of(0, world.rank(), n))) << "wrong data";
  }
  return {};
}

/// Rank 0 puts to ranks 1 and 2 in turn; `fail` is called with the job when traffic has begun.
Seen traffic(NicJob& job, const std::function<void()>& fail, const Config& config) {
  Seen seen;
  Meeting meeting(3);
  job.run(3, config, [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    if (rank != 0) {
      Slot slot = world.expose(kSpec);
      EXPECT_TRUE(receive_many(world, slot, 1, 10).ok());
      meeting.wait();
      meeting.wait();
      seen.of_the_owner[rank] = receive_many(world, slot, 11, kMost);
      meeting.wait();
      if (!seen.of_the_owner[rank].ok()) {
        EXPECT_FALSE(slot.wait().ok()) << "it stays so";
      }
      return;
    }
    std::array<RemoteSlot, 3> remotes;
    for (const int owner : {1, 2}) {
      remotes[static_cast<std::size_t>(owner)] = world.attach(owner, kSpec);
      put_many(world, remotes[static_cast<std::size_t>(owner)], 1, 10).or_throw();
    }
    meeting.wait();
    fail();
    meeting.wait();
    for (std::uint64_t n = 11; n <= kMost; ++n)
      for (const std::size_t owner : {1U, 2U})
        if (seen.of_the_writer[owner].ok())
          seen.of_the_writer[owner] = put_many(world, remotes[owner], n, n);
    meeting.wait();
    for (const int owner : {1, 2}) {
      const auto at = static_cast<std::size_t>(owner);
      if (seen.of_the_writer[at].ok()) continue;
      const auto tensor = world.allocate(kSpec.dtype, kSpec.shape);
      EXPECT_FALSE(remotes[at].put(tensor).wait().ok()) << "it stays so";
      EXPECT_NE(thrown_by([&] { world.attach(owner, kSpec); }).code, Code::ok);
    }
  });
  return seen;
}

struct Case {
  ibv_wc_status status;
  const char* name;
};

/// How GoogleTest prints a case.
inline void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class AFailedRequest : public testing::TestWithParam<Case> {
 protected:
  /// Requires that the put's error gives the reason.
  static void expect_reason(const Status& status, int peer) {
    const ErrorDetail& detail = status.detail();
    EXPECT_EQ(detail.peer, peer);
    if (GetParam().status == IBV_WC_RETRY_EXC_ERR || GetParam().status == IBV_WC_WR_FLUSH_ERR) {
      EXPECT_EQ(detail.code, Code::path_failed) << status.text();
    } else {
      EXPECT_EQ(detail.code, Code::system) << status.text();
      EXPECT_TRUE(contains(status.text(), "defect of weft")) << status.text();
    }
    EXPECT_TRUE(contains(status.text(), "to rank " + std::to_string(peer))) << status.text();
  }
};

TEST_P(AFailedRequest, FailsItsPathAndNoOther) {
  for (const char* pairs : {"1", "2"}) {
    for (const std::uint64_t nth : {1U, 2U, 7U, 30U}) {
      // Where the peer may be dying, the error waits for the peer's end, so one case is enough.
      const bool once = pairs[0] == '1' && nth == 7;
      if (p2p::verbs::is_refusal(GetParam().status) && !once) continue;
      SCOPED_TRACE(std::to_string(nth) + " requests later, queue pairs: " + pairs);
      NicJob job;
      const Seen seen = traffic(
          job,
          [&] {
            job.network.set_faults(
                0, {.failures = {{.nth = job.posted(0) + nth, .status = GetParam().status}}});
          },
          verbs_settings().with(Setting::qps_per_peer, pairs));
      int failed = 0;
      for (const std::size_t owner : {1U, 2U}) {
        EXPECT_EQ(seen.of_the_writer[owner].ok(), seen.of_the_owner[owner].ok());
        if (seen.of_the_writer[owner].ok()) continue;
        ++failed;
        expect_reason(seen.of_the_writer[owner], static_cast<int>(owner));
        const Code there = seen.of_the_owner[owner].code();
        EXPECT_TRUE(there == Code::path_failed || there == Code::peer_failed)
            << seen.of_the_owner[owner].text();
        EXPECT_EQ(seen.of_the_owner[owner].detail().peer, 0);
      }
      EXPECT_EQ(failed, 1) << "the other path goes on to its end";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, AFailedRequest,
                         testing::Values(Case{IBV_WC_RETRY_EXC_ERR, "retries"},
                                         Case{IBV_WC_WR_FLUSH_ERR, "flush"},
                                         Case{IBV_WC_RNR_RETRY_EXC_ERR, "no_receive"},
                                         Case{IBV_WC_LOC_PROT_ERR, "local_protection"},
                                         Case{IBV_WC_LOC_LEN_ERR, "local_length"},
                                         Case{IBV_WC_REM_ACCESS_ERR, "remote_access"},
                                         Case{IBV_WC_REM_OP_ERR, "remote_operation"},
                                         Case{IBV_WC_GENERAL_ERR, "general"}),
                         [](const auto& info) { return info.param.name; });

TEST(AFailedRequestOfAReceiver, FailsThePathToo) {
  NicJob job;
  // Receivers post credits and reports: the next work request of rank 1 fails.
  const Seen seen = traffic(
      job, [&] { job.network.set_faults(1, {.failures = {{.nth = job.posted(1) + 2}}}); },
      verbs_settings());
  EXPECT_FALSE(seen.of_the_writer[1].ok());
  EXPECT_EQ(seen.of_the_owner[1].code(), Code::path_failed) << seen.of_the_owner[1].text();
  EXPECT_TRUE(seen.of_the_writer[2].ok()) << seen.of_the_writer[2].text();
  EXPECT_TRUE(seen.of_the_owner[2].ok()) << seen.of_the_owner[2].text();
}

TEST(AnIsolatedRank, IsLostToThoseThatPutIntoIt) {
  NicJob job;
  const Seen seen = traffic(
      job, [&] { job.network.isolate(1); }, verbs_settings());
  EXPECT_EQ(seen.of_the_writer[1].code(), Code::path_failed) << seen.of_the_writer[1].text();
  // Rank 1 only receives, so its NIC never finds out. The writer reports the failure over the
  // bootstrap connection, and gives that up too. (That connection is TCP over the loopback here,
  // and not isolated.)
  EXPECT_FALSE(seen.of_the_owner[1].ok());
  EXPECT_TRUE(tells(seen.of_the_owner[1], Code::path_failed, {"rank 0 has given the path up: "}));
  EXPECT_TRUE(seen.of_the_writer[2].ok());
  EXPECT_TRUE(seen.of_the_owner[2].ok());
}

TEST(AnIsolatedRank, WithNothingUnderWayIsNotMissed) {
  NicJob job({.retry_wait = std::chrono::seconds(10)});
  const Seen seen = traffic(
      job,
      [&] {
        job.network.isolate(1);
        job.network.isolate(1, false);
      },
      verbs_settings());
  for (const std::size_t owner : {1U, 2U}) {
    EXPECT_TRUE(seen.of_the_writer[owner].ok());
    EXPECT_TRUE(seen.of_the_owner[owner].ok());
  }
}

/// A tensor of memory that counts how often it was released.
Tensor adopted(World& world, std::vector<float>& memory, std::atomic<int>& given_back) {
  return world.adopt(memory.data(), DType::f32, {static_cast<std::int64_t>(memory.size())},
                     [&given_back] { ++given_back; });
}

TEST(AFailedPut, GivesItsMemoryBackOnceTheNicHasLetGoOfIt) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    Slot slot;
    if (world.rank() == 0) {
      slot = world.expose(kSpec);
      meeting.wait();
      EXPECT_FALSE(slot.wait().ok());
      meeting.wait();
      return;
    }
    std::vector<float> memory(3000);
    std::atomic<int> given_back{0};
    auto remote = world.attach(0, kSpec);
    job.network.hold(1);
    auto request = remote.put(adopted(world, memory, given_back));
    EXPECT_FALSE(request.test());
    EXPECT_EQ(given_back, 0) << "the NIC has it";
    job.network.isolate(0);
    job.network.hold(1, false);
    meeting.wait();
    EXPECT_EQ(request.wait().code(), Code::path_failed);
    EXPECT_TRUE(soon([&] { return given_back == 1; }));
    meeting.wait();
  });
}

}  // namespace
}  // namespace weft::tests
