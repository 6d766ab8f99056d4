// One message for many readers, who were given its key.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace weft::p2p {

/// For one message only.
using MessageKey = std::array<std::byte, 32>;

/// By how much a sealed message is longer.
inline constexpr std::size_t kSealOverhead = 40;

MessageKey draw_message_key() noexcept;
std::vector<std::byte> seal_message(const MessageKey& key, std::span<const std::byte> plain);
/// nullopt: it was not sealed with this key, or was changed.
std::optional<std::vector<std::byte>> open_message(const MessageKey& key,
                                                   std::span<const std::byte> sealed);

}  // namespace weft::p2p
