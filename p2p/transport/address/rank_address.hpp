// The address of a rank, which the others get before they connect.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/os/cpus.hpp"
#include "p2p/transport/address/fabric_kind.hpp"

namespace weft::p2p {

/// One opaque part for each fabric that can reach the rank. The fabric alone writes and reads its
/// part: a trivially copyable struct with a `kVersion`. Of constant size, filled from the front.
class FabricParts {
 public:
  static constexpr std::size_t kBytes = 512;

  /// Adds the fabric's part; once per fabric. False: there is no room, so `kBytes` must grow.
  template <typename Part>
  bool add(FabricKind fabric, const Part& part) noexcept {
    static_assert(std::is_trivially_copyable_v<Part> && sizeof(Part) < kBytes);
    std::size_t at = 0;
    for (Head head; read(at, head);) at += sizeof head + head.bytes;
    const Head head{static_cast<std::uint8_t>(fabric), Part::kVersion, sizeof part};
    if (at + sizeof head + sizeof part > kBytes) return false;
    std::memcpy(bytes_.data() + at, &head, sizeof head);
    std::memcpy(bytes_.data() + at + sizeof head, &part, sizeof part);
    return true;
  }
  /// The fabric's part; nullopt: there is none, or one of another version.
  template <typename Part>
  std::optional<Part> find(FabricKind fabric) const noexcept {
    std::size_t at = 0;
    for (Head head; read(at, head); at += sizeof head + head.bytes) {
      if (head.fabric != static_cast<std::uint8_t>(fabric)) continue;
      Part part;
      if (head.version != Part::kVersion || head.bytes != sizeof part) return std::nullopt;
      std::memcpy(&part, bytes_.data() + at + sizeof head, sizeof part);
      return part;
    }
    return std::nullopt;
  }

 private:
  struct Head {
    std::uint8_t fabric = 0;  ///< a FabricKind; 0: no more parts
    std::uint8_t version = 0;
    std::uint16_t bytes = 0;  ///< of the part behind the head
  };
  /// The head at `at`. False: no part lies there. Bytes that travelled are not trusted.
  bool read(std::size_t at, Head& head) const noexcept {
    if (at + sizeof head > kBytes) return false;
    std::memcpy(&head, bytes_.data() + at, sizeof head);
    return head.fabric != 0 && head.bytes <= kBytes - at - sizeof head;
  }

  std::array<std::byte, kBytes> bytes_{};
};

using JobSecret = std::array<std::byte, 32>;

/// Its size is constant, so that the bootstrap fence costs the same per rank whatever the fabrics.
struct RankAddress {
  static constexpr std::uint32_t kMagic = 0x77656674;  // "weft"
  static constexpr std::uint32_t kVersion = 16;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::array<std::byte, 16> host_id{};  ///< boot and namespaces: equal means shared memory
  std::array<char, 64> host{};          ///< the host's name, for people; ends with a NUL
  os::CpuSet cpus{};                    ///< those it may run on: whether ranks share processors
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint64_t warnings = 0;  ///< hash of what is wrong with its settings; 0: nothing
  FabricParts fabrics;
  JobSecret job_secret{};  ///< drawn by rank 0; zero in the others' addresses
};
static_assert(std::is_trivially_copyable_v<RankAddress>);

}  // namespace weft::p2p
