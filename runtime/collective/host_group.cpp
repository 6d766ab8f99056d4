#include "runtime/collective/host_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "p2p/progress/fences.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;
using Stage = PlannedCall::Stage;

/// Largest tensor that travels inside the call's entry. This saves one hop, but every cache line
/// crosses twice as often. If ranks share processors, a hop costs a thread switch, so the limit is
/// higher.
constexpr std::size_t kWordBytes = 2048;
constexpr std::size_t kCrowdedWordBytes = GroupArea::kInlineBytes;

bool rooted(Kind kind) noexcept {
  return kind == Kind::broadcast || kind == Kind::scatter || kind == Kind::gather ||
         kind == Kind::reduce;
}

}  // namespace

HostGroup::HostGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table,
                     std::vector<int> ranks, std::uint64_t id, std::uint64_t nth, int numa_node)
    : CollectiveGroup(local, mesh, table, std::move(ranks), id, nth),
      entry_bytes_(GroupArea::entry_bytes(size())),
      area_block_(local.control, GroupArea::bytes(size())),
      area_(area_block_.data(), entry_bytes_),
      members_(ranks_.size()),
      ins_(ranks_.size()),
      in_bytes_(ranks_.size()),
      outs_(ranks_.size()),
      partials_(ranks_.size()) {
  std::memset(area_block_.data(), 0, GroupArea::bytes(size()));
  const bool crowded = local.waiter.policy().spin.count() == 0;
  area_.numa_node() = numa_node;
  area_.word_bytes() = crowded ? kCrowdedWordBytes : kWordBytes;
  sources_.reserve(ranks_.size());
  targets_.reserve(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) members_[r].peer = &mesh_.peer(ranks_[r]);
  members_[static_cast<std::size_t>(me_)].area = area_;
}

p2p::MemoryRef HostGroup::area() const noexcept {
  const p2p::Block& block = area_block_.block();
  return {block.chunk, block.offset, block.bytes};
}

// In a large group the place of an area comes from the first rank, perhaps before the chunk that
// the member itself tells of.
p2p::RemoteMemory HostGroup::area_of(const Member& member, const p2p::MemoryRef& place,
                                     Deadline deadline) {
  p2p::Channel& channel = *member.peer->channel;
  Result<p2p::RemoteMemory> found = channel.resolve(place);
  const auto is_known = [&] {
    local_.progress.help();
    found = channel.resolve(place);
    return found.code() != Code::unreachable;
  };
  // Nothing wakes this rank when a chunk comes.
  constexpr std::chrono::milliseconds kLook{1};
  while (found.code() == Code::unreachable && !deadline.passed() && !member.peer->gone())
    (void)local_.waiter.wait(
        is_known, [] { return false; }, Deadline::after(kLook));
  if (found.code() == Code::unreachable) throw_unknown(*member.peer);
  found.status().or_throw();
  return *found;
}

void HostGroup::throw_unknown(const p2p::Peer& peer) const {
  const Status gone = mesh_.peer_status(peer.rank);
  ErrorDetail detail;
  if (!gone.ok()) {
    detail = gone.detail();
  } else {
    detail.code = Code::timeout;
    detail.message = fmt::format("rank {} opens the group in memory that it has not told of yet{}",
                                 peer.rank, mesh_.suspicion(peer.rank));
    detail.hint = "give it a longer deadline";
    detail.peer = peer.rank;
    detail.host = peer.host();
  }
  detail.operation = "open";
  detail.rank = local_.rank;
  throw Error(std::move(detail));
}

void HostGroup::meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
                     Deadline deadline) {
  for (int r = 0; r < size(); ++r) {
    Member& member = members_[static_cast<std::size_t>(r)];
    if (r == me_) continue;
    const p2p::MemoryRef& place = areas[static_cast<std::size_t>(r)];
    const p2p::RemoteMemory found = area_of(member, place, deadline);
    if (place.bytes != GroupArea::bytes(size()) || place.offset % 64 != 0 ||
        p2p::sort_of_chunk(place.chunk) != p2p::ArenaSort::control)
      throw Error(ErrorDetail{.code = Code::mismatch,
                              .operation = "open",
                              .message = "the ranks' areas differ",
                              .hint = "start every rank with the same weft",
                              .peer = member.peer->rank});
    member.area = GroupArea(member.peer->channel->map(found), entry_bytes_);
  }
  choices_ = choices;
  std::vector<int> node_of;
  for (const Member& member : members_)
    node_of.push_back(static_cast<int>(member.area.numa_node()));
  nodes_ = NumaNodes(node_of, me_);
  word_bytes_ =
      std::min<std::uint64_t>(members_.front().area.word_bytes(), GroupArea::kInlineBytes);
}

bool HostGroup::stays_for(const PlannedCall& call, int who) noexcept {
  if (call.with_word) return false;
  if (call.within.by_nodes) return true;
  const Kind kind = call.task.kind();
  if (kind == Kind::broadcast || kind == Kind::scatter || kind == Kind::gather)
    return who == call.task.root();
  return true;
}

