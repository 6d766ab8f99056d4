// The load of one shard of a table, as weft-status shows it.
#pragma once

#include <cstdint>

#include "weft/sparse_table.hpp"

namespace weft::pslib {

/// A shard's work and memory.
struct ShardLoad {
  std::uint64_t requests = 0;  ///< pushes and lookups taken
  std::uint64_t queue = 0;     ///< of these, not finished
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t memory = 0;  ///< bytes of parameters and states
  SparseStatistics rows{};   ///< of a sparse table
};

}  // namespace weft::pslib
