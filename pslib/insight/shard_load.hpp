// The load of one shard of a table, as weft-status shows it.
#pragma once

#include <cstdint>

#include "weft/sparse_table.hpp"

namespace weft::pslib {

/// What a shard has to do and what it takes.
struct ShardLoad {
  std::uint64_t requests = 0;  ///< pushes and lookups that were taken
  std::uint64_t queue = 0;     ///< of these, not done with
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t memory = 0;  ///< bytes of parameters and states
  SparseStatistics rows{};   ///< a sparse table's
};

}  // namespace weft::pslib
