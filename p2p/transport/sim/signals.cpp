#include "p2p/transport/sim/signals.hpp"

#include <fmt/format.h>

#include <atomic>

namespace weft::p2p::sim {
namespace {

/// As many as travel.
constexpr std::uint64_t kLowBits = 12;

/// The first value from `least` on that ends in the low bits of `value`.
std::uint64_t complete(std::uint64_t least, std::uint64_t value) noexcept {
  return least + ((value - least) & ((1U << kLowBits) - 1));
}

}  // namespace

std::uint32_t Signals::expect(const ExpectedWords& words) {
  const std::uint32_t first = next_;
  next_ += words.in_turn ? 1 : words.count;
  expected_.emplace(first, words);
  return first;
}

std::string Signals::set(std::uint32_t notification_id, std::uint64_t sequence,
                         const std::byte* word) noexcept {
  auto found = expected_.upper_bound(notification_id);
  if (found == expected_.begin())
    return fmt::format("signal {} is expected by nobody", notification_id);
  --found;
  ExpectedWords& words = found->second;
  const std::uint32_t index = notification_id - found->first;
  if (index >= (words.in_turn ? 1 : words.count))
    return fmt::format("signal {} is expected by nobody", notification_id);
  std::uint64_t value = 0;
  std::byte* at = nullptr;
  if (words.in_turn) {
    value = complete(words.last, sequence);
    if (value != words.last + 1)
      return fmt::format("signal {} brought {} after {}", notification_id, sequence, words.last);
    at = words.words + (value - 1) % words.count * words.stride;
  } else {
    at = words.words + std::size_t{index} * words.stride;
    value = complete(reinterpret_cast<std::atomic<std::uint64_t>*>(at)->load(), sequence);
  }
  if (at != word || value != sequence)
    return fmt::format("signal {} set {} where {} was to be set, or elsewhere", notification_id,
                       value, sequence);
  if (words.in_turn) words.last = value;
  reinterpret_cast<std::atomic<std::uint64_t>*>(at)->store(value, std::memory_order_release);
  return {};
}

}  // namespace weft::p2p::sim
