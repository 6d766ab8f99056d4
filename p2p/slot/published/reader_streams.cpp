// Gets that a stream waits for: the progress thread carries them out, and waits for nothing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::Newest;
using p2p::PublishedWords;
using p2p::StreamGet;
using p2p::cuda::Pinning;
using p2p::cuda::UserStream;
using Stage = StreamGet::Stage;

namespace {

/// The cause of a path's end is known by then.
constexpr std::chrono::seconds kUntilKnown{1};
/// Bytes that the processor copies at a time: some milliseconds.
constexpr std::size_t kMostAtOnce = 16U << 20;

}  // namespace

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
  const auto awaited_here = [this] {
    const std::lock_guard lock(stream_get_.mutex);  // the get that is waited for moves `seen_`
    return about(stats::Operation::view, seen_ + 1);
  };
  if (local_.waiter.wait(
          is_settled, [] { return false; }, until, awaited_here) != p2p::WaitEnd::ready)
    return failure(Code::timeout, operation, "a stream still waits for an earlier get",
                   "the same call again goes on");
  const std::lock_guard lock(stream_get_.mutex);
  return std::exchange(stream_get_.failure, {});
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
    const ThreadsTurn turn(*this);
    if (Status status = end_stream_get("get", until); !status.ok()) return status;
    if (capture) {
      capture_get(into, *capture, deadline);
      return {};
    }
    stream_outcome_ = nullptr;
    if (into.memory().is_host() || into.bytes() == 0 || p2p::waits_on_thread(local_))
      return get_on_thread(into, user, until);
    if (Status status = end_thread_gets(until); !status.ok()) return status;
    prepare_stream_get(user, into, until);
    begin_stream_get(user, into, until);
    return {};
  } catch (...) {
    return get_failure(caught_status());
  }
}

Status VersionReader::get_on_thread(const Tensor& into, const UserStream& user, Deadline until) {
  const p2p::cuda::StreamPoint point(user, "get", nullptr);
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return point.poll(); }, until,
      [&] { return about(stats::Operation::view, seen_ + 1); });
  if (!outcome)
    throw_error(Code::timeout, "get", "the stream has not come to the get within its time", "");
  return outcome->ok() ? get(into, until) : get_failure(*outcome);
}

