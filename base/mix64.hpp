// Hashes of a few words: for choices that every rank makes alike, and for telling values apart. Not
// for words that an attacker may choose.
//
// XXH3 is for long buffers. Here its call would cost more than these few instructions, and every
// room would link its library. Ranks keep and compare the hashes (a row's place, a group's number,
// the chances that a seed draws), so the functions must not change.
#pragma once

#include <cstdint>

namespace weft {

/// The increment of splitmix64: 2^64 by the golden ratio, made odd.
inline constexpr std::uint64_t kGolden64 = 0x9e3779b97f4a7c15U;

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014), a bijection: words that differ in one bit
/// have hashes that differ in half of them. The hash of 0 is 0.
constexpr std::uint64_t mix64(std::uint64_t word) noexcept {
  word = (word ^ word >> 30U) * 0xbf58476d1ce4e5b9U;
  word = (word ^ word >> 27U) * 0x94d049bb133111ebU;
  return word ^ word >> 31U;
}

/// The offset basis of FNV-1a: the hash of no bytes.
inline constexpr std::uint64_t kFnv1a = 0xcbf29ce484222325U;

/// One step of FNV-1a, for a byte. A larger `word` is taken in one step too: that is cheaper than
/// byte by byte, and no longer FNV-1a.
constexpr std::uint64_t fnv1a(std::uint64_t hash, std::uint64_t word) noexcept {
  return (hash ^ word) * 0x100000001b3U;
}

}  // namespace weft
