// A table through several jobs, whose ranks stop and die, each begun from the last one's
// checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "p2p/transport/sim/options.hpp"
#include "tests/sim/table_history.hpp"

namespace weft::tests {

/// The outcome of a table's jobs.
struct TableLives {
  TableHistory history{};
  /// Violations beside those of the pulled values: a rank that did not end, or that ended with an
  /// error although all that it needed was there.
  std::vector<std::string> failures{};
  std::size_t restarts = 0;        ///< from a checkpoint
  std::size_t dead_workers = 0;    ///< without which the others went on
  std::size_t dead_servers = 0;    ///< the same
  std::size_t ended_by_death = 0;  ///< jobs that could not go on without who had died
  std::size_t lost = 0;            ///< of these, for the death of all who held a shard
};

/// The choice that the seed does not make.
enum class Lot : std::uint8_t {
  any,
  replicas_die  ///< one job, a replicated table that is not saved, deaths of any of its ranks
};

/// Everything is drawn from the seed: consistency, workers, servers, replicas, paces, stops, who
/// dies and when, and what of a job is saved. With equal arguments equal, unless a job ended while
/// a file was being written.
TableLives live_through(std::uint64_t seed, p2p::sim::Plant plant = p2p::sim::Plant::none,
                        Lot lot = Lot::any);

}  // namespace weft::tests
