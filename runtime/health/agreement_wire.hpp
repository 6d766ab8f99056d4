// An agreement's messages as they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/health/agreement.hpp"

namespace weft::detail {

/// Of a group's agreement. A control message: at most p2p::Channel::kMaxMessage bytes for groups of
/// up to Membership::kMostMembers.
std::vector<std::byte> encode(std::uint64_t group, const AgreementMessage& message);
/// The group that a message is about; nullopt: it is malformed.
std::optional<std::uint64_t> group_of(std::span<const std::byte> bytes) noexcept;
/// nullopt: malformed, or of a group of another size.
std::optional<AgreementMessage> decode(std::span<const std::byte> bytes, std::size_t members);

}  // namespace weft::detail
