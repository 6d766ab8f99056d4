#include "runtime/collective/slot_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft::detail {
namespace {

using Kind = CollectiveKind;
using Stage = PlannedCall::Stage;

}  // namespace

SlotGroup::SlotGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table,
                     p2p::SlotTable& slots, std::vector<int> ranks, std::uint64_t id)
    : CollectiveGroup(local, mesh, table, std::move(ranks), id), slots_(slots) {}

void SlotGroup::meet(std::span<const p2p::MemoryRef>, Deadline deadline) {
  const std::string name = fmt::format("collective {:016x} from ", id_);
  for (int r = 0; r < size(); ++r)
    links_.push_back(r == me_ ? nullptr
                              : std::make_unique<SlotLink>(local_, slots_, name,
                                                           ranks_[static_cast<std::size_t>(r)]));
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  for (const auto& link : links_)
    if (link) link->attach(until);
  // Nobody may go before everybody has attached to its slots.
  PlannedCall meeting;
  meeting.fingerprint = meeting.task.signature.fingerprint();
  exchange(meeting, true);
  const auto lost = [this] {
    return failed() || (mesh_.gone_count() != 0 && !gone_failure(0).ok());
  };
  const p2p::WaitEnd end = local_.waiter.wait([&] { return step(meeting); }, lost, until);
  // One that has failed by now tells the first call so.
  if (end == p2p::WaitEnd::ready || failed()) return;
  if (end == p2p::WaitEnd::broken) throw Error(gone_failure(0));
  throw Error(ErrorDetail{.code = Code::timeout,
                          .operation = "open",
                          .message = "another rank of the group has not attached to all others",
                          .hint = "look at what the other ranks are doing",
                          .rank = local_.rank});
}

void SlotGroup::prepare(PlannedCall& call) {
  const Task& task = call.task;
  if (combines(task.kind())) {
    // Everybody's elements of this rank's share, and what becomes of them.
    const auto share = static_cast<std::size_t>(share_of(task, me_).count) * task.element;
    const auto parts = static_cast<std::size_t>(size()) * (task.kind() == Kind::scan ? 2 : 1) + 1;
    call.gathered.resize(share * parts);
  } else if (task.kind() == Kind::all_to_all) {
    call.gathered.resize(task.out_bytes);
  }
}

void SlotGroup::begin(PlannedCall& call) noexcept { call.in = call.task.in; }

SlotGroup::Share SlotGroup::share_of(const Task& task, int rank) const noexcept {
  if (task.kind() == Kind::reduce_scatter)
    return {task.offsets[static_cast<std::size_t>(rank)], task.part(rank)};
  const std::int64_t each = task.count / size();
  const std::int64_t more = task.count % size();
  return {each * rank + std::min<std::int64_t>(rank, more), each + (rank < more ? 1 : 0)};
}

std::byte* SlotGroup::gathered(PlannedCall& call, int rank) const noexcept {
  const auto share = static_cast<std::size_t>(share_of(call.task, me_).count) * call.task.element;
  return call.gathered.data() + share * static_cast<std::size_t>(rank);
}

SlotGroup::Part SlotGroup::first_out(PlannedCall& call, int to) const noexcept {
  const Task& task = call.task;
  const bool is_root = me_ == task.root();
  switch (task.kind()) {
    case Kind::barrier:
      return {nullptr, 0, true};
    case Kind::broadcast:
      return {task.in, task.in_bytes, is_root};
    case Kind::scatter:
      return {is_root ? task.in + task.at(to) : nullptr, task.part_bytes(to), is_root};
    case Kind::gather:
      return {task.in, task.in_bytes, to == task.root()};
    case Kind::all_gather:
      return {task.in, task.in_bytes, true};
    case Kind::all_to_all:
      return {task.in + task.at(to), task.part_bytes(to), true};
    default: {
      const Share share = share_of(task, to);
      return {task.in + static_cast<std::size_t>(share.first) * task.element,
              static_cast<std::size_t>(share.count) * task.element, true};
    }
  }
}

SlotGroup::Part SlotGroup::first_in(PlannedCall& call, int from) const noexcept {
  const Task& task = call.task;
  const auto at = static_cast<std::size_t>(from);
  switch (task.kind()) {
    case Kind::barrier:
      return {nullptr, 0, true};
    case Kind::broadcast:
    case Kind::scatter:
      return {task.out, task.out_bytes, from == task.root()};
    case Kind::gather:
    case Kind::all_gather:
      if (task.out == nullptr) return {};
      return {task.out + task.at(from), task.part_bytes(from), true};
    case Kind::all_to_all: {
      const std::int64_t first = task.out_offsets[at];
      return {call.gathered.data() + static_cast<std::size_t>(first) * task.element,
              static_cast<std::size_t>(task.out_offsets[at + 1] - first) * task.element, true};
    }
    default:
      return {gathered(call, from),
              static_cast<std::size_t>(share_of(task, me_).count) * task.element, true};
  }
}

SlotGroup::Part SlotGroup::second_out(PlannedCall& call, int to) const noexcept {
  const Task& task = call.task;
  const auto bytes = static_cast<std::size_t>(share_of(task, me_).count) * task.element;
  switch (task.kind()) {
    case Kind::all_reduce:
      return {gathered(call, size()), bytes, true};
    case Kind::reduce:
      return {gathered(call, size()), bytes, to == task.root()};
    case Kind::scan:
      return {gathered(call, size() + to), bytes, true};
    default:
      return {};
  }
}

