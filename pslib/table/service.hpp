// The loop of a rank that only serves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pslib/insight/table_insight.hpp"
#include "pslib/table/agreement.hpp"
#include "pslib/table/roles.hpp"
#include "pslib/table/table_shard.hpp"

namespace weft::pslib {

/// The parts of a table that its server's loop needs; all outlive the loop.
struct Served {
  TableShard* shard;
  TableInsight* insight;
  Agreement* agreement;
  const Roles* roles;
  std::string_view table;
  std::string slots;  ///< the beginning of its slots' names
};

/// Writes the shard's progress to its table's page; `busy_ns` is the time worked since the last
/// call.
void show(const TableShard& shard, std::uint64_t busy_ns, TableInsight& insight) noexcept;

/// Takes the gradients of all its tables as they come, until every worker has closed the tables. If
/// an update has become impossible, tables that can tell their workers the cause are served until
/// the workers have closed them: a server that closed first could not name the rank at fault. A
/// worker that sends an invalid push is treated as gone, and run() finally returns that error. One
/// thread only; no other thread may use the tables meanwhile.
class Service {
 public:
  /// `tables` belong to this world's group, and this rank works on none of them.
  Service(World& world, const Group& group, std::span<const Served> tables);

  /// Default deadline: as long as workers live.
  Status run(Deadline deadline);

 private:
  enum class Kind : std::uint8_t {
    gradients,  // from worker `index`
    peers,      // from server `index`
    life        // only tells that its rank lives
  };
  // A remote slot that the loop waits on.
  struct Source {
    Kind kind;
    PublishedReader* slot;
    Served table;
    std::size_t index;
  };

  Status go_on(Deadline deadline);
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
  /// Says in words of tables what a slot of `table` has told.
  static Status in_words(Status status, const Served& table) noexcept;

  World& world_;
  Group group_;  // shrunk when replicated tables lost a server
  std::vector<Served> tables_;
  std::vector<TableShard*> shards_;
  std::vector<Source> sources_;
  std::size_t workers_ = 0;     // sources of gradients
  std::vector<Source> closed_;  // sources of gradients that ended
  Status first_cause_;          // why an update is impossible, while workers are told
};

}  // namespace weft::pslib
