// What a rank does once those that it needs have come: loads and stores.
#include <cstring>

#include "base/kernels/copy.hpp"
#include "runtime/collective/host_group.hpp"
#include "runtime/collective/slice.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

}  // namespace

void HostGroup::copy(std::byte* to, const std::byte* from, std::size_t bytes,
                     std::size_t total) const noexcept {
  if (bytes == 0 || to == from) return;
  if (total >= streams_from_)
    kernels::copy_streamed(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void HostGroup::work_with_words(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const auto in = [&](int r) -> const std::byte* {
    return r == me_ ? task.in : members_[static_cast<std::size_t>(r)].area.payload(call.number);
  };
  const auto copy = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  };
  switch (task.kind()) {
    case Kind::barrier:
      return;
    case Kind::broadcast:
      return copy(task.out, in(task.root()), task.out_bytes);
    case Kind::scatter:
      return copy(task.out, in(task.root()) + (task.out_bytes > 0 ? task.at(me_) : 0),
                  task.out_bytes);
    case Kind::all_gather:
    case Kind::gather:
      for (int r = 0; task.out_bytes > 0 && r < size(); ++r)
        copy(task.out + task.at(r), in(r), task.part_bytes(r));
      return;
    case Kind::all_to_all:
      // In place, this rank's part for itself may have been overwritten; it went with the word too.
      for (int r = 0; task.out_bytes > 0 && r < size(); ++r)
        copy(task.out + task.at(r),
             members_[static_cast<std::size_t>(r)].area.payload(call.number) + task.at(me_),
             task.part_bytes(me_));
      return;
    case Kind::reduce:
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::scan: {
      if (task.out_bytes == 0) return;
      const bool scans = task.kind() == Kind::scan;
      const std::size_t first = task.kind() == Kind::reduce_scatter ? task.at(me_) : 0;
      sources_.clear();
      targets_.clear();
      for (int r = 0; r < (scans ? me_ + 1 : size()); ++r) {
        sources_.push_back(in(r) + first);
        if (scans) targets_.push_back(r == me_ ? task.out : nullptr);
      }
      const auto count = static_cast<std::int64_t>(task.out_bytes / task.element);
      if (scans) return call.reducer->combine_up_to(sources_, targets_, count);
      targets_.push_back(task.out);
      return call.reducer->combine(sources_, targets_, count, false);
    }
  }
}

std::byte* HostGroup::find(Member& member, std::uint32_t chunk, std::uint64_t offset,
                           std::uint64_t bytes) noexcept {
  for (Member::Known& known : member.known)
    if (known.base != nullptr && known.chunk == chunk && offset + bytes <= known.bytes)
      return known.base + offset;
  const auto place = member.peer->channel->resolve({chunk, 0, offset + bytes});
  if (!place.ok()) return nullptr;
  std::byte* base = member.peer->channel->direct(*place);
  Member::Known* known = &member.known[member.next_known];
  for (Member::Known& other : member.known)
    if (other.chunk == chunk) known = &other;
  if (known == &member.known[member.next_known])
    member.next_known = (member.next_known + 1) % member.known.size();
  *known = {chunk, base, offset + bytes};
  return base + offset;
}

bool HostGroup::find_peers(PlannedCall& call) noexcept {
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    ins_[at] = call.in;
    outs_[at] = call.out;
    partials_[at] = call.partial ? call.partial.data() : nullptr;
    if (r == me_) continue;
    ins_[at] = nullptr;
    outs_[at] = nullptr;
    partials_[at] = nullptr;
    if (!awaits(call, me_, r)) continue;
    TensorPlaces places;
    std::memcpy(&places, members_[at].area.payload(call.number), sizeof places);
    if (places.in_bytes > 0) {
      ins_[at] = find(members_[at], places.in_chunk, places.in_offset, places.in_bytes);
      if (ins_[at] == nullptr) return wait_for_chunk();
    }
    if (places.out_bytes > 0 && shows_out(call, r)) {
      outs_[at] = find(members_[at], places.out_chunk, places.out_offset, places.out_bytes);
      if (outs_[at] == nullptr) return wait_for_chunk();
    }
    // At the same place of another node it is as large as here.
    if (call.partial_bytes > 0 && nodes_.rank(nodes_.node_of(r), nodes_.place()) == r) {
      partials_[at] =
          find(members_[at], places.partial_chunk, places.partial_offset, call.partial_bytes);
      if (partials_[at] == nullptr) return wait_for_chunk();
    }
  }
  return true;
}

