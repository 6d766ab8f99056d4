// Versions published behind a stream: visible once their copies, or the stream, have come by.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/publisher.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::StreamPublishes;
using p2p::cuda::StreamPoint;
using p2p::cuda::UserStream;

std::unique_lock<std::mutex> Publisher::lock_streams() noexcept {
  return streams_.is_used ? std::unique_lock(streams_.mutex) : std::unique_lock<std::mutex>();
}

Status Publisher::take_stream_failure() noexcept {
  const auto lock = lock_streams();
  return std::exchange(streams_.failure, {});
}

Status Publisher::publish_failure(const Status& why) const noexcept {
  return failure(why.code(), "publish", why.detail().message, why.detail().hint);
}

Status Publisher::publish(Stream stream, Deadline deadline) noexcept {
  if (stream.none()) return publish(deadline);
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  try {
    if (local_.gpus == nullptr)
      throw_error(Code::bad_argument, "publish", "a stream is given, and this rank has no GPU", "");
    const auto capture = p2p::cuda::capture_of(*local_.gpus, "publish", stream, spec_.memory);
    if (!filling_ && !capture)
      throw_error(Code::bad_argument, "publish", "there is no buffer from next() to publish",
                  "call next(), fill the tensor, then publish()");
    if (Status earlier = take_stream_failure(); !earlier.ok()) return earlier;
    if (capture) {
      capture_publish(*capture, deadline);
      return {};
    }
    const UserStream user = local_.gpus->user_stream("publish", stream, spec_.memory);
    prepare_stream(user, until);
    if (is_copied() && !local_.gpus->pins().is_pinned(buffers_->block().chunk).value_or(false))
      return publish_on_thread(user, until);
    if (would_hold_up_graphs())
      publish_behind_graphs(user, until);
    else
      publish_behind(user, until);
    return {};
  } catch (...) {
    return publish_failure(caught_status());
  }
}

void Publisher::prepare_stream(const UserStream& user, Deadline until) {
  if (streams_.is_used && user.gpu->words_in_use() != nullptr) return;
  // Words and pins are made by calls that may wait for all streams.
  p2p::wait_for_streams(local_, "publish", until);
  const p2p::cuda::Gpu::Current current(*user.gpu);
  (void)user.gpu->words("publish");
  if (is_copied()) {
    local_.gpus->pin(user.gpu, buffers_->arena(), buffers_->block().chunk);
    (void)streams_.own->of(user.gpu);
  }
  const std::lock_guard lock(streams_.mutex);
  streams_.versions.reserve(spec_.depth);
  streams_.is_used = true;
}

/// A copy to memory that is not pinned keeps its caller waiting, and later work of the stream may
/// write the tensor before the copy.
Status Publisher::publish_on_thread(const UserStream& user, Deadline until) {
  const StreamPoint point(user, "publish", nullptr);
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return point.poll(); }, until, [] { return stats::WaitAbout{}; });
  if (!outcome)
    throw_error(Code::timeout, "publish",
                "the stream has not come to the version within its time, and the driver pins no "
                "memory for a copy that waits in the thread's place",
                "publish again");
  return outcome->ok() ? publish(until) : publish_failure(*outcome);
}

void Publisher::hold_for_copies(const std::shared_ptr<p2p::cuda::Gpu>& gpu) {
  const bool of_graphs = graph_copies_go_on();
  if (!gpu_->copy && !gpu_->copies_go_on && !of_graphs) return;
  // They must not end in the buffer after the next one.
  gpu_->copies_go_on = true;
  const StreamPoint former({gpu, gpu->stream_to_host()}, "publish", streams_.own);
  const p2p::cuda::Gpu::Current current(*gpu);
  (void)former.hold(gpu, "publish");
  gpu_->copy.reset();
  gpu_->copies_go_on = false;
}

/// Beside those of versions that wait for their streams, replays need a buffer while the newest
/// version has one, and the thread another.
bool Publisher::would_hold_up_graphs() noexcept {
  constexpr std::size_t kOthers = 3;
  const std::lock_guard lock(streams_.mutex);
  return streams_.graphs != nullptr &&
         (spec_.flow != Flow::credits || streams_.from_calls() + 1 + kOthers > spec_.depth);
}

void Publisher::publish_behind_graphs(const UserStream& user, Deadline until) {
  const StreamPoint point(user, "publish", nullptr);
  end_failed_copy(until);
  {
    const std::lock_guard lock(streams_.mutex);
    give_back_buffer();
  }
  // Versions ahead of it keep their buffers until their streams have come to them.
  const auto has_come = [&]() -> std::optional<Status> {
    auto outcome = point.poll();
    if (!outcome || !outcome->ok()) return outcome;
    const std::lock_guard lock(streams_.mutex);
    return streams_.from_calls() == 0 ? outcome : std::nullopt;
  };
  const auto outcome =
      p2p::wait_for_device(local_, has_come, until, [] { return stats::WaitAbout{}; });
  if (!outcome)
    throw_error(Code::timeout, "publish",
                "the stream has not come to the version within its time, and captured graphs, "
                "which it may be behind, need the slot's buffers",
                "call next(), which keeps what the tensor holds, and publish again; more depth "
                "lets streams wait");
  outcome->or_throw();
  take_buffer(until).or_throw();
  publish_behind(user, until);
}

