// Sparse tables.
#include <cstddef>
#include <span>

#include "bindings/c/optimizer.hpp"
#include "bindings/c/parameter_server.hpp"
#include "bindings/c/sized.hpp"

using namespace weft::c;

namespace {

weft::pslib::SparseOptions options_of(const weft_sparse_options* given_options) {
  const auto from = read_sized("sparse_table", "options", given_options);
  weft::pslib::SparseOptions to;
  to.dim = from.dim;
  to.optimizer = optimizer_of("sparse_table", from.optimizer);
  to.schedule = schedule_of("sparse_table", from.schedule);
  to.consistency = consistency_of("sparse_table", from.consistency);
  to.checkpoint = checkpoint_of("sparse_table", from.checkpoint);
  to.wire = wire_of("sparse_table", from.wire);
  to.seed = from.seed;
  if (from.spread != 0) to.spread = from.spread;
  if (from.start_from_zeros != 0) to.spread = 0;
  to.admit_after = from.admit_after;
  to.expire_after = from.expire_after;
  if (from.request_rows != 0) to.request_rows = from.request_rows;
  return to;
}

/// The elements of `count` rows of the table.
template <typename Element>
std::span<Element> rows_of(const char* operation, const char* what, Element* first,
                           std::size_t count, const weft_sparse_table& table) {
  return given(operation, what, first, count * table.table.dim());
}

}  // namespace

weft_code weft_sparse_table_open(weft_parameter_server* server, const char* name,
                                 const weft_sparse_options* options, double timeout_seconds,
                                 weft_sparse_table** table) {
  return guarded([&] {
    auto& self = in_rank("sparse_table", "server", server);
    auto& out = given("sparse_table", "table", table);
    const auto wanted = options_of(options);
    out = new weft_sparse_table{
        OpenIn(self.open.world()), TableOf(self),
        self.server.sparse_table(text_of("sparse_table", "name", name), wanted,
                                 deadline("sparse_table", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_sparse_table_close(weft_sparse_table* table) {
  return guarded([&] {
    delete &in_rank("sparse_table_close", "table", table);
    return WEFT_CODE_OK;
  });
}

weft_code weft_sparse_table_lookup(weft_sparse_table* table, const uint64_t* ids, size_t count,
                                   float* rows, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("lookup", "table", table);
    return code_of(self.table.lookup(given("lookup", "ids", ids, count),
                                     rows_of("lookup", "rows", rows, count, self),
                                     deadline("lookup", timeout_seconds)));
  });
}

weft_code weft_sparse_table_push(weft_sparse_table* table, const uint64_t* ids, size_t count,
                                 const float* gradients, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("push", "table", table);
    return code_of(self.table.push(given("push", "ids", ids, count),
                                   rows_of("push", "gradients", gradients, count, self),
                                   deadline("push", timeout_seconds)));
  });
}

weft_code weft_sparse_table_push_lookup(weft_sparse_table* table, const uint64_t* pushed,
                                        size_t pushed_count, const float* gradients,
                                        const uint64_t* ids, size_t count, float* rows,
                                        double timeout_seconds) {
  constexpr auto kOperation = "push_lookup";
  return guarded([&] {
    auto& self = in_rank(kOperation, "table", table);
    return code_of(self.table.push_lookup(
        given(kOperation, "pushed", pushed, pushed_count),
        rows_of(kOperation, "gradients", gradients, pushed_count, self),
        given(kOperation, "ids", ids, count), rows_of(kOperation, "rows", rows, count, self),
        deadline(kOperation, timeout_seconds)));
  });
}

weft_code weft_sparse_table_flush(weft_sparse_table* table, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("flush", "table", table).table;
    return code_of(self.flush(deadline("flush", timeout_seconds)));
  });
}

weft_code weft_sparse_table_dim(const weft_sparse_table* table, size_t* dim) {
  return guarded([&] {
    auto& out = given("dim", "dim", dim);
    out = in_rank("dim", "table", table).table.dim();
    return WEFT_CODE_OK;
  });
}

weft_code weft_sparse_table_version(const weft_sparse_table* table, uint64_t* version) {
  return guarded([&] {
    auto& out = given("version", "version", version);
    out = in_rank("version", "table", table).table.version();
    return WEFT_CODE_OK;
  });
}

weft_code weft_sparse_table_server_of(const weft_sparse_table* table, uint64_t id, int* server) {
  return guarded([&] {
    auto& out = given("server_of", "server", server);
    out = in_rank("server_of", "table", table).table.server_of(id);
    return WEFT_CODE_OK;
  });
}

weft_code weft_sparse_table_get_statistics(const weft_sparse_table* table,
                                           weft_sparse_statistics* statistics) {
  return guarded([&] {
    const auto from = in_rank("statistics", "table", table).table.statistics();
    write_sized("statistics", "statistics", statistics,
                weft_sparse_statistics{0, from.rows, from.bytes, from.requests, from.looked_up,
                                       from.updated, from.not_admitted});
    return WEFT_CODE_OK;
  });
}
