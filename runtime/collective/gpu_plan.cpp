// Calls on tensors on a GPU: their copies before the group's work and after it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/gpu_call.hpp"

namespace weft::detail {

using Stage = PlannedCall::Stage;

std::shared_ptr<PlannedCall> CollectiveGroup::plan_on_gpu(const Call& call) {
  auto planned = std::make_shared<PlannedCall>();
  planned->call = call;
  planned->gpu = std::make_unique<GpuCall>(local_, call);
  planned->task = make_task(call, me_, size(), true);
  planned->fingerprint = planned->task.signature.fingerprint();
  for (const Tensor* tensor : {&call.in, &call.out})
    local_.gpus->check_host(name(call.kind), *tensor);
  const auto owner = acquire();
  offer(*planned, planned->task, planned->call);
  return planned;
}

void CollectiveGroup::plan_on_host(PlannedCall& planned) {
  planned.gpu->make_host();
  if (planned.asks_again) {
    planned.other_way.emplace();
    planned.other_way->call = planned.call;
    planned.other_way->task = std::move(planned.task);
  }
  planned.call = planned.gpu->host();
  plan_work(planned);
}

void CollectiveGroup::offer_again(PlannedCall& call) noexcept {
  try {
    offer(call, call.other_way->task, call.other_way->call);
  } catch (...) {
    // The next start asks again.
  }
}

void CollectiveGroup::fall_back(PlannedCall& call, bool for_good) noexcept {
  try {
    if (for_good) call.device.reset();
    call.on_device = false;
    call.for_now = !for_good;
    if (call.streams.prepares != nullptr) {
      call.stage = Stage::posting;
      return begin(call);
    }
    if (call.other_way) {
      call.turn_round();
    } else {
      call.gpu->make_host();
      Task task = make_task(call.gpu->host(), me_, size());
      call.other_way.emplace();
      call.turn_round();
      call.call = call.gpu->host();
      call.task = std::move(task);
      if (combines(call.task.kind()))
        call.reducer.emplace(call.task.signature.dtype, call.call.op, size());
      prepare(call);
    }
    if (call.task.in != nullptr && call.gpu->begin_in()) {
      call.stage = Stage::bringing;
      return;
    }
    call.stage = Stage::posting;
    return begin(call);
  } catch (...) {
    call.stage = Stage::bringing;  // which nothing leaves, but the end of the group
    fail_on_gpu(call, "input", caught_status());
  }
}

void CollectiveGroup::fail_on_gpu(const PlannedCall& call, const char* what,
                                  const Status& outcome) noexcept {
  const Status why = altered(outcome, [&](ErrorDetail& detail) {
    detail.message = fmt::format("call {} of the group: rank {}'s {}: {}", call.number, local_.rank,
                                 what, outcome.detail().message);
    detail.peer = local_.rank;
  });
  if (!failed()) tell_failure(why);
  fail(why);
}

Status CollectiveGroup::begin_to_bring(PlannedCall& call) noexcept {
  call.stage = Stage::idle;
  if (call.task.in == nullptr) return {};
  try {
    if (call.gpu->begin_in()) call.stage = Stage::bringing;
    return {};
  } catch (...) {
    call.end(caught_status());
    return call.status;
  }
}

bool CollectiveGroup::brings() const noexcept {
  return std::ranges::any_of(under_way(),
                             [](const auto& call) { return call->stage == Stage::bringing; });
}

void CollectiveGroup::bring() noexcept {
  if (failed()) return;
  for (const auto& call : under_way()) {
    if (call->stage != Stage::bringing) continue;
    const std::optional<Status> outcome = call->gpu->poll();
    if (!outcome) continue;
    count_staged(*call->gpu);
    if (outcome->ok()) {
      call->stage = Stage::posting;
      begin(*call);
      continue;
    }
    // The call has its number, and the others wait for this rank's part of it.
    return fail_on_gpu(*call, "input", *outcome);
  }
}

void CollectiveGroup::begin_to_take(PlannedCall& call) noexcept {
  if (!call.status.ok() || call.task.out == nullptr) return;
  try {
    if (call.gpu->begin_out()) call.stage = Stage::taking;
  } catch (...) {
    call.status = caught_status();
  }
}

void CollectiveGroup::take(PlannedCall& call) noexcept {
  std::optional<Status> outcome = call.gpu->poll();
  if (!outcome) return;
  count_staged(*call.gpu);
  call.end(*std::move(outcome));
}

void CollectiveGroup::await_brought(PlannedCall& call, Deadline until) noexcept {
  const auto here = [&] {
    if (call.queued()) advance();
    return !call.queued() || !brings();
  };
  if (here()) return;
  p2p::SilentWork copies(local_.waiter);
  copies.set(true);
  (void)local_.waiter.wait(
      here, [this] { return broken(); }, until);
}

Status CollectiveGroup::await_taken(PlannedCall& call, Deadline until) noexcept {
  (void)p2p::wait_for_device(
      local_,
      [&] {
        take(call);
        return call.stage == Stage::ended ? std::optional<Status>(Status{}) : std::nullopt;
      },
      until, [] { return stats::WaitAbout{}; });
  return call.stage == Stage::ended ? call.status : late_gpu(call);
}

Status CollectiveGroup::late_gpu(const PlannedCall& call) const noexcept {
  return weft::refuse(Code::timeout, [&] {
    const PlannedCall* late = &call;
    for (const auto& other : under_way())
      if (late->stage != Stage::taking && other->stage == Stage::bringing) {
        late = other.get();
        break;
      }
    return ErrorDetail{
        .operation = call.task.signature.text(),
        .message = fmt::format("call {} of the group: {} has not copied this rank's {}",
                               late->number, late->gpu->memory().text(),
                               late->stage == Stage::taking ? "output" : "input"),
        .hint = "wait again: the copy goes on",
        .rank = local_.rank};
  });
}

Status CollectiveGroup::run_staged(GpuCall& staged, Deadline until) {
  staged.make_host();
  const Task task = make_task(staged.host(), me_, size());
  Status status = task.in != nullptr ? staged.bring_in(until) : Status{};
  if (status.ok()) status = run_once(staged.host(), until);
  if (status.ok() && task.out != nullptr) status = staged.take_out(until);
  count_staged(staged);
  return status;
}

}  // namespace weft::detail
