// How a run under -c ends when its data is wrong.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::bench {

/// Throws std::runtime_error unless `right`.
void require_data(bool right, std::size_t size, std::uint64_t iteration);

}  // namespace weft::bench
