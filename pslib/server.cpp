// The parameter server of one job: creates tables, and serves them on ranks that only serve.
#include <fmt/format.h>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "pslib/sparse/table_state.hpp"
#include "pslib/table/entry.hpp"
#include "pslib/table/roles.hpp"
#include "pslib/table/service.hpp"
#include "pslib/table/table_errors.hpp"
#include "pslib/table_state.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

namespace detail {

class ServerState {
 public:
  ServerState(const World& on, const Group& group, const Options& options, std::string name)
      : world(keep(on, "parameter server")),
        roles(world, group, options),
        name(std::move(name)),
        metrics(options.metrics_folder) {
    if (metrics.find('\0') != metrics.npos)
      throw_error(Code::bad_argument, "parameter server", "metrics_folder has a NUL",
                  "name a folder without a NUL");
  }

  bool over() const noexcept { return !weft::over(world, "").ok(); }
  Status refusal(const char* operation) const noexcept { return weft::over(world, operation); }

  World world;
  const Roles roles;
  const std::string name;
  const std::string metrics;
};

}  // namespace detail

/// Adds the table's name to errors of a control call: "out of memory" says little without the name.
template <typename Make>
static decltype(auto) make_table(const char* operation, const std::string& name,
                                 const detail::ServerState& server, Make&& make) {
  try {
    return control_call(operation, std::forward<Make>(make));
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    const std::string prefix = fmt::format("ps/{}{}/{}/", server.name, server.roles.suffix(), name);
    if (detail.slot.starts_with(prefix))
      throw Error(in_words_of_tables(std::move(detail), operation, name, prefix, server.roles));
    if (detail.code != Code::exhausted || detail.message.find(name) != std::string::npos) throw;
    detail.message = fmt::format("table \"{}\": {}", name, detail.message);
    throw Error(std::move(detail));
  }
}

ParameterServer::ParameterServer(World& world, Options options, std::string name)
    : ParameterServer(world, world.group(), std::move(options), std::move(name)) {}

ParameterServer::ParameterServer(World& world, const Group& group, Options options,
                                 std::string name)
    : state_(control_call("parameter server", [&] {
        return std::make_unique<detail::ServerState>(world, group, options, std::move(name));
      })) {}

ParameterServer::ParameterServer(ParameterServer&&) noexcept = default;
ParameterServer::~ParameterServer() = default;

bool ParameterServer::works() const noexcept { return state_ && state_->roles.works(); }
bool ParameterServer::serves() const noexcept { return state_ && state_->roles.serves(); }

Table ParameterServer::table(const std::string& name, std::vector<TensorSpec> specs,
                             const TableOptions& options, Deadline deadline) {
  require_usable(state_, "ParameterServer", "table");
  return make_table("table", name, *state_, [&] {
    return Table(std::make_shared<detail::TableState>(state_->world, state_->roles, state_->name,
                                                      name, std::move(specs), options,
                                                      state_->metrics, deadline));
  });
}

SparseTable ParameterServer::sparse_table(const std::string& name, const SparseOptions& options,
                                          Deadline deadline) {
  require_usable(state_, "ParameterServer", "sparse_table");
  return make_table("sparse_table", name, *state_, [&] {
    return SparseTable(std::make_shared<detail::SparseState>(
        state_->world, state_->roles, state_->name, name, options, state_->metrics, deadline));
  });
}

Status ParameterServer::serve(std::span<Table* const> tables, std::span<SparseTable* const> sparse,
                              Deadline deadline) {
  if (!is_usable(state_)) return unusable(state_, "ParameterServer", "serve");
  return control_call("serve", [&] {
    if (state_->roles.works())
      return Status(bad_argument("serve", "this rank is a worker",
                                 "its shard works inside its own calls of the tables"));
    std::vector<Served> served;
    for (const Table* table : tables) {
      if (table == nullptr || !table->state_) return empty_handle("Table", "serve");
      served.push_back(table->state_->served());
    }
    for (const SparseTable* table : sparse) {
      if (table == nullptr || !table->state_) return empty_handle("SparseTable", "serve");
      served.push_back(table->state_->served());
    }
    return Service(state_->world, state_->roles.group, served).run(deadline);
  });
}

Status ParameterServer::serve(std::initializer_list<std::reference_wrapper<Table>> tables,
                              std::initializer_list<std::reference_wrapper<SparseTable>> sparse,
                              Deadline deadline) {
  return control_call("serve", [&] {
    std::vector<Table*> dense;
    for (Table& table : tables) dense.push_back(&table);
    std::vector<SparseTable*> rows;
    for (SparseTable& table : sparse) rows.push_back(&table);
    return serve(dense, rows, deadline);
  });
}

}  // namespace weft::pslib
