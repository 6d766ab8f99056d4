// The recorder: a ring of a rank's last events, its writer and its reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/stats/event.hpp"
#include "base/stats/layout.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::stats {

/// The value of WEFT_RECORD: record nothing, events off the data path, or also the data path.
enum class RecordLevel : std::uint8_t { off, control, all };

/// `moment` on the records' clock.
inline std::uint64_t ns_of(Clock::time_point moment) noexcept {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(moment.time_since_epoch()).count());
}

/// An event with a duration.
struct Span {
  Event event = Event::none;
  Operation operation = Operation::none;
  int peer = -1;
  std::uint64_t slot = 0;
  std::uint64_t value = 0;
  std::uint64_t bytes = 0;
  std::uint64_t started_ns = 0;  ///< 0: a momentary event
  Code code = Code::ok;
  std::uint64_t thread = 0;  ///< Record::thread
};

/// Writes events over the oldest ones. Any number of threads may write, without a lock: a record
/// costs one fetch_add, one compare-and-swap and one clock read. A thread that is so slow that the
/// ring has wrapped around to its cell drops its record (RingState::lost).
class Recorder {
 public:
  /// The caller keeps the ring. The number of `cells` must be a power of two.
  Recorder(RingState& state, std::span<Record> cells, RecordLevel level) noexcept
      : state_(state), cells_(cells), level_(level) {}

  /// Records an event off the data path. `peer`: -1 for none; `slot`: 0 for none.
  void control(Event event, int peer, std::uint64_t slot = 0, std::uint64_t value = 0) noexcept {
    if (level_ != RecordLevel::off)
      write({.event = event, .peer = peer, .slot = slot, .value = value});
  }
  /// The same for an event with a duration, which ends now.
  void control(const Span& span) noexcept {
    if (level_ != RecordLevel::off) write(span);
  }
  /// The start time for data(); 0 unless the level is `all`.
  std::uint64_t start() const noexcept {
    if (level_ == RecordLevel::all) [[unlikely]]
      return ns_of(Clock::now());
    return 0;
  }
  bool records_data() const noexcept { return level_ == RecordLevel::all; }
  /// Records an event of the data path. Costs one comparison unless the level is `all`.
  void data(Event event, int peer, std::uint64_t slot, std::uint64_t value, std::uint64_t bytes = 0,
            std::uint64_t started_ns = 0) noexcept {
    if (level_ == RecordLevel::all) [[unlikely]]
      write({.event = event,
             .peer = peer,
             .slot = slot,
             .value = value,
             .bytes = bytes,
             .started_ns = started_ns});
  }

  /// The same for an event of the data path that ends now and may have a thread.
  void data(const Span& span) noexcept {
    if (level_ == RecordLevel::all) [[unlikely]]
      write(span);
  }

 private:
  [[gnu::noinline]] void write(const Span& span) noexcept;

  RingState& state_;
  const std::span<Record> cells_;
  const RecordLevel level_;
};

struct RecordedEvent {
  std::uint64_t number = 0;      ///< the record's number, from 0
  std::uint64_t started_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t ended_ns = 0;
  Event event = Event::none;
  Operation operation = Operation::none;
  Code code = Code::ok;
  int peer = -1;
  std::uint64_t slot = 0;
  std::uint64_t value = 0;
  std::uint64_t bytes = 0;
  std::uint64_t thread = 0;
};

struct Recording {
  std::vector<RecordedEvent> events;  ///< in the order of their start
  std::uint64_t begun = 0;            ///< records begun by the rank so far
  std::uint64_t overwritten = 0;      ///< records overwritten by newer ones
  std::uint64_t unreadable = 0;       ///< requested records that are being written or were dropped
};

/// Reads a ring while it is written, in this process or, mapped, from another.
/// Thread-safety: any number of threads.
class RecorderView {
 public:
  RecorderView(const RingState& state, std::span<const Record> cells) noexcept
      : state_(state), cells_(cells) {}

  /// The last `most` records, without torn ones.
  Recording last(std::size_t most) const;
  Recording all() const { return last(cells_.size()); }

 private:
  const RingState& state_;
  const std::span<const Record> cells_;
};

/// Stores `event` into the words of `record`, except the stamp.
void write_words(Record& record, const RecordedEvent& event) noexcept;
/// The stamp of record `number` once it is complete.
constexpr std::uint64_t whole_stamp(std::uint64_t number) noexcept { return 2 * (number + 1); }

}  // namespace weft::stats
