// What the workers of a table did and saw, and whether that may be.
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

/// What is wrong first, or nothing. A history is right when
/// - every pull's values are whole: each shard's are made by exactly as many updates as its version
///   says (the table's being the least), each of one push of each of its contributors;
/// - nothing is in it that nobody has pushed, nor twice, nor a later push of a worker's without an
///   earlier one, where none may be dropped;
/// - a shard's version is made of the same pushes for all who see it, and of all those of the
///   version before;
/// - a worker sees its own pushes (those that came in time, where late ones are dropped), and never
///   a version before one that it has seen;
/// - a worker that has made c pushes sees every other's first c of a bsp table and no later one,
/// and
///   c - s of an ssp(s) one, unless the other is dead or has closed the table;
/// - contributors are those whose pushes made the version, and as many as k_of_n asks for or are
///   left;
/// - a job that was begun again sees its checkpoint's version, and of former jobs' pushes only
/// those
///   that were in it.
std::string judge(const TableHistory& history);

}  // namespace weft::tests
