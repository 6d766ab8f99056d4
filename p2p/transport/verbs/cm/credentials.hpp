// Private data of a connection manager's call and of its answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "p2p/transport/verbs/api/connection_manager.hpp"

namespace weft::p2p::verbs {

/// Drawn anew for each peer, and told to it by the connector.
using Token = std::array<std::byte, 16>;

/// The rank, the queue pair to connect, and the token that the other end gave. The connection
/// manager carries up to 56 bytes in plain, and may append zeros.
struct Credentials {
  static constexpr std::uint32_t kMagic = 0x77656674;  // "weft"

  std::uint32_t magic = kMagic;
  std::int32_t rank = -1;   ///< the sender's
  std::uint32_t index = 0;  ///< of the queue pair
  Token token{};

  static std::optional<Credentials> read(const rdma_conn_param& said) noexcept {
    Credentials read;
    if (said.private_data == nullptr || said.private_data_len < sizeof read) return std::nullopt;
    std::memcpy(&read, said.private_data, sizeof read);
    if (read.magic != kMagic) return std::nullopt;
    return read;
  }
};
static_assert(sizeof(Credentials) <= 56);

}  // namespace weft::p2p::verbs
