// Who works and who serves.
#pragma once

#include <string>
#include <vector>

#include "weft/group.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Options with nothing left open. A value.
struct Roles {
  int rank = 0;  ///< this rank
  std::size_t world_size = 0;
  Group group{};             ///< who takes part
  std::vector<int> members;  ///< of the group, ascending
  std::vector<int> workers;
  std::vector<int> servers;
  std::vector<std::string> server_hosts;
  std::size_t replicas = 1;  ///< replicas of each shard
  std::size_t split_bytes = 0;

  Roles() = default;
  /// Throws Error as ParameterServer's constructor says.
  Roles(World& world, const Group& group, const Options& options);
  Roles(World& world, const Options& options) : Roles(world, world.group(), options) {}

  bool works() const noexcept;
  bool serves() const noexcept;
  /// The one whose parameters a table starts with.
  bool is_first_worker() const noexcept { return workers.front() == rank; }
  /// Behind a server's name in those of its slots: what is left of another group's tables is not
  /// taken for this one's.
  std::string suffix() const;
  /// Every member but this rank.
  std::vector<int> others() const;
};

}  // namespace weft::pslib
