// The loop of a rank that only serves.
#pragma once

#include <span>
#include <vector>

#include "pslib/table_state.hpp"

namespace weft::pslib {

/// Takes whatever gradients come, of any of its tables, until every worker has closed them.
/// Thread-safety: one thread, and nobody else uses the tables meanwhile.
class Service {
 public:
  /// `tables` are of this world and this rank works on none of them.
  Service(World& world, std::span<detail::TableState* const> tables);

  Status run();

 private:
  // A remote slot that is listened to. One without a shard only tells that its rank lives.
  struct Source {
    RemoteSlot* slot;
    detail::TableState* table;
    Shard* shard;
    std::size_t worker;
  };

  Status take(const Source& source, Deadline deadline);
  Status drop_closed();
  Status check_step() const;

  World& world_;
  std::vector<Source> sources_;
  std::size_t workers_ = 0;     // sources that have a shard
  std::vector<Source> closed_;  // those that had one
};

}  // namespace weft::pslib
