// A table on one rank: the agreed description, and this rank's shard and worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pslib/async/async_server.hpp"
#include "pslib/async/async_worker.hpp"
#include "pslib/bsp/bsp_shard.hpp"
#include "pslib/bsp/bsp_worker.hpp"
#include "pslib/insight/table_insight.hpp"
#include "pslib/table/agreement.hpp"
#include "pslib/table/description.hpp"
#include "pslib/table/push_slot.hpp"
#include "pslib/table/service.hpp"
#include "pslib/table/table_worker.hpp"
#include "runtime/world/services.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib::detail {

/// Not thread-safe.
class TableState {
 public:
  /// Collective over the group's members. Throws Error as ParameterServer::table does.
  TableState(const World& world, const Roles& roles, const std::string& server,
             const std::string& table, std::vector<TensorSpec> specs, const TableOptions& options,
             const std::string& metrics, Deadline deadline);

  bool over() const noexcept { return !weft::over(world_, "").ok(); }
  Status refusal(const char* operation) const noexcept { return weft::over(world_, operation); }

  Tensor parameter(const std::string& name) const;
  Tensor gradient(const std::string& name) const;

  Status initialize(Deadline deadline) noexcept;
  Status push(Deadline deadline = {}) noexcept;
  Status pull(Deadline deadline) noexcept;
  Status push_pull(Deadline deadline) noexcept;
  Status wait_updated(Deadline deadline) noexcept;
  Result<ParameterView> view(const std::string& name) noexcept;
  Result<ParameterView> view_piece(const ShardPiece& piece) noexcept;

  std::uint64_t version() const noexcept;
  Pulled pulled() const { return worker("pulled").pulled(); }
  TableStatistics statistics() const;
  CompressionStatistics compression() const { return push_slot("compression").compression(); }
  const std::vector<TensorSpec>& specs() const noexcept { return table_.specs; }
  const std::vector<ShardPiece>& pieces() const noexcept { return table_.pieces; }

  const Description& description() const noexcept { return table_; }

  /// For a rank that only serves.
  Served served() {
    return {shard_.get(),  &insight_,    &*agreement_,
            &table_.roles, table_.table, table_.slot_name("")};
  }

 private:
  std::size_t index(const std::string& name, const char* operation) const;
  ErrorDetail unknown_tensor(const std::string& name, const char* operation) const;
  Tensor part(const Tensor& flat, std::size_t tensor) const;
  template <typename Wait>
  Status receive(const char* operation, std::uint64_t bytes, Deadline deadline,
                 const Wait& wait) noexcept;
  /// Returns peer_failed with the dead server, if one has died, in place of `status`: a server has
  /// left or closed its end.
  Status with_the_dead(const Status& status) const noexcept;
  void make_synchronous(Deadline deadline);
  void make_asynchronous(Deadline deadline);
  const TableWorker& worker(const char* operation) const;
  const PushSlot& push_slot(const char* operation) const;
  /// Refuses `operation` if the parameters can't be read in place.
  Status must_be_in_step(const char* operation) const noexcept;
  /// Refuses `operation` if this worker's parameters lie on a GPU.
  Status must_have_host_memory(const char* operation) const noexcept;
  Status must_work(const char* operation) const noexcept;
  /// Refuses `operation` if this worker has its parameters, but has not ended initialize().
  Status must_have_begun(const char* operation) const noexcept;
  /// Names the table in errors of its slots.
  Status named(Status status, const char* operation) const noexcept;
  Status serve_own_shard(Deadline deadline) noexcept;

  World world_;
  const std::string shown_name_;  // "server/table"
  Description table_;
  std::unordered_map<std::string, std::size_t> indices_;
  std::uint64_t bytes_ = 0;  // total size of the tensors as pushed and pulled
  bool has_begun_ = false;   // a worker: initialize() is through
  TableInsight insight_;
  std::optional<Agreement> agreement_;
  std::optional<PushSlot> push_slot_;  // of a worker
  std::unique_ptr<TableWorker> worker_;
  std::unique_ptr<TableShard> shard_;
  BspWorker* bsp_worker_ = nullptr;  // the worker of a bsp table
  BspShard* own_shard_ = nullptr;    // the bsp shard if this worker's calls run it
};

}  // namespace weft::pslib::detail
