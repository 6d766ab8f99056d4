#include "pslib/dense/service.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weft::pslib {
namespace {

bool is_end(Code code) { return code == Code::closed || code == Code::peer_left; }

// What may have ended a source; whether it is an end in order depends on its table.
bool may_end(Code code) { return is_end(code) || code == Code::peer_failed; }

}  // namespace

Service::Service(World& world, std::span<const Served> tables)
    : world_(world), group_(world.group()) {
  for (const Served& table : tables) {
    TableShard& shard = *table.shard;
    shards_.push_back(&shard);
    for (std::size_t worker = 0; worker < shard.workers(); ++worker)
      sources_.push_back({Kind::gradients, &shard.gradients(worker), table, worker});
    workers_ += shard.workers();
    for (std::size_t peer = 0; peer < shard.peers(); ++peer)
      sources_.push_back({Kind::peers, shard.peer(peer), table, peer});
    for (RemoteSlot& other : table.agreement->others())
      sources_.push_back({Kind::life, &other, table, 0});
  }
}

Status Service::run() {
  std::vector<RemoteSlot*> slots;
  while (workers_ > 0) {
    slots.clear();
    for (const Source& source : sources_) slots.push_back(source.slot);
    const auto ready = world_.wait_any(slots);
    Status status = ready ? serve(sources_[*ready]) : ready.status();
    if (may_end(status.code())) status = drop_closed();
    if (status) status = regroup();
    if (status) status = check_step();
    if (!status) return first_cause_ ? status : first_cause_;
  }
  return first_cause_;
}

Status Service::serve(const Source& source) {
  const std::uint64_t since = TableInsight::now();
  Status status = take(source, {});
  if (source.kind != Kind::life)
    source.table.insight->served(*source.table.shard, TableInsight::now() - since);
  return status;
}

Status Service::take(const Source& source, Deadline deadline) {
  TableShard& shard = *source.table.shard;
  Status status;
  switch (source.kind) {
    case Kind::gradients:
      status = shard.take(source.index, deadline);
      break;
    case Kind::peers:
      status = shard.take_peer(source.index, deadline);
      break;
    case Kind::life:
      return source.slot->view(deadline).status();
  }
  return status ? shard.advance() : status;
}

// wait_any tells that a slot has ended, not which: a look at each finds out.
Status Service::drop_closed() {
  for (std::size_t i = 0; i < sources_.size();) {
    const Source source = sources_[i];
    Status status = take(source, Deadline::after({}));
    // Who left because another had died names that one.
    const bool has_ended =
        is_end(status.code()) ||
        (status.code() == Code::peer_failed && source.table.shard->survives(status.detail().peer));
    if (!status && !has_ended && status.code() != Code::timeout) {
      if (source.kind == Kind::gradients) (void)source.table.shard->drop(source.index);
      return status;
    }
    if (!has_ended) {
      ++i;
      continue;
    }
    sources_.erase(sources_.begin() + static_cast<std::ptrdiff_t>(i));
    if (source.kind != Kind::gradients) continue;
    closed_.push_back(source);
    --workers_;
    if (status = source.table.shard->drop(source.index); !status) return status;
  }
  return {};
}

// All survivors agree on the same groups, one after the other, so their tables do so too.
Status Service::regroup() {
  const auto is_outdated = [this](const TableShard* shard) { return shard->is_outdated(group_); };
  while (std::ranges::any_of(shards_, is_outdated)) {
    const auto shrunk = group_.shrink();
    if (!shrunk) return shrunk.status();
    group_ = *shrunk;
    for (TableShard* const shard : shards_)
      if (Status status = shard->enter(group_); !status) return status;
  }
  return {};
}

// A step that some workers have pushed and another never will can't be finished.
Status Service::check_step() {
  for (const Source& gone : closed_) {
    const TableShard& shard = *gone.table.shard;
    if (!shard.needs_all()) continue;
    if (!shard.tells_who_is_lost()) return unfinished(gone);
    if (first_cause_) first_cause_ = unfinished(gone);
  }
  return {};
}

Status Service::unfinished(const Source& gone) const {
  ErrorDetail detail;
  detail.code = Code::closed;
  detail.operation = "serve";
  detail.message = fmt::format(
      "rank {} closed table \"{}\" after {} updates, while other workers pushed the next",
      gone.slot->owner(), gone.table.table, gone.table.shard->version());
  detail.hint = "let every worker make the same number of steps";
  detail.rank = world_.rank();
  detail.peer = gone.slot->owner();
  detail.slot = gone.slot->spec().name;
  return Status(std::move(detail));
}

}  // namespace weft::pslib
