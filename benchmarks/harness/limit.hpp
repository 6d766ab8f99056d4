// The limit: bare memory between the ranks, with nothing of weft on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/flags.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// The other end of a run: rank 1 and all above it for rank 0, rank 0 for them.
std::vector<int> partners_of(const World& world);

/// Whether all ranks are on this host, so that there may be such memory.
bool share_memory(const World& world);

/// Memory that this rank writes and its partners read, flags and data: a slot's buffer, used raw
/// once all have found it. So the limit moves through the very kind of memory that weft's slots lie
/// in, and what is left between the two is code.
class SharedMemory {
 public:
  /// All ranks call it with the same name. `bytes` of data may differ, and be 0. All is zero at
  /// first.
  SharedMemory(World& world, const RunOptions& options, const std::string& name, std::size_t bytes);

  FlagArea& flags() const noexcept { return *flags_; }
  const Partners& partners() const noexcept { return partners_; }
  std::byte* data() const noexcept { return buffer_.data() + sizeof(FlagArea); }

  /// The first partner's: the only one of a run of two, and a follower's leader.
  const FlagArea& their_flags() const noexcept { return *partners_.front(); }
  const std::byte* their_data() const noexcept {
    return theirs_.front().tensor().data() + sizeof(FlagArea);
  }

  /// For waits on flags: polls less where the ranks are crowded.
  const Idle& idle() const noexcept { return idle_; }

 private:
  PublishedSlot slot_;
  Tensor buffer_;
  std::vector<PublishedReader> remotes_;
  std::vector<Arrival> theirs_;
  FlagArea* flags_;
  Partners partners_;
  Idle idle_;
};

/// Variants of a weft run: weft itself, and the limit by each way to copy. Operations that copy
/// nothing have one limit, the first.
enum Variant : std::uint32_t { kWeft, kLimit, kLimitStreamed };

/// The limit's ways for operations that copy, and for those that do not.
inline constexpr std::uint32_t kCopies[] = {kLimit, kLimitStreamed};
inline constexpr std::uint32_t kNoCopy[] = {kLimit};

/// Copies in the limit's way number `variant`: the C library's, or non-temporal.
void limit_copy(std::uint32_t variant, void* to, const void* from, std::size_t bytes) noexcept;

/// A row of weft's samples and what each is compared with, in the order of time: "weft", "limit"
/// and "weft/limit" (median of the ratios of neighbours).
RunRow compared(std::size_t size, std::string_view kind, std::span<const double> weft,
                std::span<const double> limit);

/// Leads blocks of weft and of each of the limit's `ways`, in turn, and sums them up as "weft",
/// "limit" (the best way), "weft/limit", and where there are several ways as "limit_memcpy" and
/// "limit_streamed".
///
/// `others` are forms of weft's own to be put beside it, by name: figures "NAME_us" and
/// "weft/NAME".
RunRow measure_against_limit(Conductor& conductor, std::span<const std::uint32_t> ways,
                             const Pace& pace, std::size_t size, std::string_view kind,
                             const RunBlock& run,
                             const std::map<std::string, std::uint32_t>& others = {});

}  // namespace weft::bench
