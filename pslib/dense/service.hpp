// The loop of a rank that only serves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/dense/table_state.hpp"

namespace weft::pslib {

/// Takes whatever gradients come, of any of its tables, until every worker has closed them.
/// Thread-safety: one thread, and nobody else uses the tables meanwhile.
class Service {
 public:
  /// `tables` are of this world and this rank works on none of them.
  Service(World& world, std::span<detail::TableState* const> tables);

  Status run();

 private:
  enum class Kind : std::uint8_t {
    gradients,  // of worker `index`
    norms,      // of the shard's peer `index`
    life        // only tells that its rank lives
  };
  // A remote slot that is listened to.
  struct Source {
    Kind kind;
    RemoteSlot* slot;
    detail::TableState* table;
    std::size_t index;
  };

  Status take(const Source& source, Deadline deadline);
  Status drop_closed();
  Status check_step() const;

  World& world_;
  std::vector<Source> sources_;
  std::size_t workers_ = 0;     // sources of gradients
  std::vector<Source> closed_;  // those that were
};

}  // namespace weft::pslib
