// The ring in which a rank keeps its last events, and how they are read.
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

/// What WEFT_RECORD asks for: nothing, what is off the data path, or the data path too.
enum class RecordLevel : std::uint8_t { off, control, all };

/// A moment of the records' clock.
inline std::uint64_t ns_of(Clock::time_point moment) noexcept {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(moment.time_since_epoch()).count());
}

/// Something that took time.
struct Span {
  Event event = Event::none;
  Operation operation = Operation::none;
  int peer = -1;
  std::uint64_t slot = 0;
  std::uint64_t value = 0;
  std::uint64_t bytes = 0;
  std::uint64_t started_ns = 0;  ///< 0: it took none
  Code code = Code::ok;
};

/// Writes events over the oldest ones. Any number of threads, without a lock: a record costs a
/// fetch_add, a compare-and-swap and a clock. A thread that is so late that the ring has come round
/// to its cell gives its record up (RingState::lost).
class Recorder {
 public:
  /// The ring stays the caller's; the number of cells is a power of two.
  Recorder(RingState& state, std::span<Record> cells, RecordLevel level) noexcept
      : state_(state), cells_(cells), level_(level) {}

  /// An event off the data path. `peer`: -1 for none; `slot`: 0 for none.
  void control(Event event, int peer, std::uint64_t slot = 0, std::uint64_t value = 0) noexcept {
    if (level_ != RecordLevel::off)
      write({.event = event, .peer = peer, .slot = slot, .value = value});
  }
  /// The same, ended now.
  void control(const Span& span) noexcept {
    if (level_ != RecordLevel::off) write(span);
  }
  /// When something of the data path starts: 0 unless everything is recorded.
  std::uint64_t start() const noexcept {
    if (level_ == RecordLevel::all) [[unlikely]]
      return ns_of(Clock::now());
    return 0;
  }
  /// An event of the data path: costs a comparison unless everything is recorded.
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

 private:
  [[gnu::noinline]] void write(const Span& span) noexcept;

  RingState& state_;
  const std::span<Record> cells_;
  const RecordLevel level_;
};

struct RecordedEvent {
  std::uint64_t number = 0;      ///< counts the rank's records from 0
  std::uint64_t started_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t ended_ns = 0;
  Event event = Event::none;
  Operation operation = Operation::none;
  Code code = Code::ok;
  int peer = -1;
  std::uint64_t slot = 0;
  std::uint64_t value = 0;
  std::uint64_t bytes = 0;
};

struct Recording {
  std::vector<RecordedEvent> events;  ///< in the order in which they were begun
  std::uint64_t begun = 0;            ///< by the rank, so far
  std::uint64_t overwritten = 0;      ///< of these, lost to newer ones
  std::uint64_t unreadable = 0;       ///< of the ones asked for: being written, or given up
};

/// Reads a ring of this process or, mapped, of another, while it is written.
/// Thread-safety: any number of threads.
class RecorderView {
 public:
  RecorderView(const RingState& state, std::span<const Record> cells) noexcept
      : state_(state), cells_(cells) {}

  /// The last `most` records; never a torn one.
  Recording last(std::size_t most) const;
  Recording all() const { return last(cells_.size()); }

 private:
  const RingState& state_;
  const std::span<const Record> cells_;
};

/// A record's words for an event; the stamp is left to the caller.
void write_words(Record& record, const RecordedEvent& event) noexcept;
/// The stamp of the n-th record once it is whole.
constexpr std::uint64_t whole_stamp(std::uint64_t number) noexcept { return 2 * (number + 1); }

}  // namespace weft::stats
