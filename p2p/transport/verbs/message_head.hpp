// The head of a SEND.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "p2p/transport/notification_table.hpp"

namespace weft::p2p::verbs {

struct MessageHead {
  enum class Kind : std::uint32_t {
    nothing,
    immediate,  ///< stands for an immediate, where there are none
    message,    ///< a control message follows
    link        ///< a LinkMessage follows, which does not wait for its turn
  };
  Kind kind = Kind::nothing;
  std::uint32_t immediate = 0;
  /// How many notifications the sender had sent by each queue pair before: the message comes after
  /// them.
  std::array<std::uint64_t, NotificationTable::kMaxQueuePairs> notified{};

  /// All that stands for an immediate, as one word.
  static std::uint64_t short_form(std::uint32_t immediate) noexcept {
    return std::uint64_t{immediate} << 32U | static_cast<std::uint32_t>(Kind::immediate);
  }
  static std::optional<std::uint32_t> immediate_in(std::span<const std::byte> bytes) noexcept {
    std::uint64_t word = 0;
    if (bytes.size() != sizeof word) return std::nullopt;
    std::memcpy(&word, bytes.data(), sizeof word);
    if (static_cast<std::uint32_t>(word) != static_cast<std::uint32_t>(Kind::immediate))
      return std::nullopt;
    return static_cast<std::uint32_t>(word >> 32U);
  }
};

}  // namespace weft::p2p::verbs
