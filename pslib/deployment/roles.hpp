// Who works and who serves.
#pragma once

#include <string>
#include <vector>

#include "weft/pslib.hpp"

namespace weft::pslib {

/// Options with nothing left open. A value.
struct Roles {
  int rank = 0;  ///< this rank
  int size = 0;
  std::vector<int> workers;
  std::vector<int> servers;
  std::vector<std::string> server_hosts;
  std::size_t replicas = 1;  ///< holders of each shard
  std::size_t split_bytes = 0;

  Roles() = default;
  /// Throws Error as ParameterServer's constructor says.
  Roles(World& world, const Options& options);

  bool works() const noexcept;
  bool serves() const noexcept;
  /// The one whose parameters a table starts with.
  bool is_first_worker() const noexcept { return workers.front() == rank; }
  /// Every rank but this one.
  std::vector<int> others() const;
};

}  // namespace weft::pslib
