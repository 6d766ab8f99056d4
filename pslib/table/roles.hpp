// Which ranks work and which serve.
#pragma once

#include <string>
#include <vector>

#include "weft/group.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Options with every default resolved. A value type.
struct Roles {
  int rank = 0;  ///< this rank
  std::size_t world_size = 0;
  Group group{};             ///< the ranks that take part
  std::vector<int> members;  ///< of the group, ascending
  std::vector<int> workers;
  std::vector<int> servers;
  std::vector<std::string> server_hosts;
  std::size_t replicas = 1;  ///< replicas of each shard
  std::size_t split_bytes = 0;

  Roles() = default;
  /// Throws Error as ParameterServer's constructor does.
  Roles(World& world, const Group& group, const Options& options);
  Roles(World& world, const Options& options) : Roles(world, world.group(), options) {}

  bool works() const noexcept;
  bool serves() const noexcept;
  /// True for the worker whose parameters a table starts with.
  bool is_first_worker() const noexcept { return workers.front() == rank; }
  /// Suffix of the server's name in slot names, so that slots left over from another group's tables
  /// are not taken for this one's.
  std::string suffix() const;
  /// All members except this rank.
  std::vector<int> others() const;
};

}  // namespace weft::pslib
