// A sparse table on one rank: the agreed description, and this rank's shard and worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "pslib/sparse/shard.hpp"
#include "pslib/sparse/worker.hpp"
#include "pslib/table/service.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib::detail {

/// Not thread-safe.
class SparseState {
 public:
  /// Collective over the group's members. Throws Error as ParameterServer::sparse_table does.
  SparseState(const World& world, const Roles& roles, const std::string& server,
              const std::string& table, const SparseOptions& options, const std::string& metrics,
              Deadline deadline);

  bool over() const noexcept { return !weft::over(world_, "").ok(); }
  Status refusal(const char* operation) const noexcept { return weft::over(world_, operation); }

  Status run(const SparseCall& call, Deadline deadline) noexcept;
  Status flush(Deadline deadline) noexcept;

  const SparseDescription& description() const noexcept { return table_; }
  std::uint64_t version() const noexcept;
  SparseStatistics statistics() const noexcept;

  /// For a rank that only serves.
  Served served() {
    return {shard_.get(),  &insight_,    &*agreement_,
            &table_.roles, table_.table, table_.slot_name("")};
  }

 private:
  Status must_work(const char* operation) const noexcept;

  World world_;
  const std::string shown_name_;  // "server/table"
  SparseDescription table_;
  TableInsight insight_;
  std::optional<Agreement> agreement_;
  std::unique_ptr<SparseWorker> worker_;
  std::unique_ptr<SparseShard> shard_;
};

}  // namespace weft::pslib::detail
