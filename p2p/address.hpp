// What a rank tells the others of itself before they are connected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/os/cpus.hpp"

namespace weft::p2p {

/// Of constant size, so that the bootstrap fence costs the same per rank whatever the fabrics.
struct RankAddress {
  static constexpr std::uint32_t kMagic = 0x77656674;  // "weft"
  static constexpr std::uint32_t kVersion = 2;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::array<std::byte, 16> host_id{};  ///< boot and namespaces: equal means shared memory
  std::array<char, 64> host{};          ///< the host's name, for people; ends with a NUL
  os::CpuSet cpus{};                    ///< those it may run on: whether ranks share processors
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::array<std::byte, 16> socket{};      ///< names the abstract Unix socket it listens on
  std::array<std::byte, 32> job_secret{};  ///< drawn by rank 0; zero in the others' addresses
};
static_assert(std::is_trivially_copyable_v<RankAddress>);

}  // namespace weft::p2p
