// By which algorithm a call between hosts goes, and what it needs for it.
#include <algorithm>
#include <map>

#include "runtime/collective/slot_group.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

/// A tensor goes in so many channels, none of which is shorter than this.
constexpr std::size_t kChannels = 4;
constexpr std::size_t kChainLanes = 32;
constexpr std::size_t kChannelBytes = Piece::kMost;
/// And in more, if need be, so that none is longer: two ranks that each send a channel before they
/// take the other's have room for it, with its head, however few credits they have heard of.
constexpr std::size_t kMostLaneBytes = 2 * Piece::kMost;

/// Choices are remembered for so many kinds of calls.
constexpr std::size_t kRemembered = 1024;

int channels_of(Kind kind, std::size_t bytes) noexcept {
  const std::size_t some = std::clamp<std::size_t>(
      bytes / kChannelBytes, 1, kind == Kind::broadcast ? kChainLanes : kChannels);
  return static_cast<int>(std::max(some, (bytes + kMostLaneBytes - 1) / kMostLaneBytes));
}

}  // namespace

Hosts SlotGroup::hosts() const {
  std::map<std::array<std::byte, 16>, std::vector<int>> by_id;
  for (int r = 0; r < size(); ++r)
    by_id[mesh_.peer(ranks_[static_cast<std::size_t>(r)]).address.host_id].push_back(r);
  Hosts hosts;
  for (auto& [id, ranks] : by_id) hosts.push_back(std::move(ranks));
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

void SlotGroup::choose_algorithm(PlannedCall& call) {
  const Task& task = call.task;
  Choosing choosing{.task = {.kind = task.kind(),
                             .count = task.count,
                             .offsets = task.offsets,
                             .root = std::max(0, task.root()),
                             .any_order = task.signature.may_reorder(),
                             .widens = call.reducer && call.reducer->widens(),
                             .channels = 1},
                    .element = task.element,
                    .wide_element = call.reducer ? call.reducer->wide() : task.element,
                    .asked = call.call.algorithm};
  choosing.task.channels =
      channels_of(task.kind(), static_cast<std::size_t>(task.count) * choosing.wide_element);
  Algorithm by = Algorithm::direct;
  // With nothing to move there is nothing to choose; a barrier moves nothing, but takes its time.
  if (task.count > 0 || task.kind() == Kind::barrier || choosing.asked != Algorithm::automatic)
    by = quickest(choosing, task.signature.counts_hash);
  call.with_word = by == Algorithm::allgather_then_reduce;
  if (by > Algorithm::allgather_then_reduce) make_rounds(call, by, choosing);
}

Algorithm SlotGroup::quickest(const Choosing& choosing, std::uint64_t counts) {
  const ScheduleTask& task = choosing.task;
  const std::uint64_t what =
      static_cast<std::uint64_t>(task.kind) | static_cast<std::uint64_t>(choosing.asked) << 8 |
      static_cast<std::uint64_t>(choosing.element) << 16 |
      static_cast<std::uint64_t>(task.any_order) << 24 |
      static_cast<std::uint64_t>(task.widens) << 25 | static_cast<std::uint64_t>(task.root) << 32;
  const std::array<std::uint64_t, 3> key{what, static_cast<std::uint64_t>(task.count), counts};
  const auto known = chosen_.find(key);
  if (known != chosen_.end()) return known->second;
  if (chosen_.size() == kRemembered) chosen_.clear();
  return chosen_[key] = choose(choosing, hosts_, choices_);
}

void SlotGroup::make_rounds(PlannedCall& call, Algorithm by, const Choosing& choosing) {
  const Task& task = call.task;
  ScheduleTensors tensors{.in = call.flat_in,
                          .out = call.flat_out,
                          .element = choosing.element,
                          .sum_element = choosing.wide_element};
  if (task.kind() == Kind::reduce_scatter)
    tensors.out_first = task.offsets[static_cast<std::size_t>(me_)];
  if (task.kind() == Kind::all_gather)
    tensors.in_first = task.offsets[static_cast<std::size_t>(me_)];
  // Where results have their place, and are what is calculated with, they are combined there.
  const bool apart = choosing.task.widens || task.kind() == Kind::reduce_scatter;
  if (combines(task.kind()) && apart) {
    const std::size_t bytes = static_cast<std::size_t>(task.count) * choosing.wide_element;
    call.results = Tensor(p2p::make_storage(local_.data, std::max<std::size_t>(bytes, 1)), 0,
                          DType::u8, Shape{static_cast<std::int64_t>(bytes)});
  }
  tensors.sum = apart ? call.results : call.flat_out;
  call.rounds.emplace(*make_schedule(by, choosing.task, hosts_, me_), std::move(tensors));
}

bool SlotGroup::takes_from(const PlannedCall& call, int rank) const noexcept {
  return call.rounds ? call.rounds->takes_from(rank) : !link(rank)->taken();
}

bool SlotGroup::sends_to(const PlannedCall& call, int rank) const noexcept {
  return call.rounds ? call.rounds->sends_to(rank) : !link(rank)->all_put();
}

}  // namespace weft::detail