void VersionReader::prepare_stream_get(const UserStream& user, const Tensor& into, Deadline until) {
  StreamGet& get = stream_get_;
  {
    // Words serve again once the stream has come to the get before: what reads them is ahead of it.
    const auto has_passed = [&] { return !get.is_open.load(std::memory_order_acquire); };
    if (local_.waiter.wait(
            has_passed, [] { return false; }, until,
            [this] { return about(stats::Operation::view, seen_ + 1); }) != p2p::WaitEnd::ready)
      throw_error(Code::timeout, "get", "a stream has not come to an earlier get",
                  "the same call again goes on");
  }
  const auto place = local_.gpus->chunk_at(into.data(), into.bytes());
  const std::uint32_t chunk = place ? place->chunk : 0;
  const bool is_known = std::ranges::find(get.chunks, chunk) != get.chunks.end();
  if (!is_known || user.gpu->words_in_use() == nullptr) {
    // Words, pins and the NIC's proof are made by calls that may wait for all streams.
    p2p::wait_for_streams(local_, "get", until);
    const p2p::cuda::Gpu::Current current(*user.gpu);
    p2p::cuda::StreamWords& words = user.gpu->words("get");
    if (get.outcomes.words.empty()) {
      get.outcomes.words = words.take("get", 2);
      get.outcomes.gpu = user.gpu;
    }
  }
  std::string why_not;
  get.by_nic = owner_.channel->reaches_gpu(into, &why_not);
  Pinning pinning = get.by_nic ? Pinning::refused : map_versions(into.memory());
  if (pinning == Pinning::not_now) {
    p2p::wait_for_streams(local_, "get", until);
    pinning = map_versions(into.memory());
  }
  get.is_mapped = pinning == Pinning::pinned;
  if (!get.by_nic && !get.is_mapped) {
    if (Status status = staging_verdict(why_not, pinning); !status.ok()) throw Error(status);
    if (!get.block) {
      p2p::wait_for_streams(local_, "get", until);
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
}

void VersionReader::begin_stream_get(const UserStream& user, const Tensor& into, Deadline until) {
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
  get.stage = Stage::waits;
  get.into = into;
  get.until = until;
  get.after = std::move(after);
  get.wait = std::move(wait);
  get.outcome = outcome;
  get.torn = 0;
  get.broken = {};
  get.is_over = false;
  get.is_open.store(true, std::memory_order_release);
  stream_outcome_ = outcome;
  local_.want_service();
}

bool VersionReader::serve_pending() noexcept {
  StreamGet& get = stream_get_;
  if (!get.is_open.load(std::memory_order_acquire) &&
      !get.may_begin.load(std::memory_order_acquire))
    return false;
  const std::lock_guard lock(get.mutex);
  const bool was_settled = get.is_settled();
  if (get.is_open.load(std::memory_order_relaxed)) move_stream_get();
  while (begin_graph_get()) move_stream_get();
  const bool is_open = get.is_open.load(std::memory_order_relaxed);
  const bool goes_on = is_open || get.may_begin.load(std::memory_order_relaxed);
  if (goes_on) local_.progress.turn_soon();
  if (!is_open || was_settled != get.is_settled()) local_.ring();  // a thread may wait for that
  return goes_on;
}

void VersionReader::move_stream_get() noexcept {
  StreamGet& get = stream_get_;
  if (get.after)
    if (const auto passed = get.after->poll()) {
      get.after = nullptr;
      if (!passed->ok() && !get.is_over) fail_stream_get(*passed);
    }
  if (!get.after)
    while (!get.is_over && advance_stream_get()) {
    }
  if (!get.is_over && get.until.passed()) fail_stream_get(late_stream_get());
  if (!get.is_over) return;
  if (get.is_reading && get.reading->get.poll()) get.is_reading = false;
  if (get.copy && get.copy->poll()) get.copy.reset();
  if (get.after || !get.is_settled()) return;
  get.into = {};
  get.is_open.store(false, std::memory_order_release);
}

Status VersionReader::late_stream_get() const noexcept {
  const StreamGet& get = stream_get_;
  return refuse(Code::timeout, [&] {
    ErrorDetail detail;
    detail.hint = "is the owner at the same step? a longer deadline: WEFT_TIMEOUT";
    if (get.after)
      detail.message = "the stream did not come to the get in time";
    else if (get.stage == Stage::waits)
      detail.message = awaited().lack;
    else if (get.stage == Stage::copies)
      detail.message = fmt::format("version {} has come, and {} has not copied it",
                                   get.version.version, get.into.memory().text());
    else
      detail.message =
          unanswered_text(fmt::format("version {} is being read", get.version.version));
    return detail;
  });
}

void VersionReader::let_stream_go_on(Code code) noexcept {
  StreamGet& get = stream_get_;
  if (std::exchange(get.is_held, false)) {
    if (pins()) unpin(get.version.buffer);
    tell_released();
    gate_.leave();
  }
  get.is_over = true;
  if (get.graph != nullptr) {
    get.graph->port->end(*get.graph, get.run, static_cast<std::uint32_t>(code));
    get.graph = nullptr;
    return;
  }
  if (code != Code::ok) p2p::cuda::tell_gpus(*get.outcome, static_cast<std::uint32_t>(code));
  get.wait.end();
}

void VersionReader::fail_stream_get(const Status& why) noexcept {
  StreamGet& get = stream_get_;
  if (get.failure.ok()) get.failure = get_failure(why);
  if (get.is_reading && get.reading->get.cancel()) get.is_reading = false;
  let_stream_go_on(why.code());
}

bool VersionReader::advance_stream_get() noexcept {
  try {
    switch (stream_get_.stage) {
      case Stage::waits:
        return hold_for_stream();
      case Stage::reads:
        return read_for_stream();
      case Stage::lands:
        return land_for_stream();
      case Stage::copies:
        return copied_for_stream();
    }
  } catch (...) {
    fail_stream_get(caught_status());
  }
  return false;
}

bool VersionReader::hold_for_stream() {
  StreamGet& get = stream_get_;
  if (!gate_.enter()) {
    fail_stream_get(usable("get"));
    return false;
  }
  const Newest version = newest();
  if (version.version <= std::max(seen_, get.torn) || !is_whole(version) ||
      (pins() && !pin(version))) {
    gate_.leave();
    if (broken()) fail_stream_get(usable("get"));
    return false;
  }
  get.version = version;
  get.is_held = true;
  get.landed = 0;
  if (get.is_mapped) {
    get.copy = copy_mapped(version, get.into);
    get.stage = Stage::copies;
    return true;
  }
  if (published_words_) {
    get.stage = Stage::lands;
    return true;
  }
  p2p::Reading& reading = *get.reading;
  const auto word = at(lines_, PublishedWords::version_offset(version.buffer));
  const auto scratch = [&](std::size_t index) {
    return reading.words.data() + index * sizeof(std::uint64_t);
  };
  std::byte* const to = get.by_nic ? get.into.data() : get.block->data();
  reading.pieces.clear();
  if (proves()) reading.pieces.push_back({scratch(0), word, sizeof(std::uint64_t)});
  reading.pieces.push_back({to, at(buffers_, version.buffer * stride_), bytes_});
  if (proves()) reading.pieces.push_back({scratch(1), word, sizeof(std::uint64_t)});
  reading.get.pieces = reading.pieces;
  reading.get.gpu_flushes = get.by_nic ? &row_.gpu_counters().gpu_flushes : nullptr;
  get.is_reading = true;
  get.stage = Stage::reads;
  owner_.channel->get(reading.get);
  return true;
}

bool VersionReader::read_for_stream() {
  StreamGet& get = stream_get_;
  if (!get.broken.why.ok()) {
    // Why the path has ended is often known a little later.
    if (const Status known = peer_failure("get"); !known.ok())
      fail_stream_get(known);
    else if (Clock::now() - get.broken.since > kUntilKnown)
      fail_stream_get(get.broken.why);
    return false;
  }
  const auto end = get.reading->get.poll();
  if (!end) return false;
  get.is_reading = false;
  if (!end->ok()) {
    get.broken = {*end, Clock::now()};
    return true;
  }
  const auto is_proof = [&](std::size_t index) {
    return std::memcmp(get.reading->words.data() + index * sizeof(std::uint64_t),
                       &get.version.version, sizeof(std::uint64_t)) == 0;
  };
  if (proves() && !(is_proof(0) && is_proof(1))) {
    get.torn = get.version.version;
    get.is_held = false;
    gate_.leave();
    get.stage = Stage::waits;
    return true;
  }
  if (get.by_nic) {
    finish_stream_get();
    return false;
  }
  copy_for_stream();
  return true;
}

bool VersionReader::land_for_stream() {
  StreamGet& get = stream_get_;
  const std::size_t bytes = std::min(bytes_ - get.landed, kMostAtOnce);
  std::memcpy(get.block->data() + get.landed, views_[get.version.buffer].data() + get.landed,
              bytes);
  get.landed += bytes;
  if (get.landed < bytes_) return false;
  copy_for_stream();
  return true;
}

void VersionReader::copy_for_stream() {
  StreamGet& get = stream_get_;
  get.copy = local_.gpus->unstage("get", get.block, 0, get.into, {});
  get.stage = Stage::copies;
}

bool VersionReader::copied_for_stream() {
  StreamGet& get = stream_get_;
  const auto outcome = get.copy->poll();
  if (!outcome) return false;
  get.copy.reset();
  if (outcome->ok())
    finish_stream_get();
  else
    fail_stream_get(*outcome);
  return false;
}

void VersionReader::finish_stream_get() noexcept {
  StreamGet& get = stream_get_;
  count_reading(get.version, bytes_);
  if (get.by_nic)
    by_nic_.store(true, std::memory_order_relaxed);
  else if (get.is_mapped)
    count_mapped();
  else
    count_staged();
  let_stream_go_on(Code::ok);
}

}  // namespace weft::detail
