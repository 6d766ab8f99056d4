// The public Table: forwards to TableState.
#include "base/control_call.hpp"
#include "base/handle.hpp"
#include "pslib/table_state.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

Table::Table(std::shared_ptr<detail::TableState> state) noexcept : state_(std::move(state)) {}
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;

Tensor Table::parameter(const std::string& name) const {
  require_state(state_, "Table", "parameter");
  return control_call("parameter", [&] { return state_->parameter(name); });
}
Tensor Table::gradient(const std::string& name) const {
  require_state(state_, "Table", "gradient");
  return control_call("gradient", [&] { return state_->gradient(name); });
}

Status Table::initialize(Deadline deadline) noexcept {
  return state_ ? state_->initialize(deadline) : empty_handle("Table", "initialize");
}
Status Table::push() noexcept { return state_ ? state_->push() : empty_handle("Table", "push"); }
Status Table::pull(Deadline deadline) noexcept {
  return state_ ? state_->pull(deadline) : empty_handle("Table", "pull");
}

Status Table::push_pull(Deadline deadline) noexcept {
  return state_ ? state_->push_pull(deadline) : empty_handle("Table", "push_pull");
}

Status Table::wait_updated(Deadline deadline) noexcept {
  return state_ ? state_->wait_updated(deadline) : empty_handle("Table", "wait_updated");
}

Result<ParameterView> Table::view(const std::string& name) noexcept {
  if (!state_) return empty_handle("Table", "view");
  return state_->view(name);
}
Result<ParameterView> Table::view_piece(const ShardPiece& piece) noexcept {
  if (!state_) return empty_handle("Table", "view_piece");
  return state_->view_piece(piece);
}

std::uint64_t Table::version() const noexcept { return state_ ? state_->version() : 0; }
Pulled Table::pulled() const {
  require_state(state_, "Table", "pulled");
  return control_call("pulled", [&] { return state_->pulled(); });
}
TableStatistics Table::statistics() const {
  require_state(state_, "Table", "statistics");
  return control_call("statistics", [&] { return state_->statistics(); });
}
CompressionStatistics Table::compression() const {
  require_state(state_, "Table", "compression");
  return control_call("compression", [&] { return state_->compression(); });
}
const std::vector<TensorSpec>& Table::specs() const noexcept {
  return state_ ? state_->specs() : nothing<std::vector<TensorSpec>>();
}
const std::vector<ShardPiece>& Table::pieces() const noexcept {
  return state_ ? state_->pieces() : nothing<std::vector<ShardPiece>>();
}
std::string Table::describe() const {
  require_state(state_, "Table", "describe");
  return control_call("describe", [&] { return state_->description().shard_map(); });
}

}  // namespace weft::pslib
