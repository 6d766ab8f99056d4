// A group that can't go on: how every rank of it learns why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_table.hpp"

namespace weft::detail {
void CollectiveGroup::fail(const Status& why) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    failure_ = why;
    failed_.store(true, std::memory_order_release);
  }
  local_.ring();
}

Status CollectiveGroup::failure() const noexcept {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

bool CollectiveGroup::broken() const noexcept {
  if (failed()) return true;
  return mesh_.gone_count() != 0 && queued_ > 0 && !gone_failure(queue_[0]->number).ok();
}

void CollectiveGroup::give_up() noexcept {
  if (!failed()) {
    Status why = gone_failure(queue_[0]->number);
    if (!why.ok()) {
      ErrorDetail detail = why.detail();
      detail.operation = queue_[0]->task.signature.text();
      why = Status(std::move(detail));
    }
    fail(why);
  }
  stop();
  const Status why = failure();
  for (std::size_t i = 0; i < queued_; ++i) {
    queue_[i]->end(why);
    queue_[i].reset();
  }
  queued_ = 0;
}

Status CollectiveGroup::late(const PlannedCall& call) const noexcept {
  std::vector<int> late;
  for (const int r : awaited(call)) late.push_back(ranks_[static_cast<std::size_t>(r)]);
  const int first = late.empty() ? -1 : late.front();
  return Status(ErrorDetail{
      .code = Code::timeout,
      .operation = call.task.signature.text(),
      .message = fmt::format(
          "call {} of the group: {}", call.number,
          late.size() == 1 ? fmt::format("rank {} has not done its part", first)
                           : fmt::format("ranks {} have not done theirs", fmt::join(late, ", "))),
      .hint = "look at what that rank is doing; a longer deadline: WEFT_TIMEOUT",
      .rank = local_.rank,
      .peer = first,
      .host = first < 0 ? std::string() : mesh_.peer(first).host()});
}

void CollectiveGroup::mismatch(const PlannedCall& call, int other,
                               const Signature& theirs) noexcept {
  if (failed()) return;
  const int rank = ranks_[static_cast<std::size_t>(other)];
  const Status why(ErrorDetail{
      .code = Code::mismatch,
      .operation = name(call.task.kind()),
      .message = fmt::format("call {} of the group is {} on rank {} and {} on rank {}", call.number,
                             call.task.signature.text(), local_.rank, theirs.text(), rank),
      .hint = "all ranks of a group must call the same operations in the same order",
      .peer = rank,
      .host = mesh_.peer(rank).host()});
  tell_failure(why);
  fail(why);
}

void CollectiveGroup::unequal_parts(const PlannedCall& call, int other, std::int64_t elements,
                                    std::int64_t expected) noexcept {
  if (failed()) return;
  const int rank = ranks_[static_cast<std::size_t>(other)];
  const Status why(ErrorDetail{
      .code = Code::mismatch,
      .operation = name(call.task.kind()),
      .message =
          fmt::format("call {} of the group: rank {} has {} elements for rank {}, which expects {}",
                      call.number, rank, elements, local_.rank, expected),
      .hint = "what one rank counts out for another, the other must count in",
      .peer = rank,
      .host = mesh_.peer(rank).host()});
  tell_failure(why);
  fail(why);
}

void CollectiveGroup::tell_failure(const Status& why) noexcept {
  CollectiveMessage message{.what = CollectiveMessage::What::failed, .group = id_};
  message.code = static_cast<std::uint32_t>(why.code());
  message.peer = why.detail().peer;
  message.text.set(why.detail().message);
  table_.tell(ranks_, message);
}

void CollectiveGroup::drop(const std::shared_ptr<PlannedCall>& call) noexcept {
  if (local_.forked()) return;
  const auto attending = attend();
  withdraw(call);
}

void CollectiveGroup::withdraw(const std::shared_ptr<PlannedCall>& call) noexcept {
  if (!call->under_way()) return;
  const Status why(
      ErrorDetail{.code = Code::cancelled,
                  .operation = name(call->task.kind()),
                  .message = fmt::format("rank {} has given up {}, call {} of the group",
                                         local_.rank, call->task.signature.text(), call->number),
                  .hint = "wait for a plan before it goes",
                  .peer = local_.rank});
  if (!failed()) tell_failure(why);
  fail(why);
  give_up();
}

void CollectiveGroup::close() noexcept {
  if (local_.forked()) return;
  const auto attending = attend();
  if (queued_ > 0) withdraw(std::shared_ptr<PlannedCall>(queue_[0]));
  // Who sees that this rank goes must have been told why: the rank that found out may be slower.
  if (failed()) tell_failure(failure());
  disconnect();
  table_.close(*this);
}

}  // namespace weft::detail
