// The operations of a table's workers with their results, and the judge of such a history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/consistency.hpp"

namespace weft::tests {

/// Workers are counted from 0 on.
struct TableEvent {
  enum class Kind : std::uint8_t {
    began,   ///< a job, by all workers, from a checkpoint or with zeros
    pushed,  ///< before the call; a worker's pushes have PushCode's gradients, one after the other
    pulled,  ///< when the call has returned; each worker's first in a job is the initial pull
    closed,  ///< before a worker closes the table
    died     ///< a worker, at the latest now
  };
  Kind kind = Kind::began;
  std::size_t worker = 0;
  /// pulled: of the table. began: the newest checkpoint's that was finished; 0: none.
  std::uint64_t version = 0;
  std::vector<std::size_t> contributors{};  ///< pulled
  std::vector<float> values{};              ///< pulled: all elements
  std::vector<std::size_t> shards{};        ///< began: of each cell
};

/// In the order in which it happened.
struct TableHistory {
  pslib::Consistency consistency{};
  std::size_t workers = 0;
  std::vector<TableEvent> events{};
};

/// The first violation, or empty. A history is right when
/// - every pull's values are whole: each shard's values come from exactly as many updates as its
///   version says (the table's version is the least of them), each from one push of each of its
///   contributors;
/// - its values contain only pushes that were made, each at most once, and, where no push may be
///   dropped, no push of a worker without that worker's earlier ones;
/// - all workers that see a version of a shard see the same pushes in it, and the version contains
///   all pushes of the version before;
/// - a worker sees its own pushes (those that came in time, where late ones are dropped), and never
///   a version older than one that it has seen;
/// - a worker that has made c pushes sees exactly the first c pushes of every other worker in a bsp
///   table, and at least c - s in an ssp(s) table, unless the other worker is dead or has closed
///   the table;
/// - the contributors are those whose pushes made the version, and as many as k_of_n asks for or
///   are left;
/// - a job that was restarted sees its checkpoint's version, and of former jobs' pushes only those
///   that were in it.
std::string judge(const TableHistory& history);

}  // namespace weft::tests
