// Prepares a call within a host: where its tensors are reached, and how they travel.
#include <algorithm>
#include <optional>

#include "runtime/collective/collective_table.hpp"
#include "runtime/collective/host_group.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

}  // namespace

bool HostGroup::goes_with_word(const Task& task) const noexcept {
  if (task.kind() == Kind::barrier) return true;
  // A rank that reads an entry of every member reads (size - 1) times the tensor's bytes.
  const bool from_all = task.kind() != Kind::broadcast && task.kind() != Kind::scatter;
  const std::size_t readers = from_all ? std::max<std::size_t>(1, ranks_.size() - 1) : 1;
  return task.most_bytes <= word_bytes_ / readers;
}

void HostGroup::prepare(PlannedCall& call) {
  call.with_word = goes_with_word(call.task);
  if (call.with_word) return;
  call.within.by_nodes = goes_by_nodes(call);
  place_input(call);
  place_output(call);
  place_partial(call);
}

void HostGroup::place_input(PlannedCall& call) {
  const Task& task = call.task;
  if (task.in == nullptr || task.in_bytes == 0) return;
  // Other ranks read the input, so it must not be overwritten meanwhile.
  const bool own_only = task.kind() == Kind::gather && me_ != task.root();
  const bool overwritten = task.kind() == Kind::all_to_all && task.in == task.out;
  call.in = task.in;
  std::optional<p2p::Block> place;
  if (!overwritten) {
    place = local_.data->locate(task.in, task.in_bytes);
    if (!place) place = local_.published->locate(task.in, task.in_bytes);
  }
  if (own_only) return;
  if (!place) {
    call.within.in_stage = p2p::OwnedBlock(local_.data, task.in_bytes);
    call.in = call.within.in_stage.data();
    place = call.within.in_stage.block();
  }
  call.within.places.in_chunk = place->chunk;
  call.within.places.in_offset = place->offset;
  call.within.places.in_bytes = task.in_bytes;
  export_chunk(place->chunk);
}

void HostGroup::place_output(PlannedCall& call) {
  const Task& task = call.task;
  call.out = task.out;
  if (task.out == nullptr || task.out_bytes == 0 || !shows_out(call, me_)) return;
  auto place = local_.data->locate(task.out, task.out_bytes);
  if (!place) {
    call.within.out_stage = p2p::OwnedBlock(local_.data, task.out_bytes);
    call.out = call.within.out_stage.data();
    place = call.within.out_stage.block();
  }
  call.within.places.out_chunk = place->chunk;
  call.within.places.out_offset = place->offset;
  call.within.places.out_bytes = task.out_bytes;
  export_chunk(place->chunk);
}

void HostGroup::place_partial(PlannedCall& call) {
  if (!call.within.by_nodes || !combines(call.task.kind())) return;
  call.within.partial_bytes =
      static_cast<std::size_t>(partial_elements(call.task)) * call.reducer->wide();
  if (call.within.partial_bytes == 0) return;
  call.within.partial = p2p::OwnedBlock(local_.data, call.within.partial_bytes);
  const p2p::Block& place = call.within.partial.block();
  call.within.places.partial_chunk = place.chunk;
  call.within.places.partial_offset = place.offset;
  export_chunk(place.chunk);
}

void HostGroup::export_chunk(std::uint32_t chunk) {
  // A call that falls back to host memory does this on any waiting thread.
  const std::lock_guard lock(export_mutex_);
  if (std::find(exported_.begin(), exported_.end(), chunk) != exported_.end()) return;
  table_.share(ranks_, chunk, {.what = CollectiveMessage::What::shared, .group = id_});
  exported_.push_back(chunk);
}

}  // namespace weft::detail
