// Collectives of a host whose ranks lie in several NUMA nodes: a tensor crosses between two nodes
// once, instead of once per rank. A tensor is divided by the places of ranks in their nodes.
// Combining: the ranks of a node combine their tensors, the ranks of a place then combine the
// results of the nodes, and all_reduce distributes the result within each node. Copying: each rank
// of a node fetches one share and copies the other shares from the ranks of its node.
#include "runtime/collective/host_group.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

/// Below this size, in bytes, saving a crossing is not worth another synchronization. Calculated,
/// not measured: reading another node's cache line takes about 100 ns, moving 64 KiB at 10 GB/s 6
/// us.
constexpr std::size_t kBytes = 256u << 10;
constexpr int kMates = 4;

int steps_of(Kind kind) noexcept { return kind == Kind::all_reduce ? 3 : 2; }

}  // namespace

bool HostGroup::goes_by_nodes(const PlannedCall& call) const {
  const Task& task = call.task;
  const Kind kind = task.kind();
  if (nodes_.empty() || !serves_by_nodes(kind) || task.count == 0) return false;
  if (combines(kind) && !nodes_.are_branches() && !task.signature.may_reorder()) return false;
  const Algorithm asked = call.call.algorithm;
  const std::uint64_t bytes = static_cast<std::uint64_t>(task.count) * task.element;
  const Algorithm by =
      asked != Algorithm::automatic ? asked : ruled(choices_, kind, bytes, [](Algorithm algorithm) {
        return algorithm == Algorithm::direct || algorithm == Algorithm::two_level;
      });
  if (by != Algorithm::automatic) return by == Algorithm::two_level;
  return nodes_.mates() >= kMates && bytes >= kBytes;
}

std::int64_t HostGroup::partial_elements(const Task& task) const noexcept {
  if (task.kind() != Kind::reduce_scatter)
    return slice_of(task.count, task.element, nodes_.place(), nodes_.mates()).count;
  std::int64_t elements = 0;
  for (const int r : nodes_.column()) elements += task.part(r);
  return elements;
}

bool HostGroup::work_by_nodes(PlannedCall& call) noexcept {
  const Kind kind = call.task.kind();
  const std::span<const int> awaited = awaited_by_nodes(call.task);
  while (true) {
    for (const int r : awaited)
      if (call.step > 0 && r != me_ && !has_passed(r, call.number, call.step)) return false;
    if (is_given_up(call.number)) return false;
    piece_ = 0;
    if (!(combines(kind) ? combine_by_nodes(call) : copy_by_nodes(call))) return false;
    call.pieces = 0;
    if (++call.step == steps_of(kind)) return true;
    area_.passed().store(GroupArea::step_word(call.number, call.step), std::memory_order_release);
    for (const int r : awaited)
      if (r != me_) ring(r);
  }
}

bool HostGroup::has_passed(int rank, std::uint64_t number, int step) const noexcept {
  return members_[static_cast<std::size_t>(rank)].area.passed().load(std::memory_order_acquire) >=
         GroupArea::step_word(number, step);
}

std::span<const int> HostGroup::awaited_by_nodes(const Task& task) const noexcept {
  return combines(task.kind()) ? nodes_.column() : nodes_.row();
}

bool HostGroup::combine_by_nodes(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const Slice slice = slice_of(task.count, task.element, nodes_.place(), nodes_.mates());
  if (call.step == 1) return combine_column(call, slice);
  if (call.step == 0) {
    std::byte* to = call.within.partial.data();
    if (task.kind() != Kind::reduce_scatter) return combine_row(call, to, slice.first, slice.count);
    for (const int r : nodes_.column()) {
      if (!combine_row(call, to, task.offsets[static_cast<std::size_t>(r)], task.part(r)))
        return false;
      to += static_cast<std::size_t>(task.part(r)) * call.reducer->wide();
    }
    return true;
  }
  const auto first = static_cast<std::size_t>(slice.first) * task.element;
  for (int i = 1; i < nodes_.mates(); ++i) {
    const int r = nodes_.rank(nodes_.node(), (nodes_.place() + i) % nodes_.mates());
    if (!copy(call, outs_[static_cast<std::size_t>(r)] + first, call.out + first,
              static_cast<std::size_t>(slice.count) * task.element, task.out_bytes))
      return false;
  }
  return true;
}

