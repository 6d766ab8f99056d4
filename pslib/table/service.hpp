// The loop of a rank that only serves.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pslib/insight/table_insight.hpp"
#include "pslib/table/agreement.hpp"
#include "pslib/table/table_shard.hpp"

namespace weft::pslib {

/// A table as its server's loop needs it; all outlive the loop.
struct Served {
  TableShard* shard;
  TableInsight* insight;
  Agreement* agreement;
  std::string_view table;
};

/// Writes what a shard has done by now to its table's page, `busy_ns` of it since the last call.
void show(const TableShard& shard, std::uint64_t busy_ns, TableInsight& insight) noexcept;

/// Takes whatever gradients come, of any of its tables, until every worker has closed them. Where
/// an update can't be made any more, workers that are told so by their table are served until they
/// have closed it: closed by its server first, it could not name who is to blame. A worker that
/// sends what none does is taken for gone, and run() ends with that in the end.
/// Thread-safety: one thread, and nobody else uses the tables meanwhile.
class Service {
 public:
  /// `tables` are of this world's group and this rank works on none of them.
  Service(World& world, const Group& group, std::span<const Served> tables);

  /// Default: for as long as workers live.
  Status run(Deadline deadline);

 private:
  enum class Kind : std::uint8_t {
    gradients,  // of worker `index`
    peers,      // of server `index`, to this one
    life        // only tells that its rank lives
  };
  // A remote slot that is listened to.
  struct Source {
    Kind kind;
    PublishedReader* slot;
    Served table;
    std::size_t index;
  };

  Status serve(std::size_t source, Deadline deadline);
  Status advance(TableShard& shard);
  Deadline next_look(Deadline deadline) const noexcept;
  Status look_again();
  Status take(const Source& source, Deadline deadline);
  Status drop_closed();
  bool is_refusal(const Source& source, const Status& status) const noexcept;
  Status drop(std::size_t source);
  Status refuse_worker(std::size_t source, const Status& why);
  Status late() const;
  Status regroup();
  Status check_step();
  Status unfinished(const Source& gone) const;

  World& world_;
  Group group_;  // shrunk where replicated tables lost a server
  std::vector<TableShard*> shards_;
  std::vector<Source> sources_;
  std::size_t workers_ = 0;     // sources of gradients
  std::vector<Source> closed_;  // those that were
  Status first_cause_;          // why an update is never made, while workers are told
};

}  // namespace weft::pslib
