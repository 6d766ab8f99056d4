// The payload of one put.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {

/// A put's tensor as runs of memory.
struct TcpChannel::Payload {
  std::array<iovec, kMostRuns> runs;  ///< written as far as there are any
  std::size_t count = 0;
  std::size_t bytes = 0;
  OwnedBlock packed;

  void add(const std::byte* data, std::size_t size) noexcept {
    if (size == 0) return;
    runs[count++] = {const_cast<std::byte*>(data), size};
    bytes += size;
  }
  std::span<const iovec> all() const noexcept { return {runs.data(), count}; }
};

}  // namespace weft::p2p::tcp
