// Encodes and decodes the messages of an agreement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/health/agreement.hpp"

namespace weft::detail {

/// Encodes `message` of the agreement of `group` as a control message: at most
/// p2p::Channel::kMaxMessage bytes for groups of up to Membership::kMostMembers.
std::vector<std::byte> encode(std::uint64_t group, const AgreementMessage& message);
/// The group that a message belongs to; nullopt if the message is malformed.
std::optional<std::uint64_t> group_of(std::span<const std::byte> bytes) noexcept;
/// Decodes a message; nullopt if it is malformed or belongs to a group of another size.
std::optional<AgreementMessage> decode(std::span<const std::byte> bytes, std::size_t members);

}  // namespace weft::detail