bool HostGroup::wait_for_chunk() noexcept {
  // It is on its way, ahead of a message that rings.
  local_.progress.help();
  return false;
}

bool HostGroup::shows_out(const PlannedCall& call, int whose) noexcept {
  switch (call.task.kind()) {
    case Kind::all_reduce:
    case Kind::scan:
      return true;
    case Kind::reduce:
    case Kind::gather:
      return whose == call.task.root();
    case Kind::broadcast:
      return call.by_nodes && whose != call.task.root();
    case Kind::all_gather:
      return call.by_nodes;
    default:
      return false;
  }
}

bool HostGroup::work_in_place(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const auto root = static_cast<std::size_t>(std::max(0, task.root()));
  switch (task.kind()) {
    case Kind::barrier:
      break;
    case Kind::broadcast:
      if (me_ != task.root()) copy(call.out, ins_[root], task.out_bytes, task.out_bytes);
      break;
    case Kind::scatter:
      copy(call.out, ins_[root] + task.at(me_), task.out_bytes, task.out_bytes);
      break;
    case Kind::gather:
      copy(outs_[root] + task.at(me_), call.in, task.in_bytes, task.in_bytes);
      break;
    case Kind::all_gather:
      for (int i = 0; i < size(); ++i) {
        const int r = (me_ + i) % size();
        copy(call.out + task.at(r), ins_[static_cast<std::size_t>(r)], task.part_bytes(r),
             task.out_bytes);
      }
      break;
    case Kind::all_to_all:
      return exchange_parts(call);
    case Kind::reduce:
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::scan:
      combine_slices(call);
      break;
  }
  return true;
}

bool HostGroup::exchange_parts(PlannedCall& call) noexcept {
  const Task& task = call.task;
  for (int i = 0; i < size(); ++i) {
    const int r = (me_ + i) % size();
    const auto at = static_cast<std::size_t>(r);
    const std::int64_t* theirs = members_[at].area.offsets(call.number);
    const auto first = theirs[me_];
    const auto count = theirs[me_ + 1] - first;
    if (count != task.out_offsets[at + 1] - task.out_offsets[at]) {
      unequal_parts(call, r, count, task.out_offsets[at + 1] - task.out_offsets[at]);
      return false;
    }
    if (count > 0)
      copy(call.out + static_cast<std::size_t>(task.out_offsets[at]) * task.element,
           ins_[at] + static_cast<std::size_t>(first) * task.element,
           static_cast<std::size_t>(count) * task.element, task.out_bytes);
  }
  return true;
}

void HostGroup::combine_slices(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const Kind kind = task.kind();
  const Slice slice = kind == Kind::reduce_scatter
                          ? Slice{task.offsets[static_cast<std::size_t>(me_)], task.part(me_)}
                          : slice_of(task.count, task.element, me_, size());
  if (slice.count == 0) return;
  const std::size_t first = static_cast<std::size_t>(slice.first) * task.element;
  sources_.clear();
  targets_.clear();
  for (const std::byte* in : ins_) sources_.push_back(in + first);
  if (kind == Kind::scan) {
    for (std::byte* out : outs_) targets_.push_back(out + first);
    return call.reducer->combine_up_to(sources_, targets_, slice.count);
  }
  if (kind == Kind::reduce_scatter)
    targets_.push_back(call.out);
  else if (kind == Kind::reduce)
    targets_.push_back(outs_[static_cast<std::size_t>(task.root())] + first);
  else
    for (int i = 0; i < size(); ++i)
      targets_.push_back(outs_[static_cast<std::size_t>((me_ + i) % size())] + first);
  call.reducer->combine(sources_, targets_, slice.count,
                        static_cast<std::size_t>(task.count) * task.element >= streams_from_);
}

}  // namespace weft::detail
