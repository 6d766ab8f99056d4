// Schedules of collectives that go by rounds (rings, halving and doubling, two levels): the steps
// of each rank, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/collective.hpp"

namespace weft::detail {

/// Elements of a tensor, counted across all of its parts.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// One step of a rank. `sum` is the buffer in which elements are combined, in the type used for
/// arithmetic.
struct Step {
  enum class What : std::uint8_t {
    send,         ///< sends the region of `place` to the peer
    recv,         ///< receives from the peer into the region of `place`
    recv_reduce,  ///< receives, combines with the region of `place`, and writes to that of `sum`
    upcast,       ///< converts the region of `in` into that of `sum`
    finish        ///< averages and rounds the region of `sum` into that of `out`
  };
  enum class Place : std::uint8_t { in, sum, out };

  What what = What::send;
  Place place = Place::in;
  bool theirs_first = false;  ///< recv_reduce: the received elements precede this rank's own
  bool overwrites = false;    ///< recv_reduce: earlier sends from the region must complete first
  int channel = 0;
  int round = 0;
  int peer = -1;
  ElementRange region{};

  bool comes() const noexcept { return what == What::recv || what == What::recv_reduce; }
};

/// All steps of one rank. The steps of a channel follow each other; channels are independent, so
/// that one sends while another combines. Between two ranks, sends and receives have the same order
/// on both: by round, then by channel. A receive depends only on sends of the same or earlier
/// rounds, so the earliest remaining step can always be made and the schedule cannot deadlock.
class Schedule {
 public:
  Schedule(std::vector<Step> moves, int ranks, int channels);

  std::span<const Step> moves() const noexcept { return moves_; }
  /// The ranks that this rank exchanges messages with, ascending.
  std::span<const int> peers() const noexcept { return peers_; }
  /// Index of `peer` in peers(); peers().size() if it is not one of them.
  std::size_t place(int peer) const noexcept;
  std::span<const std::uint32_t> sends(int peer) const noexcept { return at(sends_, place(peer)); }
  std::span<const std::uint32_t> takes(int peer) const noexcept { return at(takes_, place(peer)); }
  std::span<const std::uint32_t> channel(int channel) const noexcept {
    return channels_[static_cast<std::size_t>(channel)];
  }
  int channels() const noexcept { return static_cast<int>(channels_.size()); }
  int ranks() const noexcept { return ranks_; }
  /// Number of rounds, that is of messages that depend on each other.
  int rounds() const noexcept { return rounds_; }

 private:
  using Lists = std::vector<std::vector<std::uint32_t>>;
  static std::span<const std::uint32_t> at(const Lists& lists, std::size_t place) noexcept {
    return place < lists.size() ? std::span<const std::uint32_t>(lists[place])
                                : std::span<const std::uint32_t>();
  }

  std::vector<Step> moves_;
  std::vector<int> peers_;
  int ranks_ = 0;
  Lists sends_;  ///< indices of steps, by place of the peer
  Lists takes_;
  Lists channels_;
  int rounds_ = 0;
};

/// The properties of a call that its schedule depends on.
struct ScheduleTask {
  CollectiveKind kind = CollectiveKind::barrier;
  std::int64_t count = 0;  ///< elements of all parts
  std::vector<std::int64_t>
      offsets{};  ///< reduce_scatter, all_gather: begin of each part, last end
  int root = 0;
  bool any_order = false;  ///< elements may be combined in any order
  bool widens = false;     ///< arithmetic uses another type than the tensors'
  int channels = 1;        ///< at most; fewer if `count` is smaller
};

/// The group's ranks by host, each list in the group's order.
using Hosts = std::vector<std::vector<int>>;

/// True if `algorithm` can serve calls of `kind` by rounds, on suitable hosts.
bool goes_by_rounds(Algorithm algorithm, CollectiveKind kind) noexcept;
/// Returns the schedule of `rank`; the schedules of all ranks match each other. Empty, on all ranks
/// alike, if `algorithm` cannot serve this call on these hosts. Combined elements have the bits of
/// the binary tree over the group, unless `task.any_order`.
std::optional<Schedule> make_schedule(Algorithm algorithm, const ScheduleTask& task,
                                      const Hosts& hosts, int rank);

}  // namespace weft::detail
