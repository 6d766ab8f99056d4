#include "pslib/sparse/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/fail.hpp"
#include "pslib/optimizer/rules.hpp"
#include "pslib/sparse/checkpoints.hpp"

namespace weft::pslib {
namespace {

constexpr std::uint32_t kNoGradient = std::numeric_limits<std::uint32_t>::max();
// Rows prefetched while others are processed.
constexpr std::size_t kAhead = RowStore::kMostFetched;

}  // namespace

SparseShard::SparseShard(World& world, const SparseDescription& table)
    : table_(table),
      dim_(table.options.dim),
      wire_(table.wire_rows()),
      states_(states(table.options.optimizer)),
      store_(table.row_rules()),
      rule_(table.options.optimizer, table.options.schedule, dim_),
      workers_(table.roles.workers.size()) {
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i].answers = world.expose_published(table.answers(table.roles.workers[i]));
  sources_.resize(workers_.size());
  if (!wire_.are_f32()) wide_.resize(std::max(kAhead, workers_.size()) * dim_);
  const auto place = std::ranges::find(table.roles.servers, table.roles.rank);
  const auto server = static_cast<std::size_t>(place - table.roles.servers.begin());
  checkpointer_ = make_checkpointer(world, table.options.checkpoint, table.table, server,
                                    table.roles.servers.size());
  const Checkpoint* const start = table.restored();
  if (start == nullptr) return;
  restore_rows(*start, table, server, store_);
  version_ = start->manifest().version;
  if (table.is_asynchronous()) return;
  for (Worker& worker : workers_) worker.pushes = version_;
}

void SparseShard::attach(World& world, Deadline deadline) {
  const PublishedSpec expected = table_.requests(table_.roles.rank);
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i].requests = world.attach_published(table_.roles.workers[i], expected, deadline);
}

// A request's size stands in its head. Where the slot is fetched, usually one read of about the
// last request's size brings it; a larger request is read again as a whole.
Status SparseShard::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  for (bool is_whole = false;; is_whole = true) {
    const SlotRun run{.count = static_cast<std::int64_t>(from.expected)};
    auto request = from.requests.view({&run, 1}, deadline);
    if (!request) return request.status();
    RequestHead head;
    std::memcpy(&head, request->tensor().data(), sizeof head);
    if (Status status = check(from, head); !status) return status;
    const std::size_t bytes = bytes_of(head);
    if (bytes <= request->tensor().bytes()) {
      from.expected = std::max(bytes, from.expected - from.expected / 8);
      from.head = head;
      from.request = *std::move(request);
      from.is_new = true;
      ++counted_.requests;
      return {};
    }
    if (is_whole)
      return refuse(Code::mismatch, [&] {
        return nonsense("take a request", from.requests.owner(), from.requests.spec().name,
                        "a request that grew while it was read");
      });
    from.expected = bytes;
    from.requests.see_again();
  }
}

std::size_t SparseShard::bytes_of(const RequestHead& head) const noexcept {
  return request_bytes(head.pushed, head.looked_up, wire_.bytes(head.pushed));
}

// The head lies in the worker's memory, so only this function reads it there.
Status SparseShard::check(const Worker& worker, const RequestHead& head) const noexcept {
  const std::size_t room = table_.options.request_rows;
  const bool fits = makes_sense(head, room);
  if (fits && !worker.request && !worker.is_gone) return {};
  return refuse(Code::mismatch, [&] {
    return nonsense("take a request", worker.requests.owner(), worker.requests.spec().name,
                    fits ? std::string("a request before the last one was answered")
                         : fmt::format("a request of {} rows to push and {} to look up, where {} "
                                       "of each have room",
                                       head.pushed, head.looked_up, room));
  });
}

Status SparseShard::drop(std::size_t worker) noexcept {
  workers_[worker].is_gone = true;
  return advance();  // the worker no longer holds back the others
}

bool SparseShard::needs_all() const noexcept {
  return !table_.is_asynchronous() && std::ranges::any_of(workers_, &Worker::has_pushed);
}

bool SparseShard::has_answered(std::uint64_t calls) const noexcept {
  return std::ranges::all_of(workers_, [&](const Worker& w) { return w.calls >= calls; });
}

SparseStatistics SparseShard::sparse_statistics() const noexcept {
  SparseStatistics statistics = counted_;
  statistics.rows = store_.rows();
  statistics.bytes = store_.bytes();
  return statistics;
}