SlotGroup::Part SlotGroup::second_in(PlannedCall& call, int from) const noexcept {
  const Task& task = call.task;
  const Kind kind = task.kind();
  if (kind != Kind::all_reduce && kind != Kind::scan &&
      (kind != Kind::reduce || me_ != task.root()))
    return {};
  const Share share = share_of(task, from);
  return {task.out + static_cast<std::size_t>(share.first) * task.element,
          static_cast<std::size_t>(share.count) * task.element, true};
}

void SlotGroup::exchange(PlannedCall& call, bool first) noexcept {
  const PieceHead head{.word = call.number << 32 | call.fingerprint,
                       .signature = call.task.signature};
  for (int i = 1; i < size(); ++i) {
    const int r = (me_ + i) % size();
    const Part out = first ? first_out(call, r) : second_out(call, r);
    const Part in = first ? first_in(call, r) : second_in(call, r);
    links_[static_cast<std::size_t>(r)]->expect(head, out.data, out.bytes, out.moves, in.data,
                                                in.bytes, in.moves);
  }
}

bool SlotGroup::step(PlannedCall& call) noexcept {
  bool over = true;
  for (int r = 0; r < size(); ++r) {
    if (r == me_) continue;
    SlotLink& link = *links_[static_cast<std::size_t>(r)];
    const std::uint64_t before = link.copied();
    const Status status = link.step();
    bytes_copied_ += link.copied() - before;
    if (!status.ok()) {
      tell_failure(status);
      fail(status);
      return false;
    }
    if (link.stranger()) {
      mismatch(call, r, link.stranger()->signature);
      return false;
    }
    over = over && link.sent() && link.received();
  }
  return over;
}

void SlotGroup::advance_first(PlannedCall& call) noexcept {
  if (call.stage == Stage::posting) {
    exchange(call, true);
    call.stage = Stage::entering;
  }
  if (call.stage == Stage::entering && step(call)) {
    combine(call);
    exchange(call, false);
    call.stage = Stage::leaving;
  }
  if (call.stage == Stage::leaving && step(call)) {
    finish(call);
    call.stage = Stage::ended;
  }
}

void SlotGroup::combine(PlannedCall& call) noexcept {
  const Task& task = call.task;
  if (!combines(task.kind())) return;
  const Share share = share_of(task, me_);
  if (share.count == 0) return;
  const std::size_t first = static_cast<std::size_t>(share.first) * task.element;
  sources_.clear();
  targets_.clear();
  for (int r = 0; r < size(); ++r) {
    sources_.push_back(r == me_ ? task.in + first : gathered(call, r));
    if (task.kind() == Kind::scan) targets_.push_back(gathered(call, size() + r));
  }
  if (task.kind() == Kind::scan)
    return call.reducer->combine_up_to(sources_, targets_, share.count);
  targets_.push_back(gathered(call, size()));
  call.reducer->combine(sources_, targets_, share.count, false);
}

void SlotGroup::finish(PlannedCall& call) noexcept {
  const Task& task = call.task;
  if (task.out == nullptr || task.out_bytes == 0) return;
  const auto place = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  };
  const Share share = combines(task.kind()) ? share_of(task, me_) : Share{};
  const auto first = static_cast<std::size_t>(share.first) * task.element;
  const auto bytes = static_cast<std::size_t>(share.count) * task.element;
  switch (task.kind()) {
    case Kind::scan:
      return place(task.out + first, gathered(call, size() + me_), bytes);
    case Kind::reduce:
    case Kind::all_reduce:
      return place(task.out + first, gathered(call, size()), bytes);
    case Kind::reduce_scatter:
      return place(task.out, gathered(call, size()), bytes);
    case Kind::scatter:
      if (me_ == task.root()) place(task.out, task.in + task.at(me_), task.out_bytes);
      return;
    case Kind::gather:
    case Kind::all_gather:
      return place(task.out + task.at(me_), task.in, task.in_bytes);
    case Kind::all_to_all: {
      // By way of other memory, since in and out may be the same.
      const auto at = static_cast<std::size_t>(task.out_offsets[static_cast<std::size_t>(me_)]);
      place(call.gathered.data() + at * task.element, task.in + task.at(me_), task.part_bytes(me_));
      return place(task.out, call.gathered.data(), task.out_bytes);
    }
    default:
      return;
  }
}

Status SlotGroup::gone_failure(std::uint64_t) const noexcept {
  // Who left in order has sent what it had to; a rank that failed fails the group.
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    const int rank = ranks_[static_cast<std::size_t>(r)];
    const p2p::Peer& peer = mesh_.peer(rank);
    if (r == me_ || !peer.gone()) continue;
    const SlotLink& link = *links_[static_cast<std::size_t>(r)];
    const bool owes = !under_way().empty() && (!link.sent() || !link.received());
    if (owes || peer.state.load() == p2p::PeerState::failed || peer.because_of >= 0)
      missing.push_back(rank);
  }
  return missing.empty() ? Status{} : mesh_.fate(missing);
}

std::vector<int> SlotGroup::awaited(const PlannedCall&) const {
  std::vector<int> late;
  for (int r = 0; r < size(); ++r)
    if (r != me_ && !links_[static_cast<std::size_t>(r)]->received()) late.push_back(r);
  return late;
}

}  // namespace weft::detail
