#include "benchmarks/harness/require_data.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace weft::bench {

void require_data(bool right, std::size_t size, std::uint64_t iteration) {
  if (!right)
    throw std::runtime_error(fmt::format(
        "wrong data: {} bytes, iteration {}, differ from what was sent", size, iteration));
}

}  // namespace weft::bench