bool HostGroup::combine_row(PlannedCall& call, std::byte* to, std::int64_t first,
                            std::int64_t count) noexcept {
  const std::size_t element = call.task.element;
  return by_pieces(call, static_cast<std::size_t>(count), kPiece / element,
                   [&](std::size_t at, std::size_t some) {
                     sources_.clear();
                     for (const int r : nodes_.row())
                       sources_.push_back(ins_[static_cast<std::size_t>(r)] +
                                          (static_cast<std::size_t>(first) + at) * element);
                     call.reducer->combine_partly(sources_, to + at * call.reducer->wide(),
                                                  static_cast<std::int64_t>(some));
                   });
}

bool HostGroup::combine_column(PlannedCall& call, const Slice& slice) noexcept {
  const Task& task = call.task;
  const std::size_t wide = call.reducer->wide();
  const bool streamed = static_cast<std::size_t>(task.count) * task.element >= kStreamBytes;
  Slice own = slice_of(slice.count, task.element, nodes_.node(), nodes_.nodes());
  if (task.kind() == Kind::reduce_scatter) {
    own = {0, task.part(me_)};
    for (int node = 0; node < nodes_.node(); ++node)
      own.first += task.part(nodes_.column()[static_cast<std::size_t>(node)]);
  }
  return by_pieces(
      call, static_cast<std::size_t>(own.count), kPiece / task.element,
      [&](std::size_t at, std::size_t some) {
        const auto first = (static_cast<std::size_t>(slice.first + own.first) + at) * task.element;
        sources_.clear();
        targets_.clear();
        for (const int r : nodes_.column()) {
          const auto rank = static_cast<std::size_t>(r);
          sources_.push_back(partials_[rank] + (static_cast<std::size_t>(own.first) + at) * wide);
          if (task.kind() == Kind::all_reduce) targets_.push_back(outs_[rank] + first);
        }
        if (task.kind() == Kind::reduce_scatter) targets_.push_back(call.out + at * task.element);
        if (task.kind() == Kind::reduce)
          targets_.push_back(outs_[static_cast<std::size_t>(task.root())] + first);
        call.reducer->combine_partials(sources_, targets_, static_cast<std::int64_t>(some),
                                       ranks_.size(), streamed);
      });
}

bool HostGroup::copy_by_nodes(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const bool first_step = call.step == 0;
  if (task.kind() == Kind::broadcast) return broadcast_by_nodes(call);
  for (int i = 0; i < nodes_.mates(); ++i) {
    if (first_step != (i == 0)) continue;
    const int place = (nodes_.place() + i) % nodes_.mates();
    const auto mate = static_cast<std::size_t>(nodes_.rank(nodes_.node(), place));
    for (int node = 0; node < nodes_.nodes(); ++node) {
      const int r = nodes_.rank(node, place);
      const bool fetched = !first_step && node != nodes_.node();
      if (!copy(call, call.out + task.at(r),
                fetched ? outs_[mate] + task.at(r) : ins_[static_cast<std::size_t>(r)],
                task.part_bytes(r), task.out_bytes))
        return false;
    }
  }
  return true;
}

bool HostGroup::broadcast_by_nodes(PlannedCall& call) noexcept {
  const Task& task = call.task;
  const bool first_step = call.step == 0;
  const auto root = static_cast<std::size_t>(task.root());
  if (nodes_.node_of(task.root()) == nodes_.node())
    return !first_step || me_ == task.root() ||
           copy(call, call.out, ins_[root], task.out_bytes, task.out_bytes);
  for (int i = 0; i < nodes_.mates(); ++i) {
    const int place = (nodes_.place() + i) % nodes_.mates();
    if (first_step != (i == 0)) continue;
    const Slice slice = slice_of(task.count, task.element, place, nodes_.mates());
    const auto first = static_cast<std::size_t>(slice.first) * task.element;
    const int mate = nodes_.rank(nodes_.node(), place);
    const std::byte* from = first_step ? ins_[root] : outs_[static_cast<std::size_t>(mate)];
    if (!copy(call, call.out + first, from + first,
              static_cast<std::size_t>(slice.count) * task.element, task.out_bytes))
      return false;
  }
  return true;
}

}  // namespace weft::detail
