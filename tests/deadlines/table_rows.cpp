// Rows for dense and sparse tables: rank 0 works, rank 1 serves.
#include <array>
#include <thread>

#include "tests/deadlines/row.hpp"
#include "weft/pslib.hpp"
#include "weft/sparse_table.hpp"

namespace weft::tests {
namespace {

using pslib::ParameterServer;
using pslib::SparseTable;
using pslib::Table;

constexpr auto kTableSetUp = std::chrono::seconds(10);
constexpr std::size_t kDim = 16;

struct Model {
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<Table> table;
  std::unique_ptr<SparseTable> rows;
  std::thread serving;

  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() {
    if (serving.joinable()) serving.join();
    table.reset();
    rows.reset();
  }
};

std::unique_ptr<ParameterServer> server_of(Side& side) {
  pslib::Options options;
  options.workers = {0};
  options.servers = {1};
  return std::make_unique<ParameterServer>(side.world, options, side.named("ps"));
}

std::vector<pslib::TensorSpec> specs() { return {{"weights", Shape{4096}}}; }

/// `serves`: rank 1 serves from the beginning; otherwise serving is rank 1's part.
template <typename Call>
Case dense(Side& side, bool serves, const Call& call) {
  auto model = std::make_shared<Model>();
  model->server = server_of(side);
  model->table = std::make_unique<Table>(model->server->table(
      "model", specs(), pslib::Optimizer::sgd(0.1F), Deadline::after(kTableSetUp)));
  if (side.calls()) {
    if (serves) model->table->initialize(Deadline::after(kTableSetUp)).or_throw();
    return {.call = [=](Deadline deadline) { return said(call(*model->table, deadline)); }};
  }
  const auto serve = [model] {
    model->serving = std::thread([model = model.get()] {
      const std::array tables{model->table.get()};
      (void)model->server->serve(tables);
    });
  };
  if (serves) serve();
  return {.part =
              [=] {
                if (!serves) serve();
              },
          .end =
              [=] {
                if (!model->serving.joinable()) serve();
              }};
}

template <typename Call>
Case sparse(Side& side, const Call& call) {
  auto model = std::make_shared<Model>();
  model->server = server_of(side);
  pslib::SparseOptions options;
  options.dim = kDim;
  options.optimizer = pslib::Optimizer::sgd(0.1F);
  model->rows = std::make_unique<SparseTable>(
      model->server->sparse_table("rows", options, Deadline::after(kTableSetUp)));
  if (side.calls())
    return {.call = [=](Deadline deadline) { return said(call(*model->rows, deadline)); }};
  const auto serve = [model] {
    model->serving = std::thread([model = model.get()] {
      const std::array tables{model->rows.get()};
      (void)model->server->serve({}, tables);
    });
  };
  serve();
  return {.end = [model] {}};
}

enum class Way { pointers, names, dense, sparse };

/// Rank 0 serves here, and rank 1 works.
Case serves(Side& side, Way way) {
  auto model = std::make_shared<Model>();
  pslib::Options options;
  options.workers = {1};
  options.servers = {0};
  model->server = std::make_unique<ParameterServer>(side.world, options, side.named("ps"));
  model->table = std::make_unique<Table>(model->server->table(
      "model", specs(), pslib::Optimizer::sgd(0.1F), Deadline::after(kTableSetUp)));
  pslib::SparseOptions rows;
  rows.dim = kDim;
  if (way == Way::sparse)
    model->rows = std::make_unique<SparseTable>(
        model->server->sparse_table("rows", rows, Deadline::after(kTableSetUp)));
  if (!side.calls())
    // It waits for a server that is through after its short deadline.
    return {
        .part = [=] { (void)model->table->initialize(Deadline::after(std::chrono::seconds(1))); },
        .end = [model] {}};
  return {.call = [=](Deadline deadline) {
    ParameterServer& server = *model->server;
    const std::array tables{model->table.get()};
    switch (way) {
      case Way::pointers:
        return said(server.serve(tables, {}, deadline));
      case Way::names:
        return said(server.serve({*model->table}, {}, deadline));
      case Way::dense:
        return said(server.serve(*model->table, deadline));
      case Way::sparse:
        break;
    }
    return said(server.serve(*model->rows, deadline));
  }};
}

Case makes(Side& side, bool is_sparse) {
  auto server = std::shared_ptr<ParameterServer>(server_of(side));
  const auto make = [=](Deadline deadline) {
    return thrown([&] {
      if (is_sparse) {
        pslib::SparseOptions options;
        options.dim = kDim;
        options.optimizer = pslib::Optimizer::sgd(0.1F);
        SparseTable table = server->sparse_table("rows", options, deadline);
      } else {
        Table table = server->table("model", specs(), pslib::Optimizer::sgd(0.1F), deadline);
      }
    });
  };
  if (side.calls()) return {.call = make};
  return {.part = [=] { (void)make(Deadline::after(std::chrono::milliseconds(200))); }};
}

const std::array<std::uint64_t, 2> kIds{3, 5};
const std::array<float, 2 * kDim> kGradients{};

}  // namespace

std::vector<Row> table_rows() {
  using std::size_t;
  return {
      {"Table::initialize",
       [](Side& side) {
         return dense(side, false, [](Table& t, Deadline d) { return t.initialize(d); });
       }},
      {"Table::pull",
       [](Side& side) {
         return dense(side, true, [](Table& t, Deadline d) {
           (void)t.push();
           return t.pull(d);
         });
       }},
      {"Table::push_pull",
       [](Side& side) {
         return dense(side, true, [](Table& t, Deadline d) { return t.push_pull(d); });
       }},
      {"Table::wait_updated",
       [](Side& side) {
         return dense(side, true, [](Table& t, Deadline d) {
           (void)t.push();
           return t.wait_updated(d);
         });
       }},
      {"SparseTable::lookup",
       [](Side& side) {
         return sparse(side, [](SparseTable& t, Deadline d) {
           std::array<float, 2 * kDim> rows{};
           return t.lookup(kIds, rows, d);
         });
       }},
      {"SparseTable::push",
       [](Side& side) {
         return sparse(side, [](SparseTable& t, Deadline d) {
           (void)t.push(kIds, kGradients, d);
           return t.push(kIds, kGradients, d);
         });
       }},
      {"SparseTable::push_lookup",
       [](Side& side) {
         return sparse(side, [](SparseTable& t, Deadline d) {
           std::array<float, 2 * kDim> rows{};
           return t.push_lookup(kIds, kGradients, kIds, rows, d);
         });
       }},
      {"SparseTable::flush",
       [](Side& side) {
         return sparse(side, [](SparseTable& t, Deadline d) {
           (void)t.push(kIds, kGradients, d);
           return t.flush(d);
         });
       }},
      {"ParameterServer::table", [](Side& side) { return makes(side, false); }},
      {"ParameterServer::serve", [](Side& side) { return serves(side, Way::pointers); }},
      {"ParameterServer::serve#2", [](Side& side) { return serves(side, Way::names); }},
      {"ParameterServer::serve#3", [](Side& side) { return serves(side, Way::dense); }},
      {"ParameterServer::serve#4", [](Side& side) { return serves(side, Way::sparse); }},
      {"ParameterServer::sparse_table", [](Side& side) { return makes(side, true); }},
  };
}

}  // namespace weft::tests
