#include "pslib/table/service.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "pslib/table/table_errors.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib {
namespace {

/// Longer than any job, so that a wait for a rank ends only when the rank does.
constexpr std::chrono::hours kWhileWorkersLive{24 * 365};

bool is_end(Code code) { return code == Code::closed || code == Code::peer_left; }

// Codes that may mean the end of a source; the table decides whether that end is in order.
bool may_end(Code code) { return is_end(code) || code == Code::peer_failed; }

}  // namespace

void show(const TableShard& shard, std::uint64_t busy_ns, TableInsight& insight) noexcept {
  insight.served(shard.version(), shard.load(), shard.statistics(), busy_ns);
}

Service::Service(World& world, const Group& group, std::span<const Served> tables)
    : world_(world), group_(group), tables_(tables.begin(), tables.end()) {
  for (const Served& table : tables_) {
    TableShard& shard = *table.shard;
    shards_.push_back(&shard);
    for (std::size_t worker = 0; worker < shard.workers(); ++worker)
      sources_.push_back({Kind::gradients, &shard.gradients(worker), table, worker});
    workers_ += shard.workers();
    for (std::size_t peer = 0; peer < shard.peers(); ++peer)
      sources_.push_back({Kind::peers, shard.peer(peer), table, peer});
    for (PublishedReader& other : table.agreement->watched())
      sources_.push_back({Kind::life, &other, table, 0});
  }
}

// Workers may compute for longer than any timeout, and may be stopped while a wait needs them: only
// their end ends this wait. A shard can't repeat half an update, so its own waits last as long.
// Each wait on a source is limited to WEFT_TIMEOUT and then repeated, so that other sources get
// their turn.
Status Service::run(Deadline deadline) {
  Status status = go_on(deadline);
  for (const Served& table : tables_) status = in_words(std::move(status), table);
  return status;
}

Status Service::go_on(Deadline deadline) {
  const bool lasts = deadline.is_default();
  for (TableShard* const shard : shards_)
    shard->wait_until(lasts ? Deadline::after(kWhileWorkersLive) : deadline);
  std::vector<PublishedReader*> slots;
  while (workers_ > 0) {
    if (!deadline.is_default() && deadline.passed()) return late();
    slots.clear();
    for (const Source& source : sources_) slots.push_back(source.slot);
    const auto ready = wait_any(
        world_, {.set = {.readers = slots}, .about = {.operation = stats::Operation::serve}},
        next_look(deadline));
    const bool is_quiet = !ready && ready.status().code() == Code::timeout;
    Status status = ready ? serve(*ready, deadline) : is_quiet ? look_again() : ready.status();
    if (status.code() == Code::timeout && lasts) status = {};
    if (status.code() == Code::timeout && deadline.passed()) continue;
    if (status) status = regroup();
    if (status) status = check_step();
    if (!status) return first_cause_ ? status : first_cause_;
  }
  return first_cause_;
}

Deadline Service::next_look(Deadline deadline) const noexcept {
  for (const TableShard* const shard : shards_)
    if (const Deadline at = shard->advance_at();
        !at.is_default() && (deadline.is_default() || at.when() < deadline.when()))
      deadline = at;
  return deadline;
}

Status Service::look_again() {
  for (TableShard* const shard : shards_)
    if (const Deadline at = shard->advance_at(); !at.is_default() && at.passed())
      if (Status status = shard->advance(); !status) return status;
  return {};
}

Status Service::serve(std::size_t index, Deadline deadline) {
  const std::uint64_t since = TableInsight::now();
  const Source source = sources_[index];
  Status status = take(source, deadline);
  if (status)
    status = advance(*source.table.shard);
  else if (may_end(status.code()))
    status = drop_closed();
  else if (is_refusal(source, status))
    status = refuse_worker(index, status);
  if (source.kind != Kind::life)
    show(*source.table.shard, TableInsight::now() - since, *source.table.insight);
  return status;
}

// If a source has ended, the shard may be able to go on without it once it is dropped. Otherwise
// its error stands.
Status Service::advance(TableShard& shard) {
  Status status = shard.advance();
  if (!may_end(status.code())) return status;
  const std::size_t before = sources_.size();
  if (Status ended = drop_closed(); !ended) return ended;
  return sources_.size() < before ? shard.advance() : status;
}

