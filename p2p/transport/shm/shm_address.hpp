// The shm fabric's part of a rank's address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::p2p {

struct ShmAddress {
  static constexpr std::uint8_t kVersion = 1;

  std::array<std::byte, 16> socket{};  ///< names the abstract Unix socket that the rank listens on
};

}  // namespace weft::p2p
