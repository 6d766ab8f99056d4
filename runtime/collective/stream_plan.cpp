// Plans that streams run: the application's calls, on groups of every kind.
#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"
#include "base/given_deadline.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/gpu_call.hpp"

namespace weft::detail {
Status CollectiveGroup::start(const std::shared_ptr<PlannedCall>& call, Stream stream,
                              Deadline deadline) noexcept {
  if (stream.none()) return run(call, deadline);
  const char* const operation = name(call->task.kind());
  if (local_.over() || known_.has_closed) return refusal(operation);
  try {
    if (local_.gpus == nullptr)
      throw_error(Code::bad_argument, operation, "a stream is given, and this rank has no GPU", "");
    bool is_captured = false;
    const Memory memory = call->gpu != nullptr ? call->gpu->memory() : Memory::host();
    const auto user = local_.gpus->user_stream(operation, stream, memory, &is_captured);
    const Deadline until = deadline.resolve(local_.waiter.default_timeout());
    // Runs have all of it, however much of it the preparation takes.
    const std::chrono::nanoseconds span = until.left();
    {
      const auto owner = acquire();
      if (call->under_way())
        throw_error(Code::bad_argument, operation, "this call is under way already",
                    "wait for it first");
      if (call->streams.runs == nullptr) call->streams.runs = std::make_shared<StreamRuns>();
      if (!call->streams.runs->is_decided) {
        // This thread may be in the midst of a capture.
        const p2p::cuda::ScopedRelaxation relaxed(user.gpu->driver());
        if (const Status prepared = prepare_streams(*call, until); !prepared.ok())
          return hinted_for(deadline, prepared);
      }
      if (call->streams.runs->meeting != nullptr) {
        put_on(*call, user, is_captured, span);
        return {};
      }
    }
    return run_on_thread(call, user, is_captured, until);
  } catch (...) {
    return caught_status();
  }
}

Status CollectiveGroup::prepare_streams(PlannedCall& call, Deadline until) {
  StreamRuns& runs = *call.streams.runs;
  const char* const operation = name(call.task.kind());
  if (runs.preparation == nullptr) {
    // Memory is pinned and mapped by calls that may wait for all streams.
    p2p::wait_for_streams(local_, operation, until);
    auto one = make_preparation(call);
    if (one == nullptr) {
      runs.is_decided = true;
      return {};
    }
    if (!local_.waiter.progress_registry().admit(*this))
      throw_error(Code::exhausted, operation, "calls of too many groups are under way already",
                  "wait for one of them first");
    if (Status begun = enqueue(one); !begun.ok()) return begun;
    runs.preparation = std::move(one);
  }
  Status ended = await(*runs.preparation, until);
  if (runs.preparation->under_way()) return ended;  // the next call goes on with it
  runs.preparation.reset();
  runs.is_decided = ended.ok() && !runs.may_pass;
  return ended;
}

std::shared_ptr<PlannedCall> CollectiveGroup::make_preparation(PlannedCall& call) {
  call.streams.runs->refusal = "not all of the group's ranks are on one host";
  return nullptr;
}

void CollectiveGroup::put_on(PlannedCall& call, const p2p::cuda::UserStream& user, bool is_captured,
                             std::chrono::nanoseconds limit) {
  StreamRuns& runs = *call.streams.runs;
  if (mesh_.gone_count() != 0 && !failed())
    if (const Status gone = gone_failure(numbered() + 1); !gone.ok()) fail(gone);
  if (failed() || runs.meeting->ended_with() != Code::ok) throw Error(why_ended(call));
  {
    const std::lock_guard lock(streams_.mutex);
    runs.limit = limit;
  }
  try {
    const p2p::cuda::Gpu::Current current(*user.gpu);
    runs.meeting->put_on(name(call.task.kind()), user.handle, is_captured, runs.work);
  } catch (...) {
    // The other ranks would wait for the rest of this run.
    fail_on_gpu(call, "run on a stream", caught_status());
    runs.meeting->end(failure().code(), true);
    throw;
  }
  count_device_copies(runs.work.size());
}

Status CollectiveGroup::run_on_thread(const std::shared_ptr<PlannedCall>& call,
                                      const p2p::cuda::UserStream& user, bool is_captured,
                                      Deadline until) {
  const char* const operation = name(call->task.kind());
  if (is_captured)
    throw_error(Code::bad_argument, operation,
                fmt::format("the stream captures a graph, and GPUs don't run this plan behind "
                            "streams: {}",
                            call->streams.runs->refusal),
                "call start(stream) outside of the capture: it waits on the thread");
  const p2p::cuda::StreamPoint point(user, operation, nullptr);
  const auto there = p2p::wait_for_device(
      local_, [&] { return point.poll(); }, until, [] { return stats::WaitAbout{}; });
  if (!there)
    throw_error(Code::timeout, operation, "the stream has not come to the call in time",
                "give it a longer deadline");
  there->or_throw();
  return run(call, until);
}

Status CollectiveGroup::why_ended(const PlannedCall& call) noexcept {
  const StreamRuns& runs = *call.streams.runs;
  if (!failed())
    (void)local_.waiter.wait([this] { return failed(); }, [] { return false; },
                             Deadline::after(kReasonComes));
  const Code code = runs.meeting->ended_with();
  if (!failed()) fail(ended_elsewhere(code));
  runs.meeting->end(failure().code(), true);
  const Status why = failure_of(call);
  const int member = stream_toucher();
  if (member < 0) return why;
  return weft::refuse(why.code(), [&] {
    ErrorDetail detail = why.detail();
    detail.message += fmt::format(
        "; rank {} may still touch this rank's tensors: they stay lent until its GPU has finished "
        "or it is dead",
        ranks_[static_cast<std::size_t>(member)]);
    detail.hint = "do not touch the tensors until Collectives::settle() is ok";
    return detail;
  });
}

Status CollectiveGroup::ended_elsewhere(Code code) const noexcept {
  return weft::refuse(code, [&] {
    return ErrorDetail{
        .operation = "collective",
        .message = code == Code::bad_argument
                       ? "runs of a plan were put on streams that are not in order"
                       : "another rank has ended the runs of the group's plans behind streams",
        .hint = code == Code::bad_argument
                    ? "put all runs of a plan on one stream, or let one wait for the other"
                    : "see the errors of the other ranks",
        .rank = local_.rank};
  });
}

}  // namespace weft::detail