Status Service::take(const Source& source, Deadline deadline) {
  switch (source.kind) {
    case Kind::gradients:
      return source.table.shard->take(source.index, deadline);
    case Kind::peers:
      return source.table.shard->take_peer(source.index, deadline);
    case Kind::life:
      break;
  }
  return source.slot->view(deadline).status();
}

// wait_any() reports that some slot has ended but not which, so check each.
Status Service::drop_closed() {
  for (std::size_t i = 0; i < sources_.size();) {
    const Source source = sources_[i];
    Status status = take(source, Deadline::after({}));
    if (status) {
      ++i;
      continue;
    }
    if (is_refusal(source, status)) {
      if (status = refuse_worker(i, status); !status) return status;
      continue;
    }
    // A worker that left because another rank died reports that other rank.
    const bool has_ended =
        is_end(status.code()) ||
        (status.code() == Code::peer_failed && source.table.shard->survives(status.detail().peer));
    if (!has_ended && status.code() != Code::timeout) {
      if (source.kind == Kind::gradients) (void)source.table.shard->drop(source.index);
      return status;
    }
    if (!has_ended) {
      ++i;
      continue;
    }
    if (status = drop(i); !status) return status;
  }
  // After the loop: a shard can only go on once all sources that ended are dropped.
  for (TableShard* const shard : shards_)
    if (Status status = shard->advance(); !status) return status;
  return {};
}

Status Service::drop(std::size_t index) {
  const Source source = sources_[index];
  sources_.erase(sources_.begin() + static_cast<std::ptrdiff_t>(index));
  if (source.kind != Kind::gradients) return {};
  closed_.push_back(source);
  --workers_;
  return source.table.shard->drop(source.index);
}

bool Service::is_refusal(const Source& source, const Status& status) const noexcept {
  return source.kind == Kind::gradients && status.code() == Code::mismatch &&
         status.detail().peer == source.slot->owner();
}

// Drops the worker from one table; other tables continue.
Status Service::refuse_worker(std::size_t index, const Status& why) {
  const Served& table = sources_[index].table;
  log_of(world_)->error(Subsystem::ps, "table \"{}\" goes on without rank {}: {}", table.table,
                        why.detail().peer, in_words(why, table).detail().text());
  if (first_cause_) first_cause_ = why;
  return drop(index);
}

// All survivors agree on the same sequence of groups, so their tables enter them in the same order.
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

// Fails if some workers have pushed a step that another worker will never push.
Status Service::check_step() {
  for (const Source& gone : closed_) {
    const TableShard& shard = *gone.table.shard;
    if (!shard.needs_all()) continue;
    if (!shard.tells_who_is_lost()) return unfinished(gone);
    if (first_cause_) first_cause_ = unfinished(gone);
  }
  return {};
}

Status Service::late() const {
  const auto awaited = std::ranges::find_if(sources_, [](const Source& source) {
    return source.kind == Kind::gradients && source.table.shard->is_late(source.index);
  });
  const auto last = awaited != sources_.end()
                        ? awaited
                        : std::ranges::find(sources_, Kind::gradients, &Source::kind);
  const char* const lack = awaited != sources_.end()
                               ? "has not made the push that the others wait for, to"
                               : "has not closed";
  ErrorDetail detail =
      error_detail(Code::timeout, "serve",
                   fmt::format("rank {}{} {} table \"{}\" yet, of which {} updates are done",
                               last->slot->owner(), suspicion_of(world_, last->slot->owner()), lack,
                               last->table.table, last->table.shard->version()),
                   "a longer deadline, or none: then it serves for as long as its workers live");
  detail.rank = world_.rank();
  detail.peer = last->slot->owner();
  return Status(std::move(detail));
}

Status Service::unfinished(const Source& gone) const {
  ErrorDetail detail = error_detail(
      Code::closed, "serve",
      fmt::format(
          "rank {} closed table \"{}\" after {} updates, while other workers pushed the next",
          gone.slot->owner(), gone.table.table, gone.table.shard->version()),
      "let every worker make the same number of steps");
  detail.rank = world_.rank();
  detail.peer = gone.slot->owner();
  return Status(std::move(detail));
}

Status Service::in_words(Status status, const Served& table) noexcept {
  if (status.ok() || !status.detail().slot.starts_with(table.slots)) return status;
  return in_words_of_tables(std::move(status), "serve", table.table, table.slots, *table.roles);
}

}  // namespace weft::pslib
