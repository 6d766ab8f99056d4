// Checksums of records, by which damage on the way is seen (WEFT_CHECKSUM=1).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "p2p/transport/tcp/wire.hpp"

namespace weft::p2p::tcp {

/// XXH3 over the head, but for its sums, and the payload that `parts` make up. Never 0.
std::uint64_t checksum(Head head, std::span<const iovec> parts) noexcept;
/// The sum of the head alone, with `checksum` and without `head_sum`: checked before the head is
/// trusted. Never 0.
std::uint32_t head_sum(Head head) noexcept;

}  // namespace weft::p2p::tcp
