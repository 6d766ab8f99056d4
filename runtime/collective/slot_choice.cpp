// Chooses the algorithm of a call between hosts, and prepares the call for it.
#include <algorithm>
#include <map>

#include "runtime/collective/slot_group.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

/// Upper limit of channels that a tensor is divided into, none of them shorter than kChannelBytes.
constexpr std::size_t kChannels = 4;
constexpr std::size_t kChainLanes = 32;  ///< of a broadcast
constexpr std::size_t kChannelBytes = Piece::kMost;
/// Largest channel; a larger tensor has more channels. Two ranks that each send a channel before
/// they receive the other's then have credits for it, including its head, however few returned
/// credits they have seen.
constexpr std::size_t kMostLaneBytes = 2 * Piece::kMost;

/// Number of distinct calls whose choice is remembered.
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
  // A call without data has no choice. A barrier moves no data either, but takes time.
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
  ScheduleTensors tensors{.in = call.between.flat_in,
                          .out = call.between.flat_out,
                          .element = choosing.element,
                          .sum_element = choosing.wide_element};
  if (task.kind() == Kind::reduce_scatter)
    tensors.out_first = task.offsets[static_cast<std::size_t>(me_)];
  if (task.kind() == Kind::all_gather)
    tensors.in_first = task.offsets[static_cast<std::size_t>(me_)];
  // The sums go directly into the output if that is large enough and has the type used for
  // arithmetic.
  const bool apart = choosing.task.widens || task.kind() == Kind::reduce_scatter;
  if (combines(task.kind()) && apart) {
    const std::size_t bytes = static_cast<std::size_t>(task.count) * choosing.wide_element;
    call.between.results = make_results(call, bytes);
  }
  tensors.sum = apart ? call.between.results : call.between.flat_out;
  call.between.rounds = std::make_unique<ScheduleRun>(
      *make_schedule(by, choosing.task, hosts_, me_), std::move(tensors));
}

}  // namespace weft::detail
