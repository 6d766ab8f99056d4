// The public SparseTable: forwards to SparseState.
#include "base/control_call.hpp"
#include "base/handle.hpp"
#include "pslib/sparse/table_state.hpp"
#include "weft/sparse_table.hpp"

namespace weft::pslib {

SparseTable::SparseTable(std::shared_ptr<detail::SparseState> state) noexcept
    : state_(std::move(state)) {}
SparseTable::SparseTable(SparseTable&&) noexcept = default;
SparseTable& SparseTable::operator=(SparseTable&&) noexcept = default;
SparseTable::~SparseTable() = default;

Status SparseTable::lookup(std::span<const std::uint64_t> ids, std::span<float> rows,
                           Deadline deadline) noexcept {
  if (!state_) return empty_handle("SparseTable", "lookup");
  return state_->run({.operation = "lookup", .looks_up = true, .ids = ids, .rows = rows}, deadline);
}

Status SparseTable::push(std::span<const std::uint64_t> ids, std::span<const float> gradients,
                         Deadline deadline) noexcept {
  if (!state_) return empty_handle("SparseTable", "push");
  return state_->run({.operation = "push", .pushes = true, .pushed = ids, .gradients = gradients},
                     deadline);
}

Status SparseTable::push_lookup(std::span<const std::uint64_t> pushed,
                                std::span<const float> gradients,
                                std::span<const std::uint64_t> ids, std::span<float> rows,
                                Deadline deadline) noexcept {
  if (!state_) return empty_handle("SparseTable", "push_lookup");
  return state_->run({.operation = "push_lookup",
                      .pushes = true,
                      .looks_up = true,
                      .pushed = pushed,
                      .gradients = gradients,
                      .ids = ids,
                      .rows = rows},
                     deadline);
}

Status SparseTable::flush(Deadline deadline) noexcept {
  return state_ ? state_->flush(deadline) : empty_handle("SparseTable", "flush");
}

std::size_t SparseTable::dim() const noexcept {
  return state_ ? state_->description().options.dim : 0;
}
std::uint64_t SparseTable::version() const noexcept { return state_ ? state_->version() : 0; }
SparseStatistics SparseTable::statistics() const {
  require_state(state_, "SparseTable", "statistics");
  return control_call("statistics", [&] { return state_->statistics(); });
}

int SparseTable::server_of(std::uint64_t id) const noexcept {
  if (!state_) return -1;
  const SparseDescription& table = state_->description();
  return table.roles.servers[table.server_of(id)];
}

}  // namespace weft::pslib
