#include "runtime/collective/slot_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;
using Stage = PlannedCall::Stage;

/// A user's tensor as bytes. Its pieces are put in place, without a copy.
Tensor flat(const Tensor& tensor) {
  const Shape shape{static_cast<std::int64_t>(tensor.bytes())};
  if (tensor.storage() == nullptr) return Tensor::wrap(tensor.data(), DType::u8, shape);
  const auto offset = static_cast<std::size_t>(tensor.data() - tensor.storage()->data());
  return Tensor(tensor.storage(), offset, DType::u8, shape);
}

}  // namespace

SlotGroup::SlotGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table,
                     p2p::SlotTable& slots, std::vector<int> ranks, std::uint64_t id,
                     std::uint64_t nth)
    : CollectiveGroup(local, mesh, table, std::move(ranks), id, nth),
      slots_(slots),
      link_name_(fmt::format("collective {:016x} from ", id_)),
      links_(ranks_.size()),
      hosts_(hosts()),
      words_(ranks_.size()),
      is_pathless_(ranks_.size()) {
  sources_.reserve(ranks_.size());
  targets_.reserve(ranks_.size());
}

void SlotGroup::meet(std::span<const p2p::MemoryRef>, const Choices& choices, Deadline) {
  choices_ = choices;
}

void SlotGroup::prepare(PlannedCall& call) {
  prepare_memory(call);
  find_partners(call);
  open_links(call);
}

void SlotGroup::prepare_memory(PlannedCall& call) {
  const Task& task = call.task;
  if (task.in != nullptr) call.between.flat_in = flat(call.call.in);
  if (task.out != nullptr && !call.call.out.empty()) call.between.flat_out = flat(call.call.out);
  if (task.kind() == Kind::all_to_all && task.in == task.out)
    call.between.gathered.resize(task.out_bytes);
  choose_algorithm(call);
  if (!combines(task.kind()) || call.between.rounds) return;
  // Results that belong to other ranks have no space in this rank's tensors.
  const bool scans = task.kind() == Kind::scan && !call.with_word;
  if (gets(task, me_) && !scans) return;
  const std::size_t bytes = share_bytes(call, me_) * (scans ? ranks_.size() : 1);
  if (bytes > 0) call.between.results = make_results(call, bytes);
}

Tensor SlotGroup::make_results(const PlannedCall& call, std::size_t bytes) const {
  if (call.on_device) return gpu_->make(bytes);
  return {p2p::make_storage(local_.data, std::max<std::size_t>(bytes, 1)), 0, DType::u8,
          Shape{static_cast<std::int64_t>(bytes)}};
}

bool SlotGroup::step(PlannedCall& call) noexcept {
  help_to_open();
  if (call.between.rounds) return step_rounds(call);
  for (;;) {
    bool moved = false;
    for (const int r : linked_) {
      moved |= link(r)->step(combined_pieces_);
      if (found_failure(call, r)) return false;
    }
    moved |= combine_piece(call);
    if (!moved) return true;
    (void)local_.waiter.poll();  // completions since then may free slots for more pieces
  }
}

bool SlotGroup::step_rounds(PlannedCall& call) noexcept {
  (void)call.between.rounds->step(links_, call.reducer ? &*call.reducer : nullptr,
                                  call.on_device ? gpu_.get() : nullptr);
  for (const int r : linked_) {
    if (!call.between.rounds->takes_from(r)) link(r)->watch();
    if (found_failure(call, r)) return false;
  }
  return true;
}

bool SlotGroup::found_failure(const PlannedCall& call, int rank) noexcept {
  const SlotLink& link = *this->link(rank);
  if (!link.status().ok()) {
    // After a failure of the group, this one may only be its consequence, so others are not told.
    if (!failed()) tell_failure(link.status());
    fail(link.status());
    return true;
  }
  if (!link.unexpected()) return false;
  strange(call, rank, *link.unexpected());
  return true;
}

bool SlotGroup::has_combined(const PlannedCall& call) const noexcept {
  if (!combines(call.task.kind())) return true;
  return combined_pieces_ > 0 && combined_ == share_bytes(call, me_);
}

bool SlotGroup::combine_piece(PlannedCall& call) noexcept {
  if (has_combined(call)) return false;
  const Task& task = call.task;
  const bool up_to_me = task.kind() == Kind::scan && call.with_word;
  for (int r = 0; r < size(); ++r)
    if (r != me_ && first_part(call, r, me_).moves && held(r) == nullptr) return false;
  // In place, the result overwrites what this rank sends.
  if (call.with_word && task.in == task.out)
    for (const int r : linked_)
      if (!link(r)->has_sent(combined_pieces_)) return false;
  const std::size_t share = share_bytes(call, me_);
  const Piece piece = PieceSchedule::cut(share, combined_, piece_of(call));
  const auto own = static_cast<std::size_t>(share_of(call, me_).first) * task.element + combined_;
  sources_.clear();
  targets_.clear();
  for (int r = 0; r < (up_to_me ? me_ + 1 : size()); ++r)
    sources_.push_back(r == me_ ? task.in + own : held(r));
  const auto count = static_cast<std::int64_t>(piece.bytes / task.element);
  if (call.on_device && count > 0) {
    if (!combine_on_gpu(call, count)) return false;
  } else if (count > 0 && task.kind() == Kind::scan) {
    for (int r = 0; r <= me_ && up_to_me; ++r)
      targets_.push_back(r == me_ ? results(call) + combined_ : nullptr);
    for (int r = 0; r < size() && !up_to_me; ++r)
      targets_.push_back((r == me_
                              ? results(call)
                              : call.between.results.data() + share * static_cast<std::size_t>(r)) +
                         combined_);
    call.reducer->combine_up_to(sources_, targets_, count);
  } else if (count > 0) {
    targets_.push_back(results(call) + combined_);
    call.reducer->combine(sources_, targets_, count, false);
  }
  for (const int r : linked_) link(r)->release();
  combined_ += piece.bytes;
  ++combined_pieces_;
  return true;
}

