#include "runtime/collective/collective_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/fail.hpp"
#include "base/given_deadline.hpp"
#include "base/handle.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "runtime/collective/collective_table.hpp"
#include "runtime/collective/gpu_call.hpp"

namespace weft::detail {
namespace {

using Stage = PlannedCall::Stage;

/// Part of the deadline of a call that fails when it times out (run_once()): members that are
/// inside the tensors have this long, or an eighth of the time left, to stop.
constexpr std::chrono::milliseconds kGrace{50};

/// How long a rank waits for others' parts of a call before it tells them so for the first time.
constexpr std::chrono::milliseconds kQuiet{50};

Deadline before_grace(Deadline until) noexcept {
  const auto left = std::max(until.left(), std::chrono::nanoseconds{0});
  return Deadline::at(until.when() - std::min<std::chrono::nanoseconds>(kGrace, left / 8));
}

}  // namespace

CollectiveGroup::CollectiveGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table,
                                 std::vector<int> ranks, std::uint64_t id, std::uint64_t nth)
    : local_(local),
      mesh_(mesh),
      table_(table),
      ranks_(std::move(ranks)),
      id_(id),
      me_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), local.rank) - ranks_.begin())),
      row_(local.stats, ranks_, nth),
      news_(static_cast<int>(ranks_.size())) {}

Status CollectiveGroup::refusal(const char* operation) const noexcept {
  if (local_.over()) return local_.refusal(operation);
  return known_.has_closed ? orphaned_handle("Plan", operation, "Collectives") : Status();
}

std::shared_ptr<PlannedCall> CollectiveGroup::plan(const Call& call) {
  std::shared_ptr<PlannedCall> planned;
  if (GpuCall::is_needed(call)) [[unlikely]] {
    planned = plan_on_gpu(call);
    if (planned->device == nullptr) plan_on_host(*planned);
    return planned;
  }
  planned = std::make_shared<PlannedCall>();
  planned->call = call;
  plan_work(*planned);
  return planned;
}

void CollectiveGroup::plan_work(PlannedCall& planned) {
  const Call& call = planned.call;
  planned.task = make_task(call, me_, size());
  if (local_.gpus != nullptr)
    for (const Tensor* tensor : {&call.in, &call.out})
      local_.gpus->check_host(name(call.kind), *tensor);
  planned.fingerprint = planned.task.signature.fingerprint();
  if (combines(planned.task.kind()))
    planned.reducer.emplace(planned.task.signature.dtype, call.op, size());
  const auto owner = acquire();
  prepare(planned);
}

Status CollectiveGroup::start(const std::shared_ptr<PlannedCall>& call) noexcept {
  if (local_.over() || known_.has_closed) [[unlikely]]
    return refusal(name(call->task.kind()));
  const auto owner = acquire();
  if (!local_.waiter.progress_registry().admit(*this))
    return weft::refuse(Code::exhausted, [&] {
      return ErrorDetail{
          .code = Code::exhausted,
          .operation = name(call->task.kind()),
          .message = fmt::format("calls of {} groups are under way already",
                                 p2p::ProgressRegistry::kPlaces - 1),
          .hint = "wait for one of them first, or use run(), which needs no free place",
          .rank = local_.rank};
    });
  return enqueue(call);
}

