// Amounts of memory for people.
#pragma once

#include <cstdint>
#include <string>

namespace weft::doctor {

/// "64 MiB"
std::string bytes_text(std::uint64_t bytes);

}  // namespace weft::doctor
