// Parses numbers and sets of processors in the notations of the kernel, hwloc and NCCL.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::topology {

/// A decimal integer with optional sign; nullopt if anything follows it.
std::optional<long> parse_whole(std::string_view text);
/// A finite decimal fraction; nullopt if anything follows it.
std::optional<double> parse_fraction(std::string_view text);
/// A hexadecimal number with or without 0x.
std::optional<std::uint64_t> parse_hex(std::string_view text);

/// Parses "0x003ffff0,0x0003ffff" or "00000000,00ffffff": 32 bits per word, the highest word first.
/// An empty word is 0, and "0xf...f" (all higher bits) is ignored. nullopt if `text` is no bitmap
/// or has more than 16384 bits.
std::optional<std::vector<int>> parse_bitmap(std::string_view text);

/// Parses "0-17,36-53", the kernel's notation. nullopt if `text` is no such list or is too long.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace weft::topology
