#include "runtime/collective/signature.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>

#include "base/mix64.hpp"

namespace weft::detail {

const char* name(CollectiveKind kind) noexcept {
  constexpr std::array kNames{"barrier",    "broadcast", "reduce",  "all_reduce", "reduce_scatter",
                              "all_gather", "gather",    "scatter", "all_to_all", "scan"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

const char* name(Algorithm algorithm) noexcept {
  constexpr std::array kNames{"auto",     "direct",   "allgather_then_reduce", "ring", "halving",
                              "doubling", "two_level"};
  const auto index = static_cast<std::size_t>(algorithm);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::uint32_t Signature::fingerprint() const noexcept {
  std::array<std::uint64_t, sizeof(Signature) / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), this, sizeof *this);
  std::uint64_t hash = kGolden64;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return static_cast<std::uint32_t>(hash) | 1U;
}

std::string Signature::text() const {
  const bool named = algorithm != Algorithm::automatic;
  const std::string by = named ? fmt::format(" by {}", name(algorithm)) : std::string();
  if (kind == CollectiveKind::barrier) return "barrier()" + by;
  std::string text = fmt::format("{}({}[{}]", name(kind), weft::name(dtype),
                                 count < 0 ? std::string("by rank") : std::to_string(count));
  constexpr std::array<std::string_view, 8> kReductions{"sum", "prod",    "min",    "max",
                                                        "avg", "bit_and", "bit_or", "bit_xor"};
  if (combines(kind))
    text += fmt::format(", {}",
                        reduction < kReductions.size() ? kReductions[reduction] : "user function");
  if (parts != 0 && count >= 0) text += fmt::format(", counts {:08x}", counts_hash & 0xffffffff);
  if (root >= 0) text += fmt::format(", root {}", root);
  if (any_order != 0) text += ", any order";
  return text + ")" + by;
}

}  // namespace weft::detail
