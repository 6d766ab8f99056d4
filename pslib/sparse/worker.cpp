#include "pslib/sparse/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "pslib/table/table_errors.hpp"

namespace weft::pslib {

SparseWorker::SparseWorker(World& world, const SparseDescription& table)
    : world_(world),
      table_(table),
      dim_(table.options.dim),
      wire_(table.wire_rows()),
      room_(table.options.request_rows),
      pushed_(table),
      looked_up_(table),
      is_written_(room_),
      sums_(wire_.are_f32() ? 0 : room_ * dim_) {
  for (const int rank : table.roles.servers) {
    Server& server = servers_.emplace_back();
    server.rank = rank;
    server.version = table.first_version();
    server.requests = world.expose_published(table.requests(rank));
  }
  awaited_.reserve(servers_.size() + table.roles.workers.size());
}

void SparseWorker::attach(World& world, SparseShard* own, Deadline deadline) {
  own_ = own;
  const PublishedSpec expected = table_.answers(table_.roles.rank);
  for (Server& server : servers_)
    server.answers = world.attach_published(server.rank, expected, deadline);
}

std::uint64_t SparseWorker::version() const noexcept {
  return std::ranges::min_element(servers_, {}, &Server::version)->version;
}

Status SparseWorker::run(const SparseCall& call, Deadline deadline) noexcept {
  if (Status status = check(call); !status) return status;
  try {
    if (lost_ >= 0) return name_the_lost(call.operation);
    if (interrupted_.operation[0] == '\0') {
      if (Status status = settle(call.operation, deadline); !status)
        return in_words_of_tables(std::move(status), call.operation, table_.table,
                                  table_.slot_name(""), table_.roles);
      begin(call);
    }
    Status status = go_on(call, deadline);
    if (status) interrupted_ = {};
    return in_words_of_tables(std::move(status), call.operation, table_.table, table_.slot_name(""),
                              table_.roles);
  } catch (const std::bad_alloc&) {
    return refuse(Code::exhausted, [&] {
      return error_detail(Code::exhausted, call.operation,
                          fmt::format("no memory for a batch of {} ids",
                                      std::max(call.pushed.size(), call.ids.size())),
                          "use smaller batches");
    });
  }
}

Status SparseWorker::check(const SparseCall& call) const noexcept {
  const auto wrong = [&](std::size_t ids, std::size_t values, const char* what) {
    return refuse(Code::bad_argument, [&] {
      return bad_argument(
          call.operation, fmt::format("{} ids and {} elements of {}", ids, values, what),
          fmt::format("give {} elements for each id of table \"{}\"", dim_, table_.table));
    });
  };
  if (call.gradients.size() != call.pushed.size() * dim_)
    return wrong(call.pushed.size(), call.gradients.size(), "gradients");
  if (call.rows.size() != call.ids.size() * dim_)
    return wrong(call.ids.size(), call.rows.size(), "rows");
  if (interrupted_.operation[0] == '\0') return {};
  if (interrupted_.pushes == call.pushes && interrupted_.looks_up == call.looks_up &&
      (!call.pushes || pushed_.is_of(call.pushed)) &&
      (!call.looks_up || looked_up_.is_of(call.ids)))
    return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(call.operation,
                        fmt::format("the last {}() has not ended", interrupted_.operation),
                        "make the same call again, with the same ids");
  });
}

void SparseWorker::begin(const SparseCall& call) {
  if (call.pushes) {
    // Usually the ids pushed are those looked up last.
    if (looked_up_.is_of(call.pushed))
      std::swap(pushed_, looked_up_);
    else
      pushed_.assign(call.pushed);
  }
  if (call.looks_up && !looked_up_.is_of(call.ids)) looked_up_.assign(call.ids);
  for (Server& server : servers_) {
    server.pushed = server.asked = server.taken = 0;
    server.has_finished = false;
  }
  ++calls_;
  interrupted_ = call;
}

Status SparseWorker::go_on(const SparseCall& call, Deadline deadline) {
  for (;;) {
    bool has_finished = true;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (!servers_[i].has_finished && !servers_[i].is_asked)
        if (Status status = send(i, call, deadline); !status) return status;
      has_finished = has_finished && servers_[i].has_finished;
    }
    if (has_finished && !call.looks_up) return {};
    if (has_finished && !is_asked() && (own_ == nullptr || own_->has_answered(calls_))) return {};
    if (Status status = await_one(call, deadline); !status) return status;
  }
}

Status SparseWorker::settle(const char* operation, Deadline deadline) noexcept {
  if (lost_ >= 0) return name_the_lost(operation);
  const SparseCall none{.operation = operation};
  while (is_asked() || (own_ != nullptr && !own_->has_answered(calls_)))
    if (Status status = await_one(none, deadline); !status) return status;
  return {};
}

bool SparseWorker::is_asked() const noexcept {
  return std::ranges::any_of(servers_, &Server::is_asked);
}