Status CollectiveGroup::enqueue(const std::shared_ptr<PlannedCall>& call) noexcept {
  const bool streams_run_it = call->streams.runs != nullptr &&
                              call->streams.runs->meeting != nullptr &&
                              call->streams.runs->meeting->is_under_way();
  if (call->under_way() || queued_ == kUnderWay || streams_run_it) [[unlikely]]
    return weft::refuse(Code::bad_argument, [&] {
      return ErrorDetail{.operation = name(call->task.kind()),
                         .message = call->under_way() || streams_run_it
                                        ? "this call is under way already"
                                        : "four calls of the group are under way already",
                         .hint = "wait for one first",
                         .rank = local_.rank};
    });
  if (mesh_.gone_count() != 0 && !failed()) [[unlikely]] {
    const Status gone = gone_failure(numbered() + 1);
    if (!gone.ok()) fail(gone);
  }
  if (failed()) [[unlikely]] {
    call->end(failure_of(*call));
    return call->status;
  }
  if (call->asks_again && call->streams.prepares == nullptr) [[unlikely]]
    offer_again(*call);
  call->for_now = call->asks_again;
  const bool was_on_device = std::exchange(call->on_device, call->device != nullptr);
  if (call->on_device && !was_on_device && call->other_way) [[unlikely]]
    call->turn_round();
  if (call->gpu && !call->on_device) [[unlikely]]
    if (Status status = begin_to_bring(*call); !status.ok()) return status;
  call->number = numbered() + 1;
  numbered_.store(call->number, std::memory_order_relaxed);
  Called& called = called_[call->number % kCallsKept];
  called.signature = call->task.signature;
  history_ = (history_ ^ call->fingerprint) * 0xff51afd7ed558ccd;
  history_ ^= history_ >> 32;
  call->mark = static_cast<std::uint32_t>(history_) | 1U;
  called.mark = call->mark;
  call->status = {};
  call->is_late = false;
  call->awaited = 0;
  call->step = 0;
  call->pieces = 0;
  if (call->stage != Stage::bringing) {
    call->stage = Stage::posting;
    begin(*call);
  }
  if (keeps_heard_) [[unlikely]]
    has_heard_.store(true);
  call->started_ns = local_.recorder.start();
  queue_[queued_++] = call;
  show_under_way();
  advance();
  return {};
}

void CollectiveGroup::advance(Stint stint) noexcept {
  stint_ = stint;
  if (disconnected_at_ != Clock::time_point::max()) return;  // the group is ending
  if (has_heard_.load(std::memory_order_relaxed)) [[unlikely]]
    compare_heard();
  bring();
  while (queued_ > 0 && queue_[0]->stage != Stage::bringing) {
    advance_first(*queue_[0]);
    if (queue_[0]->stage != Stage::ended) break;
    show_ended(*queue_[0]);
    if (queue_[0]->gpu && !queue_[0]->on_device) [[unlikely]]
      begin_to_take(*queue_[0]);
    for (std::size_t i = 1; i < queued_; ++i) queue_[i - 1].swap(queue_[i]);
    queue_[--queued_].reset();
    show_under_way();
  }
  for (std::size_t i = 1; i < queued_ && queue_[i - 1]->stage != Stage::bringing &&
                          queue_[i]->stage != Stage::bringing && show(*queue_[i]);
       ++i) {
  }
}

p2p::ProgressResult CollectiveGroup::progress(bool) noexcept {
  if (!failed()) advance();
  if (known_.owes) [[unlikely]]
    (void)take_back();
  if (!busy()) return p2p::ProgressResult::done;
  return known_.owes || ((stint_.over || brings() || works_silently()) && !failed())
             ? p2p::ProgressResult::needs_poll
             : p2p::ProgressResult::notified;
}

bool CollectiveGroup::test(PlannedCall& call) noexcept {
  if (local_.over()) return true;
  const auto owner = acquire();
  if (!call.under_way()) return true;
  local_.waiter.poll_and_progress();
  advance();
  if (call.stage == Stage::taking) take(call);
  if (!call.queued() || !broken()) return !call.under_way();
  break_off();
  if (inside() >= 0 && Clock::now() < patience()) return false;
  give_up(Clock::now());
  return true;
}

Status CollectiveGroup::wait(PlannedCall& call, Deadline deadline) noexcept {
  if (local_.over()) return local_.refusal(name(call.task.kind()));
  const auto owner = acquire();
  if (call.stage == Stage::idle)
    return weft::refuse(Code::bad_argument, [&] {
      return ErrorDetail{.operation = name(call.task.kind()),
                         .message = "the call was not started",
                         .hint = "call start() first",
                         .rank = local_.rank};
    });
  return hinted_for(deadline, await(call, deadline));
}

