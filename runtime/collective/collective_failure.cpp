// Failure of a group: how every rank of the group learns the cause, and how calls give up.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_table.hpp"

namespace weft::detail {
namespace {

/// How long a rank that gives up waits at most for the others to leave its tensors. A running
/// member needs only the time to finish a piece; a stopped process never leaves.
constexpr std::chrono::seconds kPatience{1};
/// The same for a call whose deadline has passed: they had that long to finish.
constexpr std::chrono::milliseconds kLatePatience{50};

Clock::time_point patience_for(const PlannedCall& call) noexcept {
  return Clock::now() + (call.is_late ? std::chrono::nanoseconds(kLatePatience) : kPatience);
}

}  // namespace

CollectiveGroup::~CollectiveGroup() {
  for (Loan& loan : loans_)
    if (loan.call) local_.data->add_quarantine(-loan.call->lent_bytes());
}

void CollectiveGroup::fail(const Status& why) noexcept {
  {
    const std::lock_guard lock(failure_.mutex);
    if (failure_.is_there.load(std::memory_order_relaxed)) return;
    failure_.why = why;
    row_.failure.show({.operation = stats::Operation::collective,
                       .peer = why.detail().peer,
                       .code = why.code(),
                       .slot = row_.number,
                       .text = why.detail().message});
    failure_.is_there.store(true, std::memory_order_release);
  }
  local_.ring();
}

Status CollectiveGroup::failure() const noexcept {
  const std::lock_guard lock(failure_.mutex);
  return failure_.why;
}

Status CollectiveGroup::failure_of(const PlannedCall& call) const noexcept {
  const Status why = failure();
  return weft::refuse(why.code(), [&] {
    ErrorDetail detail = why.detail();
    detail.operation = call.task.signature.text();
    return detail;
  });
}

bool CollectiveGroup::broken() const noexcept {
  if (failed()) return true;
  return mesh_.gone_count() != 0 && queued_ > 0 && !gone_failure(queue_[0]->number).ok();
}

void CollectiveGroup::break_off() noexcept {
  if (disconnected_at_ != Clock::time_point::max()) return;
  if (!failed()) {
    fail(gone_failure(queue_[0]->number));
  }
  disconnected_at_ = Clock::now();
  stop();
  // The application may wait for something else from now on.
  known_.owes = gpu_works();
}

Clock::time_point CollectiveGroup::patience() const noexcept {
  return disconnected_at_ + kPatience;
}

int CollectiveGroup::inside() noexcept {
  (void)gpu_works();
  for (const auto& call : under_way())
    if (const int member = toucher(*call); member >= 0) return member;
  return -1;
}

void CollectiveGroup::give_up(Clock::time_point until) noexcept {
  break_off();
  (void)local_.waiter.wait([this] { return inside() < 0; }, [] { return false; },
                           Deadline::at(until));
  cut_off();
  for (std::size_t i = 0; i < queued_; ++i) {
    PlannedCall& call = *queue_[i];
    lend(queue_[i]);
    call.end(with_loan(call, failure_of(call)));
    queue_[i].reset();
  }
  queued_ = 0;
  known_.owes = gpu_works();
  show_under_way();
}

void CollectiveGroup::lend(std::shared_ptr<PlannedCall>& call) noexcept {
  const int member = toucher(*call);
  if (member < 0) return;
  local_.data->add_quarantine(call->lent_bytes());
  for (Loan& loan : loans_)
    if (!loan.call) {
      loan = {call, member};
      return;
    }
}

int CollectiveGroup::take_back() noexcept {
  if (known_.owes) known_.owes = gpu_works();
  int still = -1;
  for (Loan& loan : loans_) {
    if (!loan.call) continue;
    loan.to = toucher(*loan.call);
    if (loan.to >= 0) {
      still = loan.to;
      continue;
    }
    local_.data->add_quarantine(-loan.call->lent_bytes());
    loan.call.reset();
  }
  if (const int member = stream_toucher(); member >= 0) return member;
  return still;
}

Status CollectiveGroup::with_loan(const PlannedCall& call, const Status& why) const noexcept {
  for (const Loan& loan : loans_) {
    if (loan.call.get() != &call || call.lent_bytes() == 0) continue;
    return weft::refuse(why.code(), [&] {
      ErrorDetail detail = why.detail();
      detail.message +=
          loan.to == me_
              ? fmt::format("; {} still works on this rank's tensors: they stay lent until it ends",
                            call.gpu->memory().text())
              : fmt::format(
                    "; rank {} may still touch this rank's tensors: they stay lent until that rank "
                    "has finished, stopped or is dead",
                    ranks_[static_cast<std::size_t>(loan.to)]);
      detail.hint = "do not touch the tensors until Collectives::settle() is ok";
      return detail;
    });
  }
  return why;
}

Status CollectiveGroup::still_written() const noexcept {
  if (local_.gpus == nullptr || !has_lent_gpus()) return {};
  const auto rank = std::ranges::find_if(
      ranks_, [this](int member) { return local_.gpus->quarantine.has(member); });
  if (rank == ranks_.end()) return {};
  return weft::refuse(Code::peer_failed, [&] {
    return ErrorDetail{
        .code = Code::peer_failed,
        .operation = "settle",
        .message = fmt::format("rank {} is gone, and its GPU may go on writing: no one can tell "
                               "for how long it writes this rank's tensors on GPUs",
                               *rank),
        .hint = "use other tensors on GPUs; those in host memory are settled",
        .rank = local_.rank,
        .peer = *rank,
        .host = mesh_.peer(*rank).host()};
  });
}

Status CollectiveGroup::settle(Deadline deadline) noexcept {
  if (local_.over()) return local_.refusal("settle");
  const auto owner = acquire();
  p2p::SilentWork runs(local_.waiter);  // no bell rings when a stream's run has ended
  runs.set(stream_toucher() >= 0);
  const p2p::WaitEnd end = local_.waiter.wait(
      [this] { return take_back() < 0; }, [] { return false; }, deadline,
      [this] {
        const int member = take_back();
        return stats::WaitAbout{.operation = stats::Operation::settle,
                                .peer = member < 0 ? -1 : ranks_[static_cast<std::size_t>(member)],
                                .slot = row_.number};
      });
  if (end == p2p::WaitEnd::ready) return still_written();
  const int member = std::max(0, take_back());
  const int rank = ranks_[static_cast<std::size_t>(member)];
  return weft::refuse(Code::timeout, [&] {
    if (member == me_)
      return ErrorDetail{.code = Code::timeout,
                         .operation = "settle",
                         .message = "this rank's GPU still works on its tensors, which stay lent",
                         .hint = "wait again: the GPU goes on",
                         .rank = local_.rank,
                         .peer = local_.rank};
    return ErrorDetail{.code = Code::timeout,
                       .operation = "settle",
                       .message = fmt::format(
                           "rank {} may still touch this rank's tensors, which stay lent", rank),
                       .hint = "continue that rank, or declare it dead (World::declare_dead)",
                       .rank = local_.rank,
                       .peer = rank,
                       .host = mesh_.peer(rank).host()};
  });
}

bool CollectiveGroup::may_work(bool alone) noexcept {
  const bool may = stint_.pieces > 0 && (alone || stint_.until == Clock::time_point::max() ||
                                         Clock::now() < stint_.until);
  if (may)
    --stint_.pieces;
  else
    stint_.over = true;
  return may;
}

std::string CollectiveGroup::named(std::span<const int> ranks) const {
  std::string text;
  for (const int rank : ranks)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", rank, mesh_.suspicion(rank));
  return text;
}

void CollectiveGroup::mismatch(std::uint64_t number, int other, const Signature& theirs) noexcept {
  const Signature& own = called(number);
  disagree(name(own.kind), other, text_or_empty([&] {
             return fmt::format("call {} of the group is {} on rank {} and {} on rank {}", number,
                                own.text(), local_.rank, theirs.text(),
                                ranks_[static_cast<std::size_t>(other)]);
           }),
           "all ranks of a group must call the same operations in the same order");
}

void CollectiveGroup::mismatch_before(std::uint64_t number, int other) noexcept {
  const Signature& own = called(number);
  disagree(name(own.kind), other, text_or_empty([&] {
             return fmt::format(
                 "call {} of the group is {} on ranks {} and {}, but a call before it was not the "
                 "same on both",
                 number, own.text(), local_.rank, ranks_[static_cast<std::size_t>(other)]);
           }),
           "compare the roots, sizes and order of the calls before");
}

void CollectiveGroup::refuse(const PlannedCall& call, int other, std::string what) noexcept {
  disagree(name(call.task.kind()), other,
           formatted("call {} of the group: rank {} {}, which rank {} refuses", call.number,
                     ranks_[static_cast<std::size_t>(other)], what, local_.rank),
           "report this: a correct weft never sends this");
}

void CollectiveGroup::disagree(const char* operation, int other, std::string what,
                               const char* hint) noexcept {
  if (failed()) return;
  const int rank = ranks_[static_cast<std::size_t>(other)];
  const Status why = weft::refuse(Code::mismatch, [&] {
    return ErrorDetail{.operation = operation,
                       .message = std::move(what),
                       .hint = hint,
                       .peer = rank,
                       .host = mesh_.peer(rank).host()};
  });
  tell_failure(why);
  fail(why);
}

void CollectiveGroup::unequal_parts(const PlannedCall& call, int other, std::int64_t elements,
                                    std::int64_t expected) noexcept {
  disagree(name(call.task.kind()), other,
           formatted("call {} of the group: rank {} has {} elements for rank {}, which expects {}",
                     call.number, ranks_[static_cast<std::size_t>(other)], elements, local_.rank,
                     expected),
           "a rank's counts for another must equal the other's out_counts for that rank");
}

void CollectiveGroup::tell_failure(const Status& why) noexcept {
  CollectiveMessage message{.what = CollectiveMessage::What::failed, .group = id_};
  message.code = static_cast<std::uint32_t>(why.code());
  message.peer = why.detail().peer;
  const ErrorDetail& detail = why.detail();
  message.text.set(detail.hint.empty() ? detail.message
                                       : formatted("{}; {}", detail.message, detail.hint));
  table_.tell(ranks_, message);
}

void CollectiveGroup::drop(const std::shared_ptr<PlannedCall>& call) noexcept {
  // The preparation holds the runs, which must not hold it in turn once the plan has gone.
  std::shared_ptr<PlannedCall> preparation;
  if (call->streams.runs != nullptr) preparation = std::move(call->streams.runs->preparation);
  if (local_.over()) return;
  const auto owner = acquire();
  if (call->streams.runs != nullptr) {
    if (preparation != nullptr) withdraw(preparation, patience_for(*preparation));
    end_streams(call->streams.runs.get(), "destroyed a plan");
  }
  withdraw(call, patience_for(*call));
}

void CollectiveGroup::withdraw(const std::shared_ptr<PlannedCall>& call,
                               Clock::time_point until) noexcept {
  if (!call->queued()) return;
  const Status late = call->is_late ? this->late(*call) : Status();
  const Status why = weft::refuse(Code::cancelled, [&] {
    ErrorDetail detail{
        .operation = name(call->task.kind()),
        .message = fmt::format("rank {} has given up {}, call {} of the group", local_.rank,
                               call->task.signature.text(), call->number),
        .hint = "wait for a plan before destroying it",
        .peer = local_.rank};
    if (late.ok()) return detail;
    detail.message += fmt::format(", when its deadline passed: {}", late.detail().message);
    detail.hint =
        "open the group again; a longer deadline, or a plan, which a timeout leaves alive";
    return detail;
  });
  if (!failed()) tell_failure(why);
  fail(why);
  give_up(until);
}

void CollectiveGroup::close() noexcept {
  if (std::exchange(known_.has_closed, true) || local_.over()) return;
  const auto owner = acquire();
  end_streams(nullptr, "closed the group");
  if (queued_ > 0) withdraw(std::shared_ptr<PlannedCall>(queue_[0]), patience_for(*queue_[0]));
  // A rank that sees this one leave must know why: the rank that found the failure may tell it
  // later.
  if (failed()) tell_failure(failure());
  disconnect();
  table_.close(*this);
}

}  // namespace weft::detail
