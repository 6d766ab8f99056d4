// The work of a rank in a call within a host, once all members have entered: loads and stores.
#include <array>
#include <cstring>
#include <limits>

#include "base/formatted.hpp"
#include "base/kernels/copy.hpp"
#include "base/stop_point.hpp"
#include "p2p/memory/copy_once.hpp"
#include "runtime/collective/host_group.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

}  // namespace

bool HostGroup::goes_on(const PlannedCall& call, bool alone) noexcept {
  if (failed()) return false;
  for (const Member& member : members_)
    if (gave_up(member, call.number)) return false;
  if (!may_work(alone)) return false;
  pass_stop_point("collective", call.pieces);
  return true;
}

bool HostGroup::copy(PlannedCall& call, std::byte* to, const std::byte* from, std::size_t bytes,
                     std::size_t total) noexcept {
  if (to == from) bytes = 0;
  return by_pieces(call, bytes, kPiece, [&](std::size_t at, std::size_t some) {
    if (total >= kStreamBytes)
      kernels::copy_streamed(to + at, from + at, some);
    else
      std::memcpy(to + at, from + at, some);
  });
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
      // In place, this rank's part for itself may have been overwritten; its entry has a copy.
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
  if (offset > std::numeric_limits<std::uint64_t>::max() - bytes) return nullptr;
  for (Member::Known& known : member.known)
    if (known.base != nullptr && known.chunk == chunk && offset + bytes <= known.bytes)
      return known.base + offset;
  const auto place = member.peer->channel->resolve({chunk, 0, offset + bytes});
  if (!place.ok()) {
    if (place.code() == Code::exhausted) unmapped_ = place.status();
    return nullptr;
  }
  std::byte* base = member.peer->channel->map(*place);
  if (base == nullptr) return nullptr;  // this process cannot load from that memory
  Member::Known* known = &member.known[member.next_known];
  for (Member::Known& other : member.known)
    if (other.chunk == chunk) known = &other;
  if (known == &member.known[member.next_known])
    member.next_known = (member.next_known + 1) % member.known.size();
  *known = {chunk, base, offset + bytes};
  return base + offset;
}

std::optional<std::uint64_t> HostGroup::in_bytes(const Task& task, int whose) noexcept {
  switch (task.kind()) {
    case Kind::barrier:
      return 0;
    case Kind::broadcast:
    case Kind::scatter:
      return whose == task.root() ? static_cast<std::uint64_t>(task.count) * task.element : 0;
    case Kind::gather:
      return whose == task.root() ? task.part_bytes(whose) : 0;
    case Kind::all_gather:
      return task.part_bytes(whose);
    case Kind::all_to_all:
      return std::nullopt;
    default:
      return static_cast<std::uint64_t>(task.count) * task.element;
  }
}

std::uint64_t HostGroup::out_bytes(const PlannedCall& call, int whose) noexcept {
  return shows_out(call, whose) ? static_cast<std::uint64_t>(call.task.count) * call.task.element
                                : 0;
}

bool HostGroup::find_peers(PlannedCall& call) noexcept {
  unknown_ = -1;
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    const bool own = r == me_;
    ins_[at] = own ? call.in : nullptr;
    in_bytes_[at] = own ? call.task.in_bytes : 0;
    outs_[at] = own ? call.out : nullptr;
    partials_[at] = own && call.within.partial ? call.within.partial.data() : nullptr;
    if (!own && !find_peer(call, r)) return false;
  }
  return true;
}

// Reads another rank's announcement once, and then compares the copy with what it must be: the
// other rank can write to the shared memory at any time.
bool HostGroup::find_peer(PlannedCall& call, int other) noexcept {
  const auto at = static_cast<std::size_t>(other);
  Member& member = members_[at];
  const auto places = p2p::copy_once<TensorPlaces>(member.area.payload(call.number));
  const std::uint64_t in = in_bytes(call.task, other).value_or(places.in_bytes);
  const std::uint64_t out = out_bytes(call, other);
  if (places.in_bytes != in || (out > 0 && places.out_bytes != out)) {
    refuse(call, other,
           formatted("offers {} bytes to read and {} to write instead of {} and {}",
                     places.in_bytes, places.out_bytes, in, out));
    return false;
  }
  in_bytes_[at] = in;
  if (in > 0) {
    ins_[at] = find(member, places.in_chunk, places.in_offset, in);
    if (ins_[at] == nullptr) return wait_for_chunk(call, other);
  }
  if (out > 0) {
    // Memory that the rank publishes is mapped read-only here.
    if (p2p::sort_of_chunk(places.out_chunk) != p2p::ArenaSort::data) {
      refuse(call, other, "offers memory for writing that no other rank may write");
      return false;
    }
    outs_[at] = find(member, places.out_chunk, places.out_offset, out);
    if (outs_[at] == nullptr) return wait_for_chunk(call, other);
  }
  // A rank at this rank's place in another node has a partial result of the same size.
  if (call.within.partial_bytes > 0 &&
      nodes_.rank(nodes_.node_of(other), nodes_.place()) == other) {
    partials_[at] =
        find(member, places.partial_chunk, places.partial_offset, call.within.partial_bytes);
    if (partials_[at] == nullptr) return wait_for_chunk(call, other);
  }
  return true;
}