Status CollectiveGroup::await(PlannedCall& call, Deadline deadline) noexcept {
  Stint stint;
  if (deadline.is_default() || !deadline.passed()) {
    stint.pieces = std::numeric_limits<std::size_t>::max();
    if (!deadline.is_default()) stint.until = deadline.when();
  }
  if (call.gpu || brings()) [[unlikely]] {
    deadline = deadline.resolve(local_.waiter.default_timeout());
    await_brought(call, deadline);
  }
  const auto ended = [&] {
    if (call.queued()) advance(stint);
    return !call.queued();
  };
  const auto is_broken = [this] { return broken(); };
  p2p::WaitEnd end = p2p::WaitEnd::timeout;
  stats::WaitDetailsRoom details;
  std::uint64_t since_ns = 0;
  bool has_asked = false;
  const auto about = [&] { return this->about(call, since_ns, has_asked, details.make()); };
  if (sees_calls() || ended()) {
    end = local_.waiter.wait(ended, is_broken, deadline, about);
  } else {
    const Deadline until = deadline.resolve(local_.waiter.default_timeout());
    since_ns = stats::ns_of(Clock::now());
    const Deadline last = before_grace(until);  // the answers to the last question take time
    auto quiet = std::min<std::chrono::nanoseconds>(kQuiet, until.left() / 4);
    for (std::size_t nth = 0;; ++nth, quiet *= 2) {
      const Deadline next = last.left() > quiet ? Deadline::after(quiet) : last;
      end = local_.waiter.wait(ended, is_broken, next, about);
      if (end != p2p::WaitEnd::timeout || last.passed()) break;
      say_who_waits(nth);
      has_asked = true;
    }
    if (end == p2p::WaitEnd::timeout && !until.passed()) {
      ask_all();
      end = local_.waiter.wait(ended, is_broken, until, about);
    }
  }
  if (end == p2p::WaitEnd::timeout) {
    call.is_late = true;
    return late(call);
  }
  if (end == p2p::WaitEnd::broken) {
    break_off();
    give_up(deadline.is_default() ? patience() : std::min(deadline.when(), patience()));
  }
  if (call.stage == Stage::taking) return await_taken(call, deadline);
  return call.status;
}

Status CollectiveGroup::run(const std::shared_ptr<PlannedCall>& call, Deadline deadline) noexcept {
  if (local_.over() || known_.has_closed) [[unlikely]]
    return refusal(name(call->task.kind()));
  const auto owner = acquire();
  const Status begun = enqueue(call);
  return begun.ok() ? hinted_for(deadline, await(*call, deadline)) : begun;
}

Status CollectiveGroup::run_once(const Call& call, Deadline deadline) noexcept {
  return hinted_for(deadline, make_and_run(call, deadline));
}

Status CollectiveGroup::make_and_run(const Call& call, Deadline deadline) noexcept {
  try {
    if (local_.over()) return local_.refusal(name(call.kind));
    std::shared_ptr<PlannedCall> planned;
    if (GpuCall::is_needed(call)) [[unlikely]] {
      planned = plan_on_gpu(call);
      if (planned->asks_again)
        plan_on_host(*planned);
      else if (planned->device == nullptr)
        return run_staged(*planned->gpu, deadline.resolve(local_.waiter.default_timeout()));
    } else {
      planned = plan(call);
    }
    const auto owner = acquire();
    const Status begun = enqueue(planned);
    if (!begun.ok()) return begun;
    const Deadline until = deadline.resolve(local_.waiter.default_timeout());
    Status ended = await(*planned, before_grace(until));
    if (!planned->under_way()) return ended;
    withdraw(planned, until.when());  // no caller holds the plan, so the call could not be finished
    return with_loan(*planned, ended);
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = Code::exhausted, .operation = name(call.kind)});
  }
}

}  // namespace weft::detail
