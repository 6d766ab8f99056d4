// The public Table: forwards to TableState.
#include "base/control_call.hpp"
#include "pslib/table_state.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

Table::Table(std::shared_ptr<detail::TableState> state) noexcept : state_(std::move(state)) {}
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;

Tensor Table::parameter(const std::string& name) const {
  return control_call("parameter", [&] { return state_->parameter(name); });
}
Tensor Table::gradient(const std::string& name) const {
  return control_call("gradient", [&] { return state_->gradient(name); });
}

Status Table::initialize(Deadline deadline) noexcept { return state_->initialize(deadline); }
Status Table::push() noexcept { return state_->push(); }
Status Table::pull(Deadline deadline) noexcept { return state_->pull(deadline); }

Status Table::push_pull(Deadline deadline) noexcept { return state_->push_pull(deadline); }

Status Table::wait_updated(Deadline deadline) noexcept { return state_->wait_updated(deadline); }

Result<ParameterView> Table::view(const std::string& name) noexcept { return state_->view(name); }
Result<ParameterView> Table::view_piece(const ShardPiece& piece) noexcept {
  return state_->view_piece(piece);
}

std::uint64_t Table::version() const noexcept { return state_->version(); }
Pulled Table::pulled() const {
  return control_call("pulled", [&] { return state_->pulled(); });
}
TableStatistics Table::statistics() const {
  return control_call("statistics", [&] { return state_->statistics(); });
}
CompressionStatistics Table::compression() const {
  return control_call("compression", [&] { return state_->compression(); });
}
const std::vector<TensorSpec>& Table::specs() const noexcept { return state_->specs(); }
const std::vector<ShardPiece>& Table::pieces() const noexcept { return state_->pieces(); }
std::string Table::describe() const {
  return control_call("describe", [&] { return state_->description().shard_map(); });
}

}  // namespace weft::pslib
