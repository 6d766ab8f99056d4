// Gets that a stream waits for: the progress thread carries them out, and waits for nothing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::GetWay;
using p2p::Newest;
using p2p::PublishedWords;
using p2p::StreamGet;
using Stage = StreamGet::Stage;

namespace {

/// The cause of a path's end is known by then.
constexpr std::chrono::seconds kUntilKnown{1};
/// Bytes that the processor copies at a time: some milliseconds.
constexpr std::size_t kMostAtOnce = 16U << 20;

}  // namespace

bool VersionReader::serve_pending() noexcept {
  StreamGet& get = stream_get_;
  if (!get.is_open.load(std::memory_order_acquire) &&
      !get.may_begin.load(std::memory_order_acquire))
    return false;
  const std::lock_guard lock(get.mutex);
  const bool was_settled = get.is_settled();
  const bool was_behind = get.behind.has_value();
  if (get.is_under_way) move_stream_get();
  while (begin_get_behind() || begin_graph_get()) move_stream_get();
  get.tell_open();
  const bool is_open = get.is_open.load(std::memory_order_relaxed);
  const bool goes_on = is_open || get.may_begin.load(std::memory_order_relaxed);
  if (goes_on) local_.progress.turn_soon();
  // A thread may wait for that.
  if (!is_open || was_settled != get.is_settled() || was_behind != get.behind.has_value())
    local_.ring();
  return goes_on;
}

bool VersionReader::begin_get_behind() noexcept {
  StreamGet& get = stream_get_;
  if (!get.behind) return false;
  p2p::GetBehind& next = *get.behind;
  if (next.after)
    if (const auto passed = next.after->poll()) {
      next.after = nullptr;
      if (!passed->ok() && !next.is_over) fail_get_behind(*passed);
    }
  const bool is_its_turn = !next.after && !get.is_under_way;
  if (!next.is_over && !is_its_turn && next.until.passed())
    fail_get_behind(next.after ? failure(Code::timeout, "get",
                                         "the stream did not come to the get in time",
                                         "is the owner at the same step? a longer deadline: "
                                         "WEFT_TIMEOUT")
                               : beyond_its_time("a stream's"));
  if (next.is_over && !next.after) get.behind.reset();
  if (!get.behind || !is_its_turn) return false;
  open_get(next.into, next.until, next.way);
  get.stream.wait = std::move(next.wait);
  get.stream.outcome = next.outcome;
  get.behind.reset();
  choose_gpu();
  return true;
}

void VersionReader::choose_gpu() noexcept {
  StreamGet& get = stream_get_;
  try {
    if (get.way.is_mapped && map_versions(get.into.memory()) != p2p::cuda::Pinning::pinned)
      throw_error(Code::system, "get", "the owner's memory is not pinned any more", "");
  } catch (...) {
    fail_stream_get(caught_status());
  }
}

void VersionReader::open_get(const Tensor& into, Deadline until, GetWay way) noexcept {
  StreamGet& get = stream_get_;
  get.stage = Stage::waits;
  get.into = into;
  get.until = until;
  get.way = way;
  get.torn = 0;
  get.broken = {};
  get.is_over = false;
  get.is_under_way = true;
}

Status VersionReader::beyond_its_time(const char* whose) const noexcept {
  return failure(Code::timeout, "get",
                 formatted("{} get waited for an earlier one beyond its time", whose),
                 "is the owner at the same step? a longer deadline: WEFT_TIMEOUT");
}

void VersionReader::fail_get_behind(const Status& why) noexcept {
  StreamGet& get = stream_get_;
  if (get.failure.ok()) get.failure = get_failure(why);
  p2p::cuda::tell_gpus(*get.behind->outcome, static_cast<std::uint32_t>(why.code()));
  get.behind->wait.end();
  get.behind->is_over = true;
}

void VersionReader::move_stream_get() noexcept {
  StreamGet& get = stream_get_;
  while (!get.is_over && advance_stream_get()) {
  }
  if (!get.is_over && get.until.passed()) fail_stream_get(late_stream_get());
  if (!get.is_over) return;
  if (get.is_reading && get.reading->get.poll()) get.is_reading = false;
  if (get.copy && get.copy->poll()) get.copy.reset();
  if (get.is_reading || get.copy) return;
  get.into = {};
  get.is_under_way = false;
}

Status VersionReader::late_stream_get() const noexcept {
  const StreamGet& get = stream_get_;
  return refuse(Code::timeout, [&] {
    ErrorDetail detail;
    detail.hint = "is the owner at the same step? a longer deadline: WEFT_TIMEOUT";
    if (get.stage == Stage::waits)
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
  if (get.stream.graph != nullptr) {
    get.stream.graph->port->end(*get.stream.graph, get.stream.run,
                                static_cast<std::uint32_t>(code));
    get.stream.graph = nullptr;
    return;
  }
  if (code != Code::ok) p2p::cuda::tell_gpus(*get.stream.outcome, static_cast<std::uint32_t>(code));
  get.stream.wait.end();
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
  if (get.way.is_mapped) {
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
  std::byte* const to = get.way.by_nic ? get.into.data() : get.block->data();
  reading.pieces.clear();
  if (proves()) reading.pieces.push_back({scratch(0), word, sizeof(std::uint64_t)});
  reading.pieces.push_back({to, at(buffers_, version.buffer * stride_), bytes_});
  if (proves()) reading.pieces.push_back({scratch(1), word, sizeof(std::uint64_t)});
  reading.get.pieces = reading.pieces;
  reading.get.gpu_flushes = get.way.by_nic ? &row_.gpu_counters().gpu_flushes : nullptr;
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
  if (get.way.by_nic) {
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
  if (get.way.by_nic)
    by_nic_.store(true, std::memory_order_relaxed);
  else if (get.way.is_mapped)
    count_mapped();
  else
    count_staged();
  let_stream_go_on(Code::ok);
}

}  // namespace weft::detail