ShardLoad SparseShard::load() const noexcept {
  const SparseStatistics rows = sparse_statistics();
  const std::size_t row = wire_.bytes(1);
  const auto waits = [](const Worker& worker) { return static_cast<bool>(worker.request); };
  return {.requests = rows.requests,
          .queue = static_cast<std::uint64_t>(std::ranges::count_if(workers_, waits)),
          .bytes_read =
              pushed_rows_ * (row + sizeof(std::uint64_t)) + rows.looked_up * sizeof(std::uint64_t),
          .bytes_written = rows.looked_up * row,
          .memory = rows.bytes,
          .rows = rows};
}

Status SparseShard::advance() noexcept {
  try {
    serve();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return refuse(Code::exhausted, [&] {
      ErrorDetail detail =
          error_detail(Code::exhausted, "serve",
                       "no memory for more rows of table \"" + table_.table + "\", of " +
                           std::to_string(store_.rows()) + " now",
                       "use more servers, or admit fewer rows: admit_after, expire_after");
      detail.rank = table_.roles.rank;
      return detail;
    });
  }
  return {};
}

void SparseShard::serve() {
  for (Worker& worker : workers_)
    if (worker.is_new) take_push(worker);
  if (has_every_push()) update_from_all();
  for (Worker& worker : workers_)
    if (worker.request && may_be_answered(worker)) answer(worker);
  if (table_.is_asynchronous()) return;
  // If a worker without a push has gone, requests that wait for the update would wait forever: name
  // that worker instead.
  const auto lost =
      std::ranges::find_if(workers_, [](const Worker& w) { return w.is_gone && !w.has_pushed; });
  if (lost == workers_.end()) return;
  const int rank = table_.roles.workers[static_cast<std::size_t>(lost - workers_.begin())];
  for (Worker& worker : workers_)
    if (worker.request) tell_who_is_lost(worker, rank);
}

void SparseShard::tell_who_is_lost(Worker& worker, int rank) {
  const Tensor to = worker.answers.next(until()).value();
  auto& head = *reinterpret_cast<AnswerHead*>(to.data());
  head = {.version = version_, .lost = static_cast<std::uint64_t>(rank) + 1};
  worker.request.release();
  worker.answers.publish().or_throw();
}

RequestParts<const std::byte> SparseShard::parts(const Worker& worker) const noexcept {
  return {worker.request.tensor().data(), worker.head.pushed, worker.head.looked_up};
}

void SparseShard::take_push(Worker& worker) {
  worker.is_new = false;
  const RequestHead& head = worker.head;
  pushed_rows_ += head.pushed;
  if (table_.is_asynchronous()) {
    update_at_once(worker);
  } else if (head.pushed > 0 && head.commits == 0) {
    keep(worker);
  }
  if (head.commits == 0) return;
  count_push(worker);
  ++worker.pushes;
  if (!table_.is_asynchronous()) {
    worker.has_pushed = true;
    return;
  }
  ++version_;
  save();
}

void SparseShard::count_push(const Worker& worker) noexcept {
  const std::uint64_t staleness = version_ - std::min(worker.head.base, version_);
  ++pushes_.staleness[std::min<std::size_t>(staleness, TableStatistics::kMostStaleness)];
  ++pushes_.applied;
}

// Copy the rows: the worker reuses the request's memory once the request is answered.
void SparseShard::keep(Worker& worker) {
  const auto request = parts(worker);
  const std::size_t count = worker.head.pushed;
  Kept& kept = worker.kept;
  kept.ids.insert(kept.ids.end(), request.pushed(), request.pushed() + count);
  kept.gradients.insert(kept.gradients.end(), request.gradients(),
                        request.gradients() + wire_.bytes(count));
}

bool SparseShard::has_every_push() const noexcept {
  return !table_.is_asynchronous() && std::ranges::all_of(workers_, &Worker::has_pushed);
}

bool SparseShard::may_be_answered(const Worker& worker) const noexcept {
  const RequestHead& head = worker.head;
  if (head.commits == 0 && head.looked_up == 0) return true;
  const Consistency& consistency = table_.options.consistency;
  if (!table_.is_asynchronous()) return worker.pushes <= version_;
  if (consistency.kind != Consistency::Kind::ssp || head.looked_up == 0) return true;
  return std::ranges::all_of(workers_, [&](const Worker& other) {
    return other.is_gone || worker.pushes <= other.pushes + consistency.staleness;
  });
}

