// Gets that a stream waits for: what the application's thread makes for them.
#include <algorithm>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::GetWay;
using p2p::StreamGet;
using p2p::cuda::Pinning;
using p2p::cuda::UserStream;

std::unique_lock<std::mutex> VersionReader::lock_stream_get() const noexcept {
  return stream_get_.is_used ? std::unique_lock(stream_get_.mutex) : std::unique_lock<std::mutex>();
}

Status VersionReader::get_failure(const Status& why) const noexcept {
  return failure(why.code(), "get", why.detail().message, why.detail().hint);
}

Status VersionReader::end_stream_get(const char* operation, Deadline until) noexcept {
  if (!stream_get_.is_used) return {};
  const auto is_settled = [this] {
    const std::lock_guard lock(stream_get_.mutex);
    return stream_get_.is_settled();
  };
  if (local_.waiter.wait(
          is_settled, [] { return false; }, until, [this] { return about_next(); }) !=
      p2p::WaitEnd::ready)
    return failure(Code::timeout, operation, "a stream still waits for an earlier get",
                   "the same call again goes on");
  const std::lock_guard lock(stream_get_.mutex);
  return std::exchange(stream_get_.failure, {});
}

stats::WaitAbout VersionReader::about_next() const noexcept {
  const auto lock = lock_stream_get();  // the get that is waited for moves `seen_`
  return about(stats::Operation::view, seen_ + 1);
}

Status VersionReader::get_behind(const Tensor& into, Stream stream, Deadline deadline) noexcept {
  if (stream.none()) return get(into, deadline);
  if (Status status = check_target(into); !status.ok()) return status;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  try {
    if (local_.gpus == nullptr)
      throw_error(Code::bad_argument, "get", "a stream is given, and this rank has no GPU", "");
    const auto capture = p2p::cuda::capture_of(*local_.gpus, "get", stream, into.memory());
    const UserStream user =
        capture ? capture->stream : local_.gpus->user_stream("get", stream, into.memory());
    if (into.memory().is_gpu() && into.bytes() != 0)
      if (Status status = check_gpu_target(into); !status.ok()) return status;
    ThreadsTurn turn(*this);
    if (Status status = end_stream_get("get", until); !status.ok()) return status;
    if (capture) {
      capture_get(into, *capture, deadline, turn);
      return {};
    }
    stream_outcome_ = nullptr;
    if (into.memory().is_host() || into.bytes() == 0 || p2p::waits_on_thread(local_))
      return get_on_thread(into, user, until, turn);
    if (Status status = end_thread_gets(until); !status.ok()) return status;
    const GetWay way = prepare_stream_get(user, into, until, turn);
    begin_stream_get(user, into, until, way);
    return {};
  } catch (...) {
    return get_failure(caught_status());
  }
}

Status VersionReader::get_on_thread(const Tensor& into, const UserStream& user, Deadline until,
                                    ThreadsTurn& turn) {
  const p2p::cuda::StreamPoint point(user, "get", nullptr);
  turn.pass();  // a get of a graph may be ahead of the place
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return point.poll(); }, until, [this] { return about_next(); });
  turn.take();
  if (!outcome)
    throw_error(Code::timeout, "get", "the stream has not come to the get within its time", "");
  return outcome->ok() ? get(into, until) : get_failure(*outcome);
}

void VersionReader::await_get_behind(Deadline until, ThreadsTurn& turn) {
  const auto has_passed = [this] {
    const auto lock = lock_stream_get();
    return !stream_get_.behind;
  };
  if (has_passed()) return;
  turn.pass();
  const auto end = local_.waiter.wait(
      has_passed, [] { return false; }, until, [this] { return about_next(); });
  turn.take();
  if (end != p2p::WaitEnd::ready)
    throw_error(Code::timeout, "get", "a stream has not come to an earlier get",
                "the same call again goes on");
  end_stream_get("get", until).or_throw();
}

void VersionReader::await_all_streams(Deadline until, ThreadsTurn& turn) {
  while (local_.gpus->any_stream_waits()) {
    turn.pass();
    try {
      p2p::wait_for_streams(local_, "get", until);
    } catch (...) {
      turn.take();
      throw;
    }
    turn.take();
    // A get of a graph may have begun, or have failed.
    end_stream_get("get", until).or_throw();
  }
}

GetWay VersionReader::prepare_stream_get(const UserStream& user, const Tensor& into, Deadline until,
                                         ThreadsTurn& turn) {
  StreamGet& get = stream_get_;
  // Words serve again once the stream has come to the get before: what reads them is ahead of it.
  await_get_behind(until, turn);
  const auto place = local_.gpus->chunk_at(into.data(), into.bytes());
  const std::uint32_t chunk = place ? place->chunk : 0;
  const bool is_known = std::ranges::find(get.chunks, chunk) != get.chunks.end();
  if (!is_known || user.gpu->words_in_use() == nullptr) {
    // Words, pins and the NIC's proof are made by calls that may wait for all streams.
    await_all_streams(until, turn);
    const p2p::cuda::Gpu::Current current(*user.gpu);
    p2p::cuda::StreamWords& words = user.gpu->words("get");
    if (get.outcomes.words.empty()) {
      get.outcomes.words = words.take("get", 2);
      get.outcomes.gpu = user.gpu;
    }
  }
  std::string why_not;
  GetWay way{.by_nic = owner_.channel->reaches_gpu(into, &why_not)};
  Pinning pinning = way.by_nic ? Pinning::refused : map_versions(into.memory());
  if (pinning == Pinning::not_now) {
    await_all_streams(until, turn);
    pinning = map_versions(into.memory());
  }
  way.is_mapped = pinning == Pinning::pinned;
  if (!way.by_nic && !way.is_mapped) {
    if (Status status = staging_verdict(why_not, pinning); !status.ok()) throw Error(status);
    if (!get.block) {
      await_all_streams(until, turn);
      get.block = std::make_shared<const p2p::OwnedBlock>(local_.staging, bytes_);
      local_.gpus->pin(user.gpu, get.block->arena(), get.block->block().chunk);
    }
  }
  if (!get.reading) {
    get.reading = std::make_unique<p2p::Reading>();
    get.reading->words = p2p::OwnedBlock(local_.control, 2 * sizeof(std::uint64_t));
    get.reading->pieces.reserve(3);
  }
  if (!is_known) get.chunks.push_back(chunk);
  get.is_used = true;
  return way;
}

void VersionReader::begin_stream_get(const UserStream& user, const Tensor& into, Deadline until,
                                     GetWay way) {
  StreamGet& get = stream_get_;
  std::uint32_t* const outcome = get.outcomes.next();
  p2p::cuda::tell_gpus(*outcome, 0);
  auto after = std::make_unique<p2p::cuda::StreamPoint>(user, "get", nullptr);
  p2p::cuda::StreamWait wait;
  {
    const p2p::cuda::Gpu::Current current(*user.gpu);
    wait = p2p::cuda::StreamWait(user.gpu, "get", user.handle);
  }
  const std::lock_guard lock(get.mutex);
  ++get.outcomes.count;
  get.behind = {into, until, std::move(after), std::move(wait), outcome, way};
  get.tell_open();
  stream_outcome_ = outcome;
  local_.want_service();
}

}  // namespace weft::detail
