// Numbers and sets of processors, as hwloc and NCCL write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::topology {

/// A decimal number with or without sign, and nothing behind it.
std::optional<long> parse_whole(std::string_view text);
/// A finite decimal fraction, and nothing behind it.
std::optional<double> parse_fraction(std::string_view text);
/// Hexadecimal, with or without 0x.
std::optional<std::uint64_t> parse_hex(std::string_view text);

/// "0x003ffff0,0x0003ffff" or "00000000,00ffffff": 32 bits to a word, the highest first; an empty
/// word is 0, and "0xf...f" (all bits above) is left out. nullopt when it is none, or has more than
/// 16384 bits.
std::optional<std::vector<int>> parse_bitmap(std::string_view text);

/// "0-17,36-53", as the kernel lists processors. nullopt when it is none, or too long.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace weft::topology
