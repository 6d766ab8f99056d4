// Jobs of two ranks whose ports fail.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "p2p/transport/verbs/link_state.hpp"
#include "p2p/transport/verbs/message_head.hpp"
#include "tests/threads/verbs/nics.hpp"

namespace weft::tests {

inline constexpr std::int64_t kMiB = 1 << 20;

inline const PathReport& path_to(const Report& report, int peer) {
  return *std::ranges::find(report.paths, peer, &PathReport::peer);
}

/// Two ranks with NICs "fake0", "fake1", ...
class FailoverJob {
 public:
  explicit FailoverJob(int nics, const NicSpec& kind = {}, const NetworkOptions& options = {})
      : network(options), nics_(static_cast<std::size_t>(nics), kind) {
    for (int i = 0; i < nics; ++i) nics_[static_cast<std::size_t>(i)].name = name(i);
  }
  static std::string name(int nic) { return "fake" + std::to_string(nic); }
  int nics() const { return static_cast<int>(nics_.size()); }

  void run(const std::function<void(World&)>& body, Config config = verbs_settings()) {
    run_ranks(
        2,
        [&](World& world) {
          ranks_[static_cast<std::size_t>(world.rank())] = &world;
          meeting.wait();
          body(world);
          meeting.wait();
        },
        config.with(Setting::rails, "4"),
        [this](int rank) { return network.devices(rank, nics_); });
    EXPECT_EQ(network.complaints(), "");
    EXPECT_EQ(network.left_behind(), "");
  }
  PathReport path(int rank) const {
    return path_to(ranks_.at(static_cast<std::size_t>(rank))->report(), 1 - rank);
  }
  bool has_all_ports(int rank) const {
    const PathReport report = path(rank);
    return report.rails.size() == nics_.size() && report.rails_back == report.rails_lost &&
           std::ranges::all_of(report.rails, &RailReport::up);
  }
  bool have_all_ports() const { return has_all_ports(0) && has_all_ports(1); }
  bool have_lost(std::uint64_t ports) const {
    return path(0).rails_lost >= ports && path(1).rails_lost >= ports;
  }

  FakeNetwork network;
  Meeting meeting{2};

 private:
  std::vector<NicSpec> nics_;
  std::array<World*, 2> ranks_{};
};

/// The messages about links that rank 0 sends are changed on their way.
inline void change_words(FakeNetwork& network,
                         const std::function<void(p2p::verbs::LinkMessage&)>& change) {
  using p2p::verbs::LinkMessage;
  using p2p::verbs::MessageHead;
  network.tamper([change](int from, std::span<std::byte> bytes) {
    MessageHead head;
    LinkMessage message;
    if (from != 0 || bytes.size() != sizeof head + sizeof message) return;
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.kind != MessageHead::Kind::link) return;
    std::memcpy(&message, bytes.data() + sizeof head, sizeof message);
    change(message);
    std::memcpy(bytes.data() + sizeof head, &message, sizeof message);
  });
}

}  // namespace weft::tests
