// Sleep on a word of memory that several processes map.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::os {

/// Sleeps while `word` holds `expected`, until somebody wakes it, a signal comes, or `until`. Which
/// of them it was is not told: look at what was waited for again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point until) noexcept;

/// Wakes up to `count` sleepers of any process that maps the word.
void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept;

}  // namespace weft::os
