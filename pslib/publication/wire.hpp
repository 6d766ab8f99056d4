// The protocol between a subscriber and a publisher, after they have authenticated each other.
//
//   subscriber                               publisher
//     Ask attach NAME  --------------->
//                      <---------------  Head description, the specs      (unknown: other names)
//     Ask pull | wait  --------------->
//                      <---------------  Head values, its runs; then parts, until `bytes` are there
//     Ask hurry        --------------->  end a wait now: send the version that exists
//                      <---------------  Head end: left | closed
//
// A part is 4 bytes of length, then that many bytes of the runs, back to back. kRevoked in place of
// a length says that the version was overwritten: the subscriber discards it, and another Head
// follows. All integers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weft/publication.hpp"

namespace weft::pslib::wire {

struct Ask {
  enum class Kind : std::uint32_t { attach = 1, pull, wait, hurry };
  static constexpr std::size_t kMostName = 63;

  Kind kind = Kind::pull;
  std::uint32_t unused = 0;
  std::uint64_t have = 0;                  ///< pull and wait: the version that the subscriber has
  std::array<char, kMostName + 1> name{};  ///< attach only; NUL-terminated

  /// The name of an attach request; nullopt if it is malformed.
  std::optional<std::string> attached_name() const;
};
static_assert(std::has_unique_object_representations_v<Ask> && sizeof(Ask) == 80);

Ask attach(std::string_view name);

struct Head {
  enum class Kind : std::uint32_t { description = 1, unknown, values, end };
  enum class End : std::uint32_t { left = 1, closed };

  Kind kind = Kind::values;
  std::uint32_t count = 0;    ///< tensors, runs that follow this head, or an End
  std::uint64_t version = 0;  ///< values: the version they lead to
  std::uint64_t step = 0;     ///< values: the publisher's step number
  std::uint64_t from = 0;     ///< values: the version they change; 0: all rows
  std::uint64_t bytes = 0;    ///< of the text or specs that follow, or of all parts
};
static_assert(std::has_unique_object_representations_v<Head> && sizeof(Head) == 40);

inline constexpr std::uint32_t kRevoked = 0xffffffff;
inline constexpr std::size_t kMostPart = 256u << 10;
/// Limits on a head, checked before memory is allocated for what follows it.
inline constexpr std::size_t kMostText = 1024;
inline constexpr std::size_t kMostSpecs = 16u << 20;
inline constexpr std::size_t kMostTensors = 1u << 16;

/// True if the head is within the limits and consistent.
bool makes_sense(const Head& head) noexcept;

std::vector<std::byte> encode(std::span<const PublishedTensor> specs);
/// nullopt if the bytes do not encode `count` tensors.
std::optional<std::vector<PublishedTensor>> decode(std::span<const std::byte> bytes,
                                                   std::size_t count);

}  // namespace weft::pslib::wire