void SparseShard::answer(Worker& worker) {
  const auto request = parts(worker);
  const std::span ids(request.looked_up(), worker.head.looked_up);
  const Tensor to = worker.answers.next(until()).value();
  for (std::size_t at = 0; at < ids.size(); at += kAhead) {
    const auto block = ids.subspan(at, std::min(kAhead, ids.size() - at));
    store_.fetch(block);
    std::byte* const answered = to.data() + kAnswerRows + wire_.bytes(at);
    float* const rows = wire_.are_f32() ? reinterpret_cast<float*>(answered) : wide_.data();
    for (std::size_t i = 0; i < block.size(); ++i)
      store_.look_up(block[i], version_, rows + i * dim_);
    if (!wire_.are_f32()) wire_.write(answered, rows, block.size());
  }
  counted_.looked_up += ids.size();
  *reinterpret_cast<AnswerHead*>(to.data()) = {.version = version_};
  worker.calls += worker.head.is_last;
  worker.request.release();
  worker.answers.publish().or_throw();
}

void SparseShard::update_at_once(const Worker& worker) {
  const auto request = parts(worker);
  const std::span ids(request.pushed(), worker.head.pushed);
  if (ids.empty()) return;
  const RuleConstants constants = rule_.constants(version_ + 1, 1.0F);
  for (std::size_t at = 0; at < ids.size(); at += kAhead) {
    const auto block = ids.subspan(at, std::min(kAhead, ids.size() - at));
    store_.fetch(block);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float* const gradient = as_f32(request.gradients() + wire_.bytes(at + i), 0);
      update_row(constants, block[i], {&gradient, 1});
    }
  }
}

void SparseShard::update_from_all() {
  std::size_t most = 0;
  for (const Worker& worker : workers_) most += worker.kept.ids.size() + worker.head.pushed;
  rows_.begin(most);
  first_.clear();
  last_.clear();
  gradients_.clear();
  for (const Worker& worker : workers_) {
    collect(worker.kept.ids, worker.kept.gradients.data());
    const auto request = parts(worker);
    collect({request.pushed(), worker.head.pushed}, request.gradients());
  }
  const RuleConstants constants =
      rule_.constants(version_ + 1, 1.0F / static_cast<float>(workers_.size()));
  const auto ids = rows_.ids();
  for (std::size_t at = 0; at < ids.size(); ++at) {
    if (at % kAhead == 0) store_.fetch(ids.subspan(at, std::min(kAhead, ids.size() - at)));
    std::size_t count = 0;
    // A worker pushes a row once; surplus gradients of a misbehaving worker are ignored.
    for (std::uint32_t i = first_[at]; i != kNoGradient && count < sources_.size();
         i = gradients_[i].next) {
      sources_[count] = as_f32(gradients_[i].values, count);
      ++count;
    }
    update_row(constants, ids[at], {sources_.data(), count});
  }
  ++version_;
  save();
  for (Worker& worker : workers_) {
    worker.has_pushed = false;
    worker.kept.ids.clear();
    worker.kept.gradients.clear();
  }
  const std::uint64_t expire = table_.options.expire_after;
  if (expire > 0 && version_ % expire == 0) store_.forget(version_);
}

// One of a row's gradients as f32: in place, or converted as source `source` of the update.
const float* SparseShard::as_f32(const std::byte* gradient, std::size_t source) noexcept {
  if (wire_.are_f32()) return reinterpret_cast<const float*>(gradient);
  float* const wide = wide_.data() + source * dim_;
  wire_.read(wide, gradient, 1);
  return wide;
}

void SparseShard::collect(std::span<const std::uint64_t> ids, const std::byte* gradients) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto entry = static_cast<std::uint32_t>(gradients_.size());
    gradients_.push_back({gradients + wire_.bytes(i), kNoGradient});
    const std::uint32_t row = rows_.add(ids[i]);
    if (row == first_.size()) {
      first_.push_back(entry);
      last_.push_back(entry);
      continue;
    }
    gradients_[last_[row]].next = entry;
    last_[row] = entry;
  }
}

// Saves the rows of this version, before any of them is looked up.
void SparseShard::save() {
  if (!checkpointer_ || version_ % table_.options.checkpoint.every != 0) return;
  checkpointer_->wait();
  checkpointer_->start(manifest_of(table_, version_),
                       [cut = store_.cut(), rules = table_.row_rules()](const os::Folder& folder,
                                                                        const std::string& name) {
                         write_rows(folder, name, *cut, rules);
                       });
}

void SparseShard::update_row(const RuleConstants& constants, std::uint64_t id,
                             kernels::Gradients gradients) {
  float* const row = store_.to_update(id, version_ + 1);
  if (row == nullptr) {
    counted_.not_admitted += gradients.size();
    return;
  }
  ++counted_.updated;
  const auto state = [&](std::size_t i) { return i < states_ ? row + (1 + i) * dim_ : nullptr; };
  rule_.apply(constants, {row, row, state(0), state(1)}, gradients, dim_);
}

}  // namespace weft::pslib
