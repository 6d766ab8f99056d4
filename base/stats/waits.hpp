// The waits of a rank's threads, in its stats segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>

#include "base/stats/layout.hpp"
#include "base/stats/recorder.hpp"
#include "weft/deadline.hpp"

namespace weft::stats {

/// More about a wait that awaits several ranks or slots, or a message, or is part of a call.
struct WaitDetails {
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  std::array<std::uint64_t, kAwaited> awaited{};  ///< WaitEntry::awaited
  std::uint8_t count = 0;                         ///< number of `awaited`
  std::array<char, 88> chars{};

  /// Names a further rank or slot; returns false if there is no room for it.
  bool await(std::uint64_t number) noexcept {
    if (count == kAwaited) return false;
    awaited[count++] = number;
    return true;
  }
  /// Cuts a text that is too long.
  void set_text(std::string_view text) noexcept;
  std::string_view text() const noexcept { return chars.data(); }
};

/// Room for the details of a wait, which are made when its thread sleeps. Until then nothing is
/// written here: a std::optional would be cleared in every call.
class WaitDetailsRoom {
 public:
  WaitDetails& make() noexcept { return *new (room_.data()) WaitDetails; }

 private:
  alignas(WaitDetails) std::array<std::byte, sizeof(WaitDetails)> room_;
};

/// The subject of a wait: the operation and the peer.
struct WaitAbout {
  Operation operation = Operation::none;
  int peer = -1;  ///< -1: no particular peer
  std::uint64_t slot = 0;
  std::uint64_t sequence = 0;
  std::uint8_t executor = 0;   ///< of Operation::step: number of its entry, from 1
  std::uint16_t more = 0;      ///< further edges, ranks or slots that it waits for
  std::uint64_t since_ns = 0;  ///< start, if that was before the wait's own; 0: the wait's own
  /// Null: there are none. The caller keeps them while the entry is written.
  const WaitDetails* details = nullptr;
};

/// WaitEntry::what.
std::uint64_t pack(const WaitAbout& about) noexcept;

/// A call on a table, whose waits are shown as parts of it. Lives on the stack of the thread that
/// makes the call, which keeps the texts; the innermost counts.
class OuterCall {
 public:
  /// `step`: 0: none.
  OuterCall(const char* operation, std::string_view table, std::uint64_t step) noexcept;
  OuterCall(const OuterCall&) = delete;
  OuterCall& operator=(const OuterCall&) = delete;
  ~OuterCall();

  /// The calling thread's; null: none.
  static const OuterCall* current() noexcept;
  /// "pull of table ps/model, step 17", cut if it is too long.
  void write(std::span<char> text) const noexcept;

 private:
  const char* const operation_;
  const std::string_view table_;
  const std::uint64_t step_;
  const OuterCall* const before_;
};

/// Lends entries to threads that go to sleep. A wait for which no entry is free is not shown.
/// Thread-safety: any number of threads.
class Waits {
 public:
  /// Shorter waits are not recorded.
  static constexpr std::chrono::milliseconds kLong{1};

  Waits(std::span<WaitEntry> entries, Recorder& recorder) noexcept
      : entries_(entries), recorder_(recorder) {}

  /// Null if no entry is free.
  WaitEntry* show(const WaitAbout& about, Clock::time_point since,
                  Clock::time_point until) noexcept;
  /// The ranks that it awaits have changed.
  static void renew(WaitEntry& entry, const WaitAbout& about) noexcept;
  /// Ends the wait; a wait of at least kLong becomes a record. `entry` may be null.
  void end(WaitEntry* entry, const WaitAbout& about, Clock::time_point since) noexcept;

 private:
  const std::span<WaitEntry> entries_;
  Recorder& recorder_;
};

}  // namespace weft::stats