void HostGroup::begin(PlannedCall& call) noexcept {
  if (call.within.in_stage) {
    std::memcpy(call.in, call.task.in, call.task.in_bytes);
    count_copied(call.task.in_bytes);
  }
}

void HostGroup::advance_first(PlannedCall& call) noexcept {
  if (call.stage == Stage::posting) post(call);
  if (call.on_device) [[unlikely]] {
    if (call.stage == Stage::entering) meet_on_device(call);
    if (call.stage == Stage::posting) post(call);  // by host memory now
  }
  if (call.stage == Stage::entering && !call.on_device && enter(call)) work(call);
  if (call.stage == Stage::leaving) leave(call);
  if (device_ != nullptr) [[unlikely]]
    device_->set_silent(works_silently());
}

bool HostGroup::show(PlannedCall& call) noexcept {
  if (call.stage == Stage::posting) post(call);
  return call.stage != Stage::posting;
}

bool HostGroup::has_done(Member& member, std::uint64_t number) noexcept {
  if (member.done >= number) return true;
  member.done = std::max(member.done, member.area.done().load(std::memory_order_acquire));
  return member.done >= number;
}

void HostGroup::post(PlannedCall& call) noexcept {
  const std::uint64_t number = call.number;
  if (number > GroupArea::kCalls)
    for (int r = 0; r < size(); ++r)
      if (r != me_ && !has_done(members_[static_cast<std::size_t>(r)], number - GroupArea::kCalls))
        return;
  area_.signature(number) = call.task.signature;
  if (call.on_device) [[unlikely]] {
    call.device->step = DeviceCall::Step::offered;
    std::memcpy(area_.device_places(number), &call.device->places, sizeof(DevicePlaces));
  } else if (!call.with_word) {
    std::memcpy(area_.payload(number), &call.within.places, sizeof call.within.places);
    if (call.task.kind() == Kind::all_to_all)
      std::memcpy(area_.offsets(number), call.task.offsets.data(),
                  call.task.offsets.size() * sizeof(std::int64_t));
  } else if (call.task.in_bytes > 0 && call.streams.prepares == nullptr) {
    std::memcpy(area_.payload(number), call.task.in, call.task.in_bytes);
  }
  std::uint32_t mark = call.mark;
  if (call.on_device)
    mark = GroupArea::mark_on_device(mark);
  else if (call.for_now) [[unlikely]]
    mark = GroupArea::mark_for_now(mark);
  area_.call_word(number).store(GroupArea::announce(number, mark), std::memory_order_release);
  ring_all();
  call.stage = Stage::entering;
}

// Every rank waits for all, even if it needs no data of them: otherwise two ranks that name
// different roots could both complete.
bool HostGroup::enter(PlannedCall& call) noexcept {
  const std::uint64_t number = call.number;
  for (int& r = call.awaited; r < size(); ++r) {
    if (r == me_) continue;
    Member& member = members_[static_cast<std::size_t>(r)];
    const std::uint64_t word = member.area.call_word(number).load(std::memory_order_acquire);
    if (!GroupArea::is_of(word, number)) return false;
    if (!agrees(call, r, word)) [[unlikely]]
      return false;
    // A member that has entered this call has completed all but its last kUnderWay calls.
    if (number > kUnderWay) member.done = std::max(member.done, number - kUnderWay);
  }
  return true;
}

bool HostGroup::agrees(const PlannedCall& call, int other, std::uint64_t word) noexcept {
  const auto mark = static_cast<std::uint32_t>(word);
  if (mark == call.mark) [[likely]]
    return true;
  if (mark == GroupArea::mark_for_now(call.mark)) return true;
  // That member goes by host memory too, as soon as it sees that this rank does.
  if (mark == GroupArea::mark_on_device(call.mark)) return false;
  // The reason why a rank has given up comes in a control message.
  if (mark != GroupArea::kGivenUp) differs(call, other);
  return false;
}

void HostGroup::differs(const PlannedCall& call, int other) noexcept {
  const GroupArea& area = members_[static_cast<std::size_t>(other)].area;
  // The member may already overwrite the oldest entries with those of its next calls.
  constexpr std::uint64_t kStable = kCallsKept - kUnderWay;
  const std::uint64_t oldest = call.number <= kStable ? 1 : call.number - kStable;
  for (std::uint64_t number = oldest; number <= call.number; ++number) {
    const Signature theirs = area.signature(number);
    const std::uint64_t word = area.call_word(number).load(std::memory_order_acquire);
    if (GroupArea::is_of(word, number) && theirs != called(number))
      return mismatch(number, other, theirs);
  }
  mismatch_before(call.number, other);
}

void HostGroup::work(PlannedCall& call) noexcept {
  if (call.streams.prepares != nullptr) [[unlikely]]
    return refuse_streams(call);
  if (call.with_word) {
    work_with_words(call);
  } else {
    if (call.step == 0 && !find_peers(call)) return;
    if (call.within.by_nodes) {
      if (!work_by_nodes(call)) return;
    } else if (is_given_up(call.number) || !work_in_place(call)) {
      return;
    }
    // A member that has given up since may have changed the tensors while this rank read them.
    if (is_given_up(call.number)) return;
  }
  say_done(call);
}

