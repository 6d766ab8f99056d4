// The limit: bare memory between the two ranks, with nothing of weft on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "benchmarks/blocks.hpp"
#include "benchmarks/flags.hpp"
#include "benchmarks/run_protocol.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Memory that this rank writes and its peer reads, flags and data: a slot's buffer, used raw once
/// both ranks have found it. So the limit moves through the very kind of memory that weft's slots
/// lie in, and what is left between the two is code.
class SharedMemory {
 public:
  /// Both ranks call it with the same name. `bytes` of data may differ, and be 0. All is zero at
  /// first.
  SharedMemory(World& world, int peer, const std::string& name, std::size_t bytes);

  FlagArea& flags() const noexcept { return *flags_; }
  const FlagArea& their_flags() const noexcept { return *their_flags_; }
  std::byte* data() const noexcept { return buffer_.data() + sizeof(FlagArea); }
  const std::byte* their_data() const noexcept {
    return theirs_.tensor().data() + sizeof(FlagArea);
  }

 private:
  Slot slot_;
  Tensor buffer_;
  RemoteSlot remote_;
  Arrival theirs_;
  FlagArea* flags_;
  const FlagArea* their_flags_;
};

/// Variants of a weft run: weft itself, and the limit by each way to copy. Operations that copy
/// nothing have one limit, the first.
enum Variant : std::uint32_t { kWeft, kLimit, kLimitStreamed };

/// Copies in the limit's way number `variant`: the C library's, or non-temporal.
void limit_copy(std::uint32_t variant, void* to, const void* from, std::size_t bytes) noexcept;

/// Leads blocks of weft and of each of the limit's `ways`, in turn, and sums them up as "weft",
/// "limit" (the best way), "weft/limit" (median of the ratios of neighbours), and where there are
/// several ways as "limit_memcpy" and "limit_streamed".
RunRow measure_against_limit(Conductor& conductor, std::span<const std::uint32_t> ways,
                             const Pace& pace, std::size_t size, std::string_view kind,
                             const RunBlock& run);

}  // namespace weft::bench
