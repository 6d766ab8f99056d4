// Natural order of names: mlx5_2 before mlx5_10.
#pragma once

#include <string_view>

namespace weft::topology {

/// A strict weak order over all strings in which digits compare by numeric value.
bool before_naturally(std::string_view a, std::string_view b) noexcept;

}  // namespace weft::topology