void HostGroup::say_done(PlannedCall& call) noexcept {
  area_.done().store(call.number, std::memory_order_release);
  const Kind kind = call.task.kind();
  if (!call.with_word || rooted(kind) || kind == Kind::scan) ring_all();
  call.awaited = 0;
  call.stage = Stage::leaving;
}

bool HostGroup::gave_up(const Member& member, std::uint64_t number) noexcept {
  if (member.area.stopped().load(std::memory_order_acquire) < number) return false;
  const std::uint64_t word = member.area.call_word(number).load(std::memory_order_acquire);
  return !GroupArea::is_of(word, number) || static_cast<std::uint32_t>(word) == GroupArea::kGivenUp;
}

// A member that gives up first says so and then reads this rank's entry; this rank writes its entry
// and then reads the member's word. The full barriers on both sides ensure that at least one of the
// two sees the other.
bool HostGroup::is_given_up(std::uint64_t number) const noexcept {
  p2p::full_barrier();
  return std::ranges::any_of(members_,
                             [number](const Member& member) { return gave_up(member, number); });
}

void HostGroup::leave(PlannedCall& call) noexcept {
  if (stays_for(call, me_)) {
    for (int& r = call.awaited; r < size(); ++r) {
      if (r != me_ && !has_done(members_[static_cast<std::size_t>(r)], call.number)) return;
    }
    if (is_given_up(call.number)) return;
  }
  if (call.within.out_stage) {
    std::memcpy(call.task.out, call.out, call.task.out_bytes);
    count_copied(call.task.out_bytes);
  }
  call.stage = Stage::ended;
}

void HostGroup::ring(int rank) noexcept {
  members_[static_cast<std::size_t>(rank)].peer->channel->notify();
}

void HostGroup::ring_all() noexcept {
  for (int r = 0; r < size(); ++r)
    if (r != me_) ring(r);
}

Status HostGroup::gone_failure(std::uint64_t number) const noexcept {
  // A member that has completed the call may have left in order.
  for (const Member& member : members_)
    if (member.peer->gone() && member.area.done().load(std::memory_order_acquire) < number)
      return mesh_.peer_status(ranks_);
  return {};
}

bool HostGroup::needs_more(const PlannedCall& call, int member) noexcept {
  return !has_done(members_[static_cast<std::size_t>(member)], call.number);
}

void HostGroup::stop() noexcept {
  // A member that has not read these entries yet touches no tensor of this rank. The entry of a
  // call that has ended keeps its mark, because that call was not given up.
  for (const auto& call : under_way())
    if (call->stage != Stage::posting)
      area_.call_word(call->number)
          .store(GroupArea::announce(call->number, GroupArea::kGivenUp), std::memory_order_seq_cst);
  stops_ = true;
  if (device_ == nullptr)
    say_stopped();
  else
    (void)gpu_works();
}

void HostGroup::say_stopped() noexcept {
  stops_ = false;
  area_.stopped().store(numbered(), std::memory_order_seq_cst);
  p2p::full_barrier();
  ring_all();
}

int HostGroup::toucher(const PlannedCall& call) noexcept {
  if (call.with_word) return -1;
  // Its own GPU may write where others read, and into its own tensors.
  if (is_working(call)) return me_;
  const std::uint64_t number = call.number;
  for (int r = 0; r < size(); ++r) {
    Member& member = members_[static_cast<std::size_t>(r)];
    if (r == me_ || member.peer->silent.load() || has_done(member, number)) continue;
    const std::uint64_t word = member.area.call_word(number).load(std::memory_order_acquire);
    const bool entered = GroupArea::is_of(word, number);
    if (entered && member.area.stopped().load(std::memory_order_acquire) < number) return r;
  }
  return -1;
}

void HostGroup::add_awaited(const PlannedCall& call, std::vector<int>& members) const {
  if (waits_for_own_gpu(call)) return;
  for (int r = 0; r < size(); ++r) {
    const Member& member = members_[static_cast<std::size_t>(r)];
    const bool came = GroupArea::is_of(
        member.area.call_word(call.number).load(std::memory_order_acquire), call.number);
    const bool done = member.area.done().load(std::memory_order_acquire) >= call.number;
    const bool entering = call.stage == Stage::entering;
    bool waits = !entering || !came;
    if (entering && call.on_device && call.device->step > DeviceCall::Step::offered)
      waits = GroupArea::said_of(member.area.said().load(std::memory_order_acquire), call.number) <
              (call.device->step == DeviceCall::Step::wrote ? DeviceWord::wrote : DeviceWord::yes);
    if (entering && call.step > 0) {
      const auto awaited = awaited_by_nodes(call.task);
      waits =
          std::ranges::find(awaited, r) != awaited.end() && !has_passed(r, call.number, call.step);
    }
    // A member that has given up never does its part, even though it has entered.
    const bool stopped = member.area.stopped().load(std::memory_order_acquire) >= call.number;
    if (r != me_ && (r == unknown_ || (!done && (waits || stopped)))) members.push_back(r);
  }
}

}  // namespace weft::detail
