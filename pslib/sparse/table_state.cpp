#include "pslib/sparse/table_state.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/stats/waits.hpp"
#include "pslib/sparse/checkpoints.hpp"
#include "pslib/table/entry.hpp"

namespace weft::pslib::detail {

SparseState::SparseState(const World& world, const Roles& roles, const std::string& server,
                         const std::string& table, const SparseOptions& options,
                         const std::string& metrics, Deadline deadline)
    : world_(keep(world, "sparse_table")),
      shown_name_(server + '/' + table),
      table_(roles, server, table, options),
      insight_(world_,
               {.server = server,
                .table = table,
                .rank = world.rank(),
                .is_sparse = true,
                .works = roles.works(),
                .serves = roles.serves()},
               metrics) {
  deadline = resolved(world_, deadline);
  const stats::OuterCall call("creation", shown_name_, 0);
  agreement_.emplace(world_, table_.roles.members, table_.slot_name("contract"), table_.contract(),
                     deadline, roles.works() ? std::span<const int>() : roles.servers);
  table_.start_from(find_start(world_, options.checkpoint, table,
                               {roles.rank == roles.servers.front(), roles.serves()},
                               manifest_of(table_, 0), *agreement_, deadline));
  // All ranks expose their slots before any rank attaches: two ranks may attach to each other.
  if (roles.works()) worker_ = std::make_unique<SparseWorker>(world_, table_);
  if (roles.serves()) shard_ = std::make_unique<SparseShard>(world_, table_);
  if (worker_) worker_->attach(world_, shard_.get(), deadline);
  if (shard_) shard_->attach(world_, deadline);
}

Status SparseState::run(const SparseCall& call, Deadline deadline) noexcept {
  if (Status status = must_work(call.operation); !status) return status;
  const stats::OuterCall outer(call.operation, shown_name_, 0);
  const std::uint64_t since = TableInsight::now();
  Status status = worker_->run(call, resolved(world_, deadline));
  const WireRows wire = table_.wire_rows();
  if (status && call.pushes) insight_.pushed(wire.bytes(call.pushed.size()), call.pushed.size());
  if (status && call.looks_up)
    insight_.pulled(wire.bytes(call.ids.size()), call.ids.size(), since);
  else
    insight_.waited(since);
  insight_.reached(worker_->version());
  if (shard_) show(*shard_, 0, insight_);
  return status;
}

Status SparseState::flush(Deadline deadline) noexcept {
  if (Status status = must_work("flush"); !status) return status;
  return worker_->settle("flush", resolved(world_, deadline));
}

std::uint64_t SparseState::version() const noexcept {
  return worker_ ? worker_->version() : shard_->version();
}

SparseStatistics SparseState::statistics() const noexcept {
  return shard_ ? shard_->sparse_statistics() : SparseStatistics{};
}

Status SparseState::must_work(const char* operation) const noexcept {
  if (Status status = weft::over(world_, operation); !status) return status;
  if (worker_) return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(operation, fmt::format("this rank only serves table \"{}\"", table_.table),
                        "call ParameterServer::serve() here");
  });
}

}  // namespace weft::pslib::detail
