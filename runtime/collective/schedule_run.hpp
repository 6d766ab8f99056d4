// A program under way: its moves, as far as the other ranks let them be made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/collective/reducer.hpp"
#include "runtime/collective/schedule.hpp"
#include "runtime/collective/slot_link.hpp"

namespace weft::detail {

/// Where a program's elements are: tensors of bytes.
struct ScheduleTensors {
  Tensor in{};
  Tensor sum{};
  Tensor out{};
  std::size_t element = 1;      ///< bytes, in `in` and `out`
  std::size_t sum_element = 1;  ///< bytes, in `sum`
  std::int64_t in_first = 0;    ///< the element that `in` begins with
  std::int64_t out_first = 0;   ///< that `out` begins with
};

/// Moves larger than a piece are made piece by piece. No memory is allocated once it is made.
class ScheduleRun {
 public:
  using Links = std::span<const std::unique_ptr<SlotLink>>;  ///< by rank; none to itself

  ScheduleRun(Schedule schedule, ScheduleTensors tensors);

  /// Bytes that travel to a rank, and from it: what heads say.
  std::uint64_t bytes_to(int peer) const noexcept { return bytes(schedule_.sends(peer)); }
  std::uint64_t bytes_from(int peer) const noexcept { return bytes(schedule_.takes(peer)); }

  /// From the beginning.
  void restart() noexcept;
  /// Moves what can be moved. `reducer`: of a call that combines. Not ok: a put failed. Ends when a
  /// link has an unexpected head.
  Status step(Links links, Reducer* reducer) noexcept;
  /// Whether all moves were made; puts may be under way.
  bool made() const noexcept { return made_ == schedule_.moves().size(); }
  /// Whether something is still to come from a rank, or to go to it.
  bool takes_from(int peer) const noexcept {
    return ends_[index(peer)].taken < schedule_.takes(peer).size();
  }
  bool sends_to(int peer) const noexcept {
    return ends_[index(peer)].sent < schedule_.sends(peer).size();
  }

 private:
  struct End {              ///< of a link
    std::size_t sent = 0;   ///< moves
    std::size_t taken = 0;  ///< moves
    std::size_t sent_bytes = 0;
    std::size_t taken_bytes = 0;
    bool greeted = false;  ///< the head has gone
    bool was_greeted = false;
  };
  static std::size_t index(int at) noexcept { return static_cast<std::size_t>(at); }

  std::uint64_t bytes(std::span<const std::uint32_t> moves) const noexcept;
  std::size_t bytes(const Step& move) const noexcept;
  const Tensor& tensor(Step::Place place) const noexcept;
  /// Where a move's region of a place begins.
  std::size_t offset(const Step& move, Step::Place place) const noexcept;
  std::byte* data(const Step& move, Step::Place place) const noexcept;

  bool is_next(std::uint32_t move) const noexcept;
  void pass(const Step& move) noexcept;
  bool send_some(SlotLink& link, int peer) noexcept;
  bool take_some(SlotLink& link, int peer, Links links, Reducer* reducer) noexcept;
  bool make_own(int channel, Reducer* reducer) noexcept;
  static bool all_out(Links links) noexcept;

  const Schedule schedule_;
  const ScheduleTensors tensors_;
  std::vector<std::uint32_t> at_;  ///< of each move, in its channel
  std::vector<End> ends_;          ///< by peer
  std::vector<std::uint32_t> channel_made_;
  std::size_t made_ = 0;
};

}  // namespace weft::detail
