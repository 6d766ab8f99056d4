// Calls on tensors on a GPU: their copies before the group's work and after it.
#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/gpu_call.hpp"

namespace weft::detail {

using Stage = PlannedCall::Stage;

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
    const Status why = altered(*outcome, [&](ErrorDetail& detail) {
      detail.message = fmt::format("call {} of the group: rank {}'s input: {}", call->number,
                                   local_.rank, outcome->detail().message);
      detail.peer = local_.rank;
    });
    tell_failure(why);
    return fail(why);
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

Status CollectiveGroup::run_staged(const Call& call, Deadline until) {
  GpuCall staged(local_, call);
  const Task task = make_task(staged.host(), me_, size());
  Status status = task.in != nullptr ? staged.bring_in(until) : Status{};
  if (status.ok()) status = run_once(staged.host(), until);
  if (status.ok() && task.out != nullptr) status = staged.take_out(until);
  count_staged(staged);
  return status;
}

}  // namespace weft::detail