bool HostGroup::wait_for_chunk(const PlannedCall& call, int whose) noexcept {
  unknown_ = whose;
  if (!unmapped_.ok()) {
    ErrorDetail detail = unmapped_.detail();
    detail.operation = name(call.task.kind());
    detail.message =
        formatted("call {} of the group: on rank {}, {}", call.number, local_.rank, detail.message);
    const Status why(std::move(detail));
    if (!failed()) tell_failure(why);
    fail(why);
    return false;
  }
  // The descriptor is under way; a message that wakes this rank follows it.
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
      return call.within.by_nodes && whose != call.task.root();
    case Kind::all_gather:
      return call.within.by_nodes;
    default:
      return false;
  }
}

bool HostGroup::work_in_place(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const auto root = static_cast<std::size_t>(std::max(0, task.root()));
  piece_ = 0;
  switch (task.kind()) {
    case Kind::barrier:
      return true;
    case Kind::broadcast:
      return me_ == task.root() || copy(call, call.out, ins_[root], task.out_bytes, task.out_bytes);
    case Kind::scatter:
      return copy(call, call.out, ins_[root] + task.at(me_), task.out_bytes, task.out_bytes);
    case Kind::gather:
      return copy(call, outs_[root] + task.at(me_), call.in, task.in_bytes, task.in_bytes);
    case Kind::all_gather:
      for (int i = 0; i < size(); ++i) {
        const int r = (me_ + i) % size();
        if (!copy(call, call.out + task.at(r), ins_[static_cast<std::size_t>(r)],
                  task.part_bytes(r), task.out_bytes))
          return false;
      }
      return true;
    case Kind::all_to_all:
      return exchange_parts(call);
    default:
      return combine_slices(call);
  }
}

bool HostGroup::exchange_parts(PlannedCall& call) noexcept {
  const Task& task = call.task;
  for (int i = 0; i < size(); ++i) {
    const int r = (me_ + i) % size();
    const auto at = static_cast<std::size_t>(r);
    const std::int64_t* const theirs =
        r == me_ ? task.offsets.data() : members_[at].area.offsets(call.number);
    std::array<std::int64_t, 2> part;  // read once: the other rank can write there
    std::memcpy(part.data(), theirs + me_, sizeof part);
    const auto [first, end] = part;
    const auto held = static_cast<std::int64_t>(in_bytes_[at] / task.element);
    if (first < 0 || end < first || end > held) {
      refuse(call, r, formatted("offers elements {} to {} of {}", first, end, held));
      return false;
    }
    const std::int64_t expected = task.out_offsets[at + 1] - task.out_offsets[at];
    if (end - first != expected) {
      unequal_parts(call, r, end - first, expected);
      return false;
    }
    if (expected > 0 &&
        !copy(call, call.out + static_cast<std::size_t>(task.out_offsets[at]) * task.element,
              ins_[at] + static_cast<std::size_t>(first) * task.element,
              static_cast<std::size_t>(expected) * task.element, task.out_bytes))
      return false;
  }
  return true;
}

bool HostGroup::combine_slices(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const Kind kind = task.kind();
  const Slice slice = kind == Kind::reduce_scatter
                          ? Slice{task.offsets[static_cast<std::size_t>(me_)], task.part(me_)}
                          : slice_of(task.count, task.element, me_, size());
  const bool streamed = static_cast<std::size_t>(task.count) * task.element >= kStreamBytes;
  const auto whole = static_cast<std::size_t>(slice.count);
  return by_pieces(call, whole, kPiece / task.element, [&](std::size_t at, std::size_t some) {
    const std::size_t first = (static_cast<std::size_t>(slice.first) + at) * task.element;
    const auto count = static_cast<std::int64_t>(some);
    sources_.clear();
    targets_.clear();
    for (const std::byte* in : ins_) sources_.push_back(in + first);
    if (kind == Kind::scan) {
      for (std::byte* out : outs_) targets_.push_back(out + first);
      return call.reducer->combine_up_to(sources_, targets_, count);
    }
    if (kind == Kind::reduce_scatter)
      targets_.push_back(call.out + at * task.element);
    else if (kind == Kind::reduce)
      targets_.push_back(outs_[static_cast<std::size_t>(task.root())] + first);
    else
      for (int i = 0; i < size(); ++i)
        targets_.push_back(outs_[static_cast<std::size_t>((me_ + i) % size())] + first);
    call.reducer->combine(sources_, targets_, count, streamed);
  });
}

}  // namespace weft::detail
