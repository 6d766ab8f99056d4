// The limit: bare memory shared between the ranks, without weft code in between.
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

/// The partners of this rank: all other ranks for rank 0, rank 0 for the others.
std::vector<int> partners_of(const World& world);

/// True if all ranks are on this host and can share memory.
bool share_memory(const World& world);

/// Flags and data that this rank writes and its partners read: a slot's buffer, used directly once
/// all ranks have attached. The limit thus uses the same kind of memory as weft's slots, and only
/// code differs between the two.
class SharedMemory {
 public:
  /// Collective with the same `name` on all ranks. `bytes` of data may differ between ranks and may
  /// be 0. All memory is zero at first.
  SharedMemory(World& world, const RunOptions& options, const std::string& name, std::size_t bytes);

  FlagArea& flags() const noexcept { return *flags_; }
  const Partners& partners() const noexcept { return partners_; }
  std::byte* data() const noexcept { return buffer_.data() + sizeof(FlagArea); }

  /// The first partner's flags: the only partner in a run of two ranks, and a follower's leader.
  const FlagArea& their_flags() const noexcept { return *partners_.front(); }
  const std::byte* their_data() const noexcept {
    return theirs_.front().tensor().data() + sizeof(FlagArea);
  }

  /// For waits on flags: polls less where ranks outnumber processors.
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

/// Variants of a weft run: weft itself, and the limit with each way to copy. Operations that copy
/// nothing have only kLimit.
enum Variant : std::uint32_t { kWeft, kLimit, kLimitStreamed };

/// The limit's variants for operations that copy, and for those that do not.
inline constexpr std::uint32_t kCopies[] = {kLimit, kLimitStreamed};
inline constexpr std::uint32_t kNoCopy[] = {kLimit};

/// Copies as the limit's variant `variant` does: by memcpy, or with non-temporal stores.
void limit_copy(std::uint32_t variant, void* to, const void* from, std::size_t bytes) noexcept;

/// A row of samples of weft and of its reference, in the order of time: "weft", "limit", and
/// "weft/limit" (median of the ratios of neighbouring samples).
RunRow compared(std::size_t size, std::string_view kind, std::span<const double> weft,
                std::span<const double> limit);

/// Leads alternating blocks of weft and of each of the limit's `ways`. The row has "weft", "limit"
/// (the fastest way), "weft/limit" and, if there are several ways, "limit_memcpy" and
/// "limit_streamed".
///
/// `others` maps names to further weft variants to compare with: figures "NAME_us" and "weft/NAME".
RunRow measure_against_limit(Conductor& conductor, std::span<const std::uint32_t> ways,
                             const Pace& pace, std::size_t size, std::string_view kind,
                             const RunBlock& run,
                             const std::map<std::string, std::uint32_t>& others = {});

}  // namespace weft::bench
