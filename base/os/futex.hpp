// Sleeping on a word of memory that several processes map.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::os {

/// Sleeps while `word` holds `expected`, until another thread wakes it, a signal arrives, or
/// `until`. The reason is not returned: check the awaited condition again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point until) noexcept;

/// Wakes up to `count` sleepers, of any process that maps the word.
void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept;

}  // namespace weft::os
