// The operation that a rank has called, in a form that ranks can compare.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weft/collective.hpp"

namespace weft::detail {

/// Equal on all ranks that call the same operation. Lies in shared memory and travels in messages,
/// so its layout is fixed.
struct Signature {
  static constexpr std::uint8_t kUserFunction = 0xff;

  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  std::uint8_t reduction = 0;  ///< a Reduction, or kUserFunction
  std::uint8_t parts = 0;      ///< 1: the caller gave counts
  std::int32_t root = -1;
  std::int64_t count = 0;                      ///< elements; -1 if ranks may differ
  std::uint64_t counts_hash = 0;               ///< of counts that are the same on all ranks
  Algorithm algorithm = Algorithm::automatic;  ///< requested by the caller
  std::uint8_t any_order = 0;                  ///< 1: elements may be combined in any order
  std::uint8_t by_streams = 0;  ///< 1: no call, but the preparation for streams to run it
  std::array<std::uint8_t, 5> reserved{};

  friend bool operator==(const Signature&, const Signature&) = default;
  /// True if elements may be combined in any order: the dtype makes the result the same, or the
  /// caller accepts that it differs.
  bool may_reorder() const noexcept {
    return reduction != kUserFunction && (dtype > DType::bf16 || any_order != 0);
  }
  /// Hash of all fields. Not 0.
  std::uint32_t fingerprint() const noexcept;
  /// "all_reduce(f32[1000], sum)".
  std::string text() const;
  /// The same, without allocation; cut if it is too long. Ends with a NUL.
  void write(std::span<char> into) const noexcept;
};
static_assert(sizeof(Signature) == 32);

const char* name(CollectiveKind kind) noexcept;
/// The name that WEFT_COLL uses.
const char* name(Algorithm algorithm) noexcept;
constexpr bool combines(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::all_reduce ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scan;
}

}  // namespace weft::detail
