// What a rank has called, in a form that can be compared with what the others have.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "weft/collective.hpp"

namespace weft::detail {

/// Equal on all ranks that call the same operation; lies in shared memory and travels.
struct Signature {
  static constexpr std::uint8_t kUserFunction = 0xff;

  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  std::uint8_t reduction = 0;  ///< a Reduction, or kUserFunction
  std::uint8_t parts = 0;      ///< 1: counts were given
  std::int32_t root = -1;
  std::int64_t count = 0;                      ///< elements; -1 where ranks may differ
  std::uint64_t counts_hash = 0;               ///< of counts that all ranks give alike
  Algorithm algorithm = Algorithm::automatic;  ///< that the caller names
  std::uint8_t any_order = 0;                  ///< 1: of combining
  std::array<std::uint8_t, 6> reserved{};

  friend bool operator==(const Signature&, const Signature&) = default;
  /// Whether elements may be combined in whichever order: then the result is the same, or may
  /// differ.
  bool may_reorder() const noexcept {
    return reduction != kUserFunction && (dtype > DType::bf16 || any_order != 0);
  }
  /// Not 0.
  std::uint32_t fingerprint() const noexcept;
  /// "all_reduce(f32[1000], sum)".
  std::string text() const;
};
static_assert(sizeof(Signature) == 32);

const char* name(CollectiveKind kind) noexcept;
/// As WEFT_COLL names it.
const char* name(Algorithm algorithm) noexcept;
constexpr bool combines(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::all_reduce ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scan;
}

}  // namespace weft::detail
