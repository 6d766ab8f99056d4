// Encodes and decodes the messages of an agreement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/health/agreement.hpp"

namespace weft::detail {

/// Largest group whose messages can be encoded.
inline constexpr std::size_t kMostMembers = 65'535;

/// Encodes `message` of the agreement of `group`. A set of members takes a few bytes for each run
/// of members that are alike, and at most a bit for each member.
std::vector<std::byte> encode(std::uint64_t group, const AgreementMessage& message);
/// The group that a message belongs to; nullopt if the message is malformed.
std::optional<std::uint64_t> group_of(std::span<const std::byte> bytes) noexcept;
/// Decodes a message; nullopt if it is malformed or belongs to a group of another size.
std::optional<AgreementMessage> decode(std::span<const std::byte> bytes, std::size_t members);

/// Cuts an encoded message into control messages, each of at most p2p::Channel::kMaxMessage bytes.
std::vector<std::vector<std::byte>> cut(std::span<const std::byte> message);

/// Joins the control messages of one sender, which arrive in order, to encoded messages.
class JoinedParts {
 public:
  /// The whole message if `part` is its last part. A part that cannot follow the ones before it is
  /// dropped together with them.
  std::optional<std::vector<std::byte>> add(std::span<const std::byte> part);

 private:
  std::vector<std::byte> bytes_;
  std::uint16_t next_ = 0;  ///< number of the part that must come next
  std::uint16_t parts_ = 0;
};

}  // namespace weft::detail
