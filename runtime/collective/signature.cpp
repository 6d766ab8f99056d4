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

void Signature::write(std::span<char> into) const noexcept {
  std::size_t at = 0;
  const auto add = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    const auto end = fmt::format_to_n(into.data() + at, into.size() - 1 - at, format,
                                      std::forward<Args>(args)...);
    at = static_cast<std::size_t>(end.out - into.data());
  };
  constexpr std::array<std::string_view, 8> kReductions{"sum", "prod",    "min",    "max",
                                                        "avg", "bit_and", "bit_or", "bit_xor"};
  add("{}(", name(kind));
  if (kind != CollectiveKind::barrier) {
    add("{}[", weft::name(dtype));
    count < 0 ? add("by rank]") : add("{}]", count);
    if (combines(kind))
      add(", {}", reduction < kReductions.size() ? kReductions[reduction] : "user function");
    if (parts != 0 && count >= 0) add(", counts {:08x}", counts_hash & 0xffffffff);
    if (root >= 0) add(", root {}", root);
    if (any_order != 0) add(", any order");
  }
  add(")");
  if (algorithm != Algorithm::automatic) add(" by {}", name(algorithm));
  if (by_streams != 0) add(", for streams");
  into[at] = '\0';
}

std::string Signature::text() const {
  std::array<char, 160> chars{};
  write(chars);
  return chars.data();
}

}  // namespace weft::detail
