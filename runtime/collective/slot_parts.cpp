// The parts that ranks send each other in a collective between hosts, and their places in memory.
#include <algorithm>

#include "runtime/collective/slot_group.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

std::size_t bytes_of(const Task& task, std::int64_t elements) noexcept {
  return static_cast<std::size_t>(elements) * task.element;
}

}  // namespace

bool SlotGroup::gets(const Task& task, int rank) noexcept {
  return task.kind() != Kind::reduce || rank == task.root();
}

SlotGroup::Share SlotGroup::share_of(const PlannedCall& call, int rank) const noexcept {
  const Task& task = call.task;
  if (task.kind() == Kind::reduce_scatter)
    return {task.offsets[static_cast<std::size_t>(rank)], task.part(rank)};
  if (call.with_word) return {0, gets(task, rank) ? task.count : 0};
  const std::int64_t each = task.count / size();
  const std::int64_t more = task.count % size();
  return {each * rank + std::min<std::int64_t>(rank, more), each + (rank < more ? 1 : 0)};
}

std::size_t SlotGroup::share_bytes(const PlannedCall& call, int rank) const noexcept {
  return bytes_of(call.task, share_of(call, rank).count);
}

SlotGroup::Part SlotGroup::first_part(const PlannedCall& call, int from, int to) const noexcept {
  const Task& task = call.task;
  switch (task.kind()) {
    case Kind::barrier:
      return {true, 0, 0};
    case Kind::broadcast:
      return {from == task.root(), 0, bytes_of(task, task.count)};
    case Kind::scatter:
      return {from == task.root(), task.at(to), task.part_bytes(to)};
    case Kind::gather:
      return {to == task.root(), 0, task.part_bytes(from)};
    case Kind::all_gather:
      return {true, 0, task.part_bytes(from)};
    case Kind::all_to_all:
      if (from == me_) return {true, task.at(to), task.part_bytes(to)};
      return {true, 0,
              bytes_of(task, task.out_offsets[static_cast<std::size_t>(from) + 1] -
                                 task.out_offsets[static_cast<std::size_t>(from)])};
    default: {
      const Share share = share_of(call, to);
      const bool scans = task.kind() == Kind::scan;
      const bool moves = !call.with_word || (gets(task, to) && (!scans || from < to));
      return {moves, bytes_of(task, share.first), moves ? bytes_of(task, share.count) : 0};
    }
  }
}

std::size_t SlotGroup::second_bytes(const PlannedCall& call, int from, int to) const noexcept {
  const Kind kind = call.task.kind();
  const bool shared = combines(kind) && kind != Kind::reduce_scatter && !call.with_word;
  return shared && gets(call.task, to) ? share_bytes(call, from) : 0;
}

SlotLink::Sending SlotGroup::sending(PlannedCall& call, int to) const noexcept {
  const Part first = first_part(call, me_, to);
  const std::size_t second = second_bytes(call, me_, to);
  SlotLink::Sending sending{.piece_schedule = {first.moves, first.bytes, second, piece_of(call)},
                            .first = {&call.between.flat_in, first.offset},
                            .second = {}};
  if (second == 0) return sending;
  if (call.task.kind() == Kind::scan)
    sending.second = {&call.between.results, second * static_cast<std::size_t>(to)};
  else if (gets(call.task, me_))
    sending.second = {&call.between.flat_out, bytes_of(call.task, share_of(call, me_).first)};
  else
    sending.second = {&call.between.results, 0};
  return sending;
}

SlotLink::Taking SlotGroup::taking(PlannedCall& call, int from) const noexcept {
  const Task& task = call.task;
  const Part first = first_part(call, from, me_);
  SlotLink::Taking taking{
      .piece_schedule = {first.moves, first.bytes, second_bytes(call, from, me_), piece_of(call)},
      .first = nullptr,
      .second = nullptr};
  const auto at = static_cast<std::size_t>(from);
  if (combines(task.kind())) {
    if (task.out != nullptr) taking.second = task.out + bytes_of(task, share_of(call, from).first);
    return taking;
  }
  taking.first = task.out;
  if (task.kind() == Kind::gather || task.kind() == Kind::all_gather)
    taking.first = task.out == nullptr ? nullptr : task.out + task.at(from);
  if (task.kind() == Kind::all_to_all)
    taking.first = (call.between.gathered.empty() ? task.out : call.between.gathered.data()) +
                   bytes_of(task, task.out_offsets[at]);
  // Only heads arrive.
  if (taking.first == nullptr) taking.first = &call.between.nothing;
  return taking;
}

std::byte* SlotGroup::results(PlannedCall& call) const noexcept {
  const Task& task = call.task;
  if (!gets(task, me_)) return call.between.results.data();
  if (task.kind() == Kind::reduce_scatter) return task.out;
  return task.out + bytes_of(task, share_of(call, me_).first);
}

}  // namespace weft::detail
