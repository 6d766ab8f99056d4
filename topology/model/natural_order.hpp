// Names in the order that people expect: mlx5_2 before mlx5_10.
#pragma once

#include <string_view>

namespace weft::topology {

/// A strict weak order over all strings; numbers in them count by their value.
bool before_naturally(std::string_view a, std::string_view b) noexcept;

}  // namespace weft::topology
