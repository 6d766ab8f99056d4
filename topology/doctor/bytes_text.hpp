// Formats amounts of memory for messages.
#pragma once

#include <cstdint>
#include <string>

namespace weft::doctor {

/// "64 MiB": the largest unit of which the amount is at least 1, with 4 significant digits.
std::string bytes_text(std::uint64_t bytes);

}  // namespace weft::doctor
