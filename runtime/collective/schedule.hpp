// Collectives that go by rounds (rings, halving and doubling, two levels): what each rank does, as
// plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/collective.hpp"

namespace weft::detail {

/// Elements of a tensor, counted through all of its parts.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// One thing that a rank does. `sum` is where elements are being combined, in the type that is
/// calculated with.
struct Step {
  enum class What : std::uint8_t {
    send,         ///< the region of `place`, to the peer
    recv,         ///< what the peer sends, into the region of `place`
    recv_reduce,  ///< what the peer sends, combined with the region of `place`, into that of `sum`
    upcast,       ///< the region of `in`, into that of `sum`
    finish        ///< the region of `sum`, averaged and rounded, into that of `out`
  };
  enum class Place : std::uint8_t { in, sum, out };

  What what = What::send;
  Place place = Place::in;
  bool theirs_first = false;  ///< join: what comes is of ranks in front of this one
  bool overwrites = false;    ///< join: what was sent out of the region must be out before
  int channel = 0;
  int round = 0;
  int peer = -1;
  ElementRange region{};

  bool comes() const noexcept { return what == What::recv || what == What::recv_reduce; }
};

/// All that one rank does. Steps of a channel follow each other; channels are independent, so that
/// one sends while another combines. Between two ranks, sends and takes are in the same order on
/// both: by round, then by channel. A take needs nothing but what moves of earlier rounds have
/// sent; so the earliest move that is left can always be made, and nobody waits for ever.
class Schedule {
 public:
  Schedule(std::vector<Step> moves, int ranks, int channels);

  std::span<const Step> moves() const noexcept { return moves_; }
  std::span<const std::uint32_t> sends(int peer) const noexcept { return at(sends_, peer); }
  std::span<const std::uint32_t> takes(int peer) const noexcept { return at(takes_, peer); }
  std::span<const std::uint32_t> channel(int channel) const noexcept {
    return at(channels_, channel);
  }
  int channels() const noexcept { return static_cast<int>(channels_.size()); }
  int ranks() const noexcept { return static_cast<int>(sends_.size()); }
  /// Messages that follow each other.
  int rounds() const noexcept { return rounds_; }

 private:
  using Lists = std::vector<std::vector<std::uint32_t>>;
  static std::span<const std::uint32_t> at(const Lists& lists, int index) noexcept {
    return lists[static_cast<std::size_t>(index)];
  }

  std::vector<Step> moves_;
  Lists sends_;  ///< by peer
  Lists takes_;
  Lists channels_;
  int rounds_ = 0;
};

/// A call, as far as its program depends on it.
struct ScheduleTask {
  CollectiveKind kind = CollectiveKind::barrier;
  std::int64_t count = 0;               ///< elements, of all parts
  std::vector<std::int64_t> offsets{};  ///< reduce_scatter, all_gather: where parts begin and end
  int root = 0;
  bool any_order = false;  ///< elements may be combined in whichever order
  bool widens = false;     ///< what is calculated with is another type than the tensors'
  int channels = 1;        ///< at most
};

/// The group's ranks by host, in the group's order.
using Hosts = std::vector<std::vector<int>>;

/// Whether an algorithm can ever serve a kind of call by rounds.
bool goes_by_rounds(Algorithm algorithm, CollectiveKind kind) noexcept;
/// What `rank` does; the programs of all ranks fit together. None where the algorithm can't serve
/// this call on these hosts, which is so for all ranks or for none. Combined elements have the
/// bits of the binary tree over the group, unless any order will do.
std::optional<Schedule> make_schedule(Algorithm algorithm, const ScheduleTask& task,
                                      const Hosts& hosts, int rank);

}  // namespace weft::detail