bool SlotGroup::over(const PlannedCall& call) const noexcept {
  if (!reaches_all_) return false;
  if (call.between.rounds ? !call.between.rounds->made() : !has_combined(call)) return false;
  if (call.on_device && !has_placed_own()) return false;
  return std::ranges::all_of(linked_, [this](int rank) {
    SlotLink& link = *this->link(rank);
    return link.quiet() && link.sent() && link.taken();
  });
}

void SlotGroup::advance_first(PlannedCall& call) noexcept {
  waits_for_paths_ = false;
  carry_on(call);
  // A call that falls back has its input copied within any of the waits for it.
  if (gpu_ != nullptr) [[unlikely]]
    gpu_->look_again(waits_for_paths_ || brings());
}

void SlotGroup::carry_on(PlannedCall& call) noexcept {
  if (is_in_agreement(call) && !agree(call)) return;
  if (call.stage == Stage::posting) {
    exchange(call);
    call.stage = Stage::entering;
  }
  if (!step(call) || !look_at_gpu(call) || !over(call)) return;
  if (!call.on_device) finish(call);
  set_bytes_copied(copied_);
  call.stage = Stage::ended;
}

void SlotGroup::finish(PlannedCall& call) noexcept {
  const Task& task = call.task;
  if (task.out == nullptr || task.out_bytes == 0) return;
  const auto place = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  };
  switch (task.kind()) {
    case Kind::scatter:
      if (me_ == task.root()) place(task.out, task.in + task.at(me_), task.out_bytes);
      return;
    case Kind::gather:
    case Kind::all_gather:
      return place(task.out + task.at(me_), task.in, task.in_bytes);
    case Kind::all_to_all: {
      const auto at = static_cast<std::size_t>(task.out_offsets[static_cast<std::size_t>(me_)]);
      std::byte* const out =
          call.between.gathered.empty() ? task.out : call.between.gathered.data();
      place(out + at * task.element, task.in + task.at(me_), task.part_bytes(me_));
      return place(task.out, out, task.out_bytes);
    }
    default:
      return;
  }
}

void SlotGroup::strange(const PlannedCall& call, int other, const PieceHead& head) noexcept {
  if (head.signature != call.task.signature) return mismatch(call.number, other, head.signature);
  if (head.word != (call.number << 32 | call.mark)) return mismatch_before(call.number, other);
  const auto elements = static_cast<std::int64_t>(head.total / call.task.element);
  const auto expected = first_part(call, other, me_).bytes / call.task.element;
  unequal_parts(call, other, elements, static_cast<std::int64_t>(expected));
}

// Received pieces are copied by this rank itself. Outgoing pieces are read until their puts end.
int SlotGroup::toucher(const PlannedCall& call) noexcept {
  for (const int r : linked_)
    if (!link(r)->at_rest()) return r;
  // The GPU works on tensors of those calls that it carries out.
  return call.on_device && gpu_works() ? me_ : -1;
}

void SlotGroup::cut_off() noexcept {
  for (const int r : linked_) link(r)->end_sending();
}

Status SlotGroup::gone_failure(std::uint64_t) const noexcept {
  return returned([this] { return mesh_.peer_status(needed_and_gone()); });
}

std::vector<int> SlotGroup::needed_and_gone() const {
  // A rank that left in order after its part of the call has put all its data, which may still wait
  // here, and has received all that was put to it. A rank that failed fails the group.
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    const int rank = ranks_[static_cast<std::size_t>(r)];
    const p2p::Peer& peer = mesh_.peer(rank);
    if (r == me_ || !peer.gone()) continue;
    const bool owes = !under_way().empty() && owes_part(*under_way()[0], r);
    // Counts only failures caused by a member: a failed rank outside the group may have made
    // members leave that had done their part.
    const bool drawn_in = std::ranges::find(ranks_, peer.cause) != ranks_.end();
    if (owes || peer.state.load() == p2p::PeerState::failed || drawn_in) missing.push_back(rank);
  }
  return missing;
}

bool SlotGroup::owes_part(const PlannedCall& call, int rank) const noexcept {
  if (sends_to(call, rank)) return true;
  return takes_from(call, rank) && (link(rank) == nullptr || !link(rank)->at_hand());
}

void SlotGroup::add_awaited(const PlannedCall& call, std::vector<int>& members) const {
  // Pieces that have come wait for this rank's GPU.
  const auto is_here = [&](int r) {
    return call.on_device && link(r) != nullptr && link(r)->at_hand();
  };
  for (int r = 0; r < size(); ++r)
    if (r != me_ && takes_from(call, r) && !is_here(r)) members.push_back(r);
  if (!members.empty() || (call.on_device && gpu_->is_working())) return;
  // All data has arrived here; some of this rank's puts are not complete.
  for (int r = 0; r < size(); ++r) {
    if (r == me_) continue;
    const bool is_sent = link(r) == nullptr || (link(r)->quiet() && link(r)->sent());
    if (!is_sent || sends_to(call, r)) members.push_back(r);
  }
}

}  // namespace weft::detail
