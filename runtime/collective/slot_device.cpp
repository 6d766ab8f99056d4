// Calls between hosts that go from GPU to GPU. Each rank says whether its tensors lie on a GPU, and
// whether its NIC reaches all that it must. Once all have said yes, the call goes as on host
// memory, but pieces are put from GPU memory into slots there, and the GPU copies and combines
// them. Where a rank can't, all go by host memory, under the same number.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "runtime/collective/collective_table.hpp"
#include "runtime/collective/slot_group.hpp"

namespace weft::detail {

using Kind = CollectiveKind;

void SlotGroup::offer(PlannedCall& planned, const Task& task, const Call& call) {
  if (gpu_ == nullptr) gpu_ = std::make_unique<SlotGpu>(local_, mesh_, ranks_, me_);
  const auto refused = [&] { planned.asks_again = gpu_->refusal_passes(); };
  // Kernels are loaded and memory is taken by calls that may wait for all streams.
  const p2p::cuda::StreamWords::NoneBegins none_begins;
  planned.asks_again = false;
  if (words_.has_no()) return;
  PlannedCall way;
  way.call = call;
  way.task = task;
  way.on_device = true;
  try {
    if (!gpu_->takes(task, call)) return refused();
    if (combines(task.kind())) way.reducer.emplace(task.signature.dtype, call.op, size());
    prepare_memory(way);
    const bool by_pairs = way.between.rounds != nullptr;
    const std::size_t wide = way.reducer ? way.reducer->wide() : task.element;
    auto arithmetic = gpu_->find_kernels(task, by_pairs, wide);
    if (!arithmetic) return refused();
    way.between.arithmetic = *arithmetic;
    find_partners(way);
    open_links(way);
  } catch (...) {
    // The others wait for this rank's word, and host memory may do. If not, that throws.
    gpu_->refuse(text_or_empty([] {
                   return fmt::format("no stream, kernels, or memory for results and slots: {}",
                                      caught_status().detail().message);
                 }),
                 true);
    return refused();
  }
  auto device = std::make_unique<DeviceCall>();
  device->gpu = gpu_->gpu();
  planned.asks_again = false;
  (planned.other_way ? planned.other_way->between : planned.between) = std::move(way.between);
  (planned.other_way ? planned.other_way->with_word : planned.with_word) = way.with_word;
  planned.device = std::move(device);
}

void SlotGroup::hear_word(int member, const PlannedCall& call, GpuWord word) noexcept {
  (void)words_.hear(static_cast<std::size_t>(member), call.number, call.mark, word);
}

std::optional<CollectiveMessage> SlotGroup::hear_gpu(int rank,
                                                     const CollectiveMessage& word) noexcept {
  const auto member = std::ranges::find(ranks_, rank) - ranks_.begin();
  if (member == size() || word.code > static_cast<std::uint32_t>(GpuWord::no)) return {};
  if (!words_.hear(static_cast<std::size_t>(member), word.number, word.mark,
                   static_cast<GpuWord>(word.code)))
    return {};
  CollectiveMessage answer = word;
  answer.code = static_cast<std::uint32_t>(GpuWord::later);
  return answer;
}

void SlotGroup::say(const PlannedCall& call, GpuWord word,
                    std::span<const std::size_t> members) noexcept {
  CollectiveMessage message{.what = CollectiveMessage::What::gpu, .group = id_};
  message.number = call.number;
  message.mark = call.mark;
  message.code = static_cast<std::uint32_t>(word);
  try {
    std::vector<int> ranks;
    for (const std::size_t member : members) ranks.push_back(ranks_[member]);
    table_.tell(ranks, message);
  } catch (const std::bad_alloc&) {
    fail(Status(ErrorDetail{.code = Code::exhausted,
                            .operation = name(call.task.kind()),
                            .message = "no memory to tell the group's other ranks",
                            .rank = local_.rank}));
  }
}

void SlotGroup::say_to_all(PlannedCall& call, GpuWord word) noexcept {
  CollectiveMessage message{.what = CollectiveMessage::What::gpu, .group = id_};
  message.number = call.number;
  message.mark = call.mark;
  message.code = static_cast<std::uint32_t>(word);
  table_.tell(ranks_, message);
  hear_word(me_, call, word);
}

void SlotGroup::begin(PlannedCall& call) noexcept {
  call.in = call.task.in;
  try {
    const auto refused = words_.begin(call.number, call.on_device);
    if (!refused.empty()) say(call, GpuWord::later, refused);
  } catch (const std::bad_alloc&) {
    fail(Status(ErrorDetail{.code = Code::exhausted,
                            .operation = name(call.task.kind()),
                            .message = "no memory to tell the group's other ranks",
                            .rank = local_.rank}));
  }
  if (!call.on_device) return;
  const GpuWord paths = find_paths(call);
  say_to_all(call, paths == GpuWord::none ? GpuWord::offers : paths);
}

GpuWord SlotGroup::find_paths(const PlannedCall& call) noexcept {
  using p2p::cuda::GpuWay;
  if (words_.has_no()) return GpuWord::no;
  GpuWord all = GpuWord::yes;
  is_pathless_.assign(is_pathless_.size(), false);
  for (const BetweenHosts::Partner& partner : call.between.partners) {
    if (!partner.widths.sends) continue;
    SlotLink* const link = this->link(partner.rank);
    const auto way = link == nullptr ? std::nullopt : link->way_to_gpu(*gpu_);
    is_pathless_[static_cast<std::size_t>(partner.rank)] = !way;
    if (!way) all = all == GpuWord::yes ? GpuWord::none : all;
    if (!way || way == GpuWay::nic || way == GpuWay::mapped) continue;
    const bool passes = way == GpuWay::not_mapped;
    gpu_->refuse(formatted("towards rank {}: {}", ranks_[static_cast<std::size_t>(partner.rank)],
                           p2p::cuda::reason_of(*way)),
                 passes);
    if (!passes) return GpuWord::no;
    all = GpuWord::later;
  }
  return all;
}

bool SlotGroup::awaits_word(const PlannedCall& call, int member) const noexcept {
  const GpuWord word = said(call, member);
  if (word > GpuWord::yes) return false;
  // One that has left in order made the call by host memory, or never makes it.
  if (word == GpuWord::none) return !mesh_.peer(ranks_[static_cast<std::size_t>(member)]).gone();
  if (said(call, me_) == GpuWord::yes) return word == GpuWord::offers;
  // This rank's word waits for the answers by which paths are proven.
  return is_pathless_[static_cast<std::size_t>(member)];
}

bool SlotGroup::agree(PlannedCall& call) noexcept {
  if (failed()) return false;
  bool all_offer = true;
  bool all_agree = true;
  bool none_refuses = true;
  for (int r = 0; r < size(); ++r) {
    GpuWord word = said(call, r);
    if (word == GpuWord::none && r != me_ && mesh_.peer(ranks_[static_cast<std::size_t>(r)]).gone())
      word = GpuWord::later;
    all_offer = all_offer && word != GpuWord::none;
    all_agree = all_agree && word == GpuWord::yes;
    none_refuses = none_refuses && word <= GpuWord::yes;
    if (word > GpuWord::yes && r != me_)
      gpu_->refuse(
          formatted("rank {} does not take part with a GPU", ranks_[static_cast<std::size_t>(r)]),
          false);
  }
  if (!none_refuses) {
    // One member's "no" may come later than another's "later", and for good it is.
    fall_back(call, words_.has_no());
    return false;
  }
  if (all_agree) return true;
  if (!all_offer || said(call, me_) == GpuWord::yes) return false;
  // All have opened their slots, or are about to.
  const GpuWord paths = find_paths(call);
  waits_for_paths_ = paths == GpuWord::none;
  if (paths == GpuWord::none) {
    local_.progress.help();
    return false;
  }
  say_to_all(call, paths);
  return agree(call);
}

void SlotGroup::begin_on_gpu(PlannedCall& call) noexcept {
  BetweenHosts& between = call.between;
  call.device->step = DeviceCall::Step::working;
  combine_.pass();
  place_.pass();
  gpu_->begin_call(between.arithmetic, {call.call.in, call.call.out, between.results});
  const Task& task = call.task;
  if (task.kind() != Kind::all_gather || task.in_bytes == 0) return;
  std::byte* const own = task.out + task.at(me_);
  if (own != task.in) gpu_->copy(place_, own, task.in, task.in_bytes);
}

bool SlotGroup::combine_on_gpu(PlannedCall& call, std::int64_t count) noexcept {
  if (!combine_.has_begun()) {
    std::array<Tensor, p2p::cuda::kernels::kMostSources> arrivals;
    std::size_t held = 0;
    for (const int r : linked_)
      if (link(r)->held() != nullptr) arrivals.at(held++) = link(r)->held_tensor();
    gpu_->combine(combine_, results(call) + combined_, sources_, count,
                  std::span(arrivals).first(held));
  }
  if (!combine_.has_begun() || !gpu_->has_ended(combine_)) return false;
  combine_.pass();
  return true;
}

bool SlotGroup::look_at_gpu(const PlannedCall& call) noexcept {
  if (gpu_ == nullptr) return true;
  count_device_copies(gpu_->take_begun());
  (void)gpu_->works();
  if (gpu_->failure().ok()) return true;
  if (call.on_device) fail_on_gpu(call, "part", gpu_->failure());
  return !call.on_device;
}

}  // namespace weft::detail