void Publisher::publish_behind(const UserStream& user, Deadline until) {
  StreamPublishes::Version version{.buffer = *filling_, .until = until};
  if (is_copied()) {
    const StreamPoint point(user, "publish", streams_.own);
    hold_for_copies(user.gpu);
    {
      const std::lock_guard lock(streams_.mutex);
      touch(*filling_);
    }
    // If a call fails, its copy goes on perhaps: later ones to the buffer begin behind it.
    gpu_->behind = user.gpu;
    version.copy = local_.gpus->stage("publish", std::span(&gpu_->tensor, 1), buffers_,
                                      *filling_ * stride_, 0, &point);
    const p2p::cuda::Gpu::Current current(*user.gpu);
    version.copy->hold_up(user.handle).or_throw();
    gpu_->behind = nullptr;
  } else {
    version.after = std::make_unique<StreamPoint>(user, "publish", nullptr);
  }
  {
    const std::lock_guard lock(streams_.mutex);
    streams_.versions.push_back(std::move(version));
    filling_.reset();
    if (!std::exchange(streams_.is_served, true)) {
      wants_serving_.store(true, std::memory_order_release);
      local_.want_service();
    }
  }
}

bool Publisher::await_streams(Deadline until, bool and_next) noexcept {
  if (!streams_.is_used) {
    if (and_next) filling_ = newest_.version % spec_.depth;
    return true;
  }
  const auto none_left = [this, and_next] {
    const std::lock_guard lock(streams_.mutex);
    if (streams_.will_publish()) return false;
    if (!and_next) return true;
    const std::uint64_t next = newest_.version % spec_.depth;
    if (streams_.uses(next)) return false;
    filling_ = next;
    return true;
  };
  return local_.waiter.wait(
             none_left, [] { return false; }, until,
             [this] {
               return stats::WaitAbout{.operation = stats::Operation::next, .slot = id_};
             }) == p2p::WaitEnd::ready;
}

Status Publisher::late_stream(const char* operation) const noexcept {
  return failure(Code::timeout, operation,
                 "a stream has not come to a version that is published behind it",
                 "the same call again goes on; a longer deadline: WEFT_TIMEOUT");
}

Status Publisher::late_version(const StreamPublishes::Version& version) const noexcept {
  return failure(Code::timeout, "publish",
                 version.graph == nullptr
                     ? "a stream did not come in time to a version that was to be published: it "
                       "never will be"
                     : "a replay's version was not copied in time: it will never be published",
                 "fill another one, with a longer deadline: WEFT_TIMEOUT");
}

bool Publisher::serve() noexcept {
  const std::lock_guard lock(streams_.mutex);
  auto& versions = streams_.versions;
  bool is_news = streams_.graphs && begin_graph_publishes();
  bool is_next = true;  // those before it are visible, or never will be
  for (auto version = versions.begin(); version != versions.end();) {
    const auto outcome = version->poll();
    if (!outcome && !version->is_late && version->until.passed()) {
      version->is_late = is_news = true;
      streams_.fail(late_version(*version));
      version->end_run(static_cast<std::uint32_t>(Code::timeout));
    }
    if (!outcome || (!is_next && !version->is_late && outcome->ok())) {
      if (outcome) version->end_run(0);  // its tensor may be written again
      is_next = is_next && version->is_late;
      ++version;
      continue;
    }
    if (!version->is_late && !outcome->ok()) streams_.fail(publish_failure(*outcome));
    if (!version->is_late && outcome->ok()) {
      if (version->copy) count_copy();
      make_newest(version->buffer);
    }
    version->end_run(static_cast<std::uint32_t>(outcome->code()));
    version = versions.erase(version);
    is_news = true;
  }
  if (is_news) local_.ring();  // a thread may wait for a buffer
  streams_.is_served = !versions.empty() || (streams_.graphs && streams_.graphs->are_under_way());
  return streams_.is_served;
}

void Publisher::end_streams() noexcept {
  const std::lock_guard lock(streams_.mutex);
  for (StreamPublishes::Version& version : streams_.versions)
    version.end_run(static_cast<std::uint32_t>(Code::closed));
  streams_.versions.clear();
  if (streams_.graphs) streams_.graphs->end_all();
}

}  // namespace weft::detail