// Sends the next request to a server: rows to push while there are any, then rows to look up, which
// may start in the push's last request.
Status SparseWorker::send(std::size_t index, const SparseCall& call, Deadline deadline) {
  Server& server = servers_[index];
  const auto buffer = server.requests.next(deadline);
  if (!buffer) return buffer.status();
  const auto pushed =
      call.pushes ? pushed_.rows(index).subspan(server.pushed) : std::span<const std::uint64_t>();
  const bool pushes_more = pushed.size() > room_;
  const auto looked_up = call.looks_up && !pushes_more
                             ? looked_up_.rows(index).subspan(server.asked)
                             : std::span<const std::uint64_t>();
  RequestHead head{.pushed = std::min(room_, pushed.size()),
                   .looked_up = std::min(room_, looked_up.size()),
                   .base = server.version};
  head.commits = static_cast<std::uint8_t>(call.pushes && server.asked == 0 && !pushes_more);
  const RequestParts<std::byte> request(buffer->data(), head.pushed, head.looked_up);
  std::copy_n(pushed.begin(), head.pushed, request.pushed());
  std::copy_n(looked_up.begin(), head.looked_up, request.looked_up());
  write_gradients(index, call, head.pushed, request.gradients());
  server.pushed += head.pushed;
  server.asked += head.looked_up;
  server.has_finished = !pushes_more && head.looked_up == looked_up.size();
  head.is_last = static_cast<std::uint8_t>(server.has_finished);
  request.head() = head;
  Status status = server.requests.publish();
  server.is_asked = status.ok();
  return status;
}

// f32 gradients are summed in the request itself; other types are rounded once after summing.
void SparseWorker::write_gradients(std::size_t index, const SparseCall& call, std::size_t count,
                                   std::byte* to) {
  float* const sums = wire_.are_f32() ? reinterpret_cast<float*>(to) : sums_.data();
  add_gradients(index, call, {sums, count * dim_});
  if (!wire_.are_f32()) wire_.write(to, sums, count);
}

// Sums the gradients of each id in the batch's order.
void SparseWorker::add_gradients(std::size_t index, const SparseCall& call, std::span<float> to) {
  if (to.empty()) return;
  const Server& server = servers_[index];
  const std::size_t count = to.size() / dim_;
  std::fill_n(is_written_.begin(), count, char{0});
  const auto places = pushed_.places();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t row = places[i].row - server.pushed;  // wraps for rows sent before
    if (places[i].server != index || row >= count) continue;
    const float* const from = call.gradients.data() + i * dim_;
    float* const sum = to.data() + row * dim_;
    if (is_written_[row] == 0)
      std::memcpy(sum, from, dim_ * sizeof(float));
    else
      for (std::size_t k = 0; k < dim_; ++k) sum[k] += from[k];
    is_written_[row] = 1;
  }
}

Status SparseWorker::await_one(const SparseCall& call, Deadline deadline) {
  awaited_.clear();
  for (Server& server : servers_)
    if (server.is_asked) awaited_.push_back(&server.answers);
  const std::size_t answers = awaited_.size();
  if (own_ != nullptr)
    for (std::size_t i = 0; i < own_->workers(); ++i)
      if (own_->owes(i, calls_)) awaited_.push_back(&own_->gradients(i));
  std::size_t first = 0;
  if (awaited_.size() > 1) {
    const auto ready = world_.wait_any(awaited_, deadline);
    if (!ready) return ready.status();
    first = *ready;
  }
  if (first >= answers) {
    std::size_t worker = 0;
    while (&own_->gradients(worker) != awaited_[first]) ++worker;
    return work_as_server(worker, deadline);
  }
  std::size_t index = 0;
  while (&servers_[index].answers != awaited_[first]) ++index;
  const std::size_t rows = servers_[index].asked - servers_[index].taken;
  const SlotRun run{.count = static_cast<std::int64_t>(answer_bytes(wire_.bytes(rows)))};
  auto arrival = awaited_[first]->view({&run, 1}, deadline);
  if (!arrival) return arrival.status();
  servers_[index].is_asked = false;
  const std::byte* const answer = arrival->tensor().data();
  AnswerHead head;
  std::memcpy(&head, answer, sizeof head);
  if (head.lost > static_cast<std::uint64_t>(world_.size()))
    return refuse(Code::mismatch, [&] {
      return nonsense(
          "take an answer", servers_[index].rank, servers_[index].answers.spec().name,
          fmt::format("it waits for a rank {} in a job of {}", head.lost - 1, world_.size()));
    });
  if (head.lost != 0) {
    lost_ = static_cast<int>(head.lost) - 1;
    return name_the_lost(call.operation);
  }
  servers_[index].version = head.version;
  read_rows(index, answer, call);
  return {};
}

// A worker whose request is refused counts as gone, and the others are told.
Status SparseWorker::work_as_server(std::size_t worker, Deadline deadline) {
  own_->wait_until(deadline);
  Status status = own_->take(worker, deadline);
  if (status) return own_->advance();
  if (status.code() == Code::mismatch) (void)own_->drop(worker);
  return status;
}

// If the lost worker has died, reports its death.
Status SparseWorker::name_the_lost(const char* operation) const noexcept {
  if (Status status = world_.alive({&lost_, 1}); !status)
    return altered(std::move(status), [&](ErrorDetail& detail) { detail.operation = operation; });
  return refuse(Code::closed, [&] {
    ErrorDetail detail = error_detail(
        Code::closed, operation,
        fmt::format("rank {} closed table \"{}\" after {} updates, while others pushed", lost_,
                    table_.table, version()),
        "let every worker push equally often");
    detail.rank = table_.roles.rank;
    detail.peer = lost_;
    return detail;
  });
}

void SparseWorker::read_rows(std::size_t index, const std::byte* answer, const SparseCall& call) {
  Server& server = servers_[index];
  const std::size_t count = server.asked - server.taken;
  if (count == 0) return;
  const std::byte* const rows = answer + kAnswerRows;
  const auto places = looked_up_.places();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t row = places[i].row - server.taken;  // wraps for rows taken before
    if (places[i].server != index || row >= count) continue;
    wire_.read(call.rows.data() + i * dim_, rows + wire_.bytes(row), 1);
  }
  server.taken = server.asked;
}

}  // namespace weft::pslib
