// Dense tables.
#include <algorithm>
#include <string>
#include <utility>

#include "bindings/c/optimizer.hpp"
#include "bindings/c/parameter_server.hpp"
#include "bindings/c/sized.hpp"
#include "bindings/c/tensor.hpp"

namespace weft::c {

void write_piece(const char* operation, weft_shard_piece* to, const pslib::ShardPiece& from) {
  weft_shard_piece piece{};
  piece.tensor = from.tensor;
  piece.first = from.first;
  piece.count = from.count;
  piece.shard_offset = from.shard_offset;
  piece.server = from.server;
  write_sized(operation, "piece", to, piece);
}

}  // namespace weft::c

using namespace weft::c;

namespace {

weft::pslib::TableOptions options_of(const weft_table_options* given_options) {
  const auto from = read_optional("table", "options", given_options);
  weft::pslib::TableOptions to(optimizer_of("table", from.optimizer));
  to.schedule = schedule_of("table", from.schedule);
  to.compression = compression_of("table", from.compression);
  to.consistency = consistency_of("table", from.consistency);
  to.checkpoint = checkpoint_of("table", from.checkpoint);
  to.clip_norm = from.clip_norm;
  if (from.accumulate != 0) to.accumulate = from.accumulate;
  to.wire = wire_of("table", from.wire);
  if (from.place != nullptr) to.memory = memory_in("table", *from.place);
  return to;
}

weft_tensor* handle_of(const weft_table& table, weft::Tensor tensor) {
  const weft_memory memory = memory_of(table.open.world(), tensor);
  return new_tensor(std::move(tensor), memory);
}

weft_code show(const weft::Result<weft::pslib::ParameterView>& view, const void*& data,
               size_t& bytes) {
  if (!view.ok()) return remember(view.status());
  data = view->bytes().data();
  bytes = view->bytes().size();
  return WEFT_CODE_OK;
}

}  // namespace

weft_code weft_table_open(weft_parameter_server* server, const char* name,
                          const weft_table_tensor* tensors, size_t count,
                          const weft_table_options* options, double timeout_seconds,
                          weft_table** table) {
  return guarded([&] {
    auto& self = in_rank("table", "server", server);
    auto& out = given("table", "table", table);
    const auto wanted = options_of(options);
    out = new weft_table{
        OpenIn(self.open.world()), TableOf(self),
        self.server.table(text_of("table", "name", name), specs_of("table", tensors, count), wanted,
                          deadline("table", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_close(weft_table* table) {
  return guarded([&] {
    delete &in_rank("table_close", "table", table);
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_parameter(const weft_table* table, const char* name, weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("parameter", "tensor", tensor);
    const auto& from = in_rank("parameter", "table", table);
    out = handle_of(from, from.table.parameter(text_of("parameter", "name", name)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_gradient(const weft_table* table, const char* name, weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("gradient", "tensor", tensor);
    const auto& from = in_rank("gradient", "table", table);
    out = handle_of(from, from.table.gradient(text_of("gradient", "name", name)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_initialize(weft_table* table, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("initialize", "table", table).table;
    return code_of(self.initialize(deadline("initialize", timeout_seconds)));
  });
}

weft_code weft_table_push(weft_table* table) {
  return guarded([&] { return code_of(in_rank("push", "table", table).table.push()); });
}

weft_code weft_table_pull(weft_table* table, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("pull", "table", table).table;
    return code_of(self.pull(deadline("pull", timeout_seconds)));
  });
}

weft_code weft_table_push_pull(weft_table* table, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("push_pull", "table", table).table;
    return code_of(self.push_pull(deadline("push_pull", timeout_seconds)));
  });
}

weft_code weft_table_wait_updated(weft_table* table, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("wait_updated", "table", table).table;
    return code_of(self.wait_updated(deadline("wait_updated", timeout_seconds)));
  });
}

weft_code weft_table_view(weft_table* table, const char* name, const void** data, size_t* bytes) {
  return guarded([&] {
    auto& to = given("view", "data", data);
    auto& size = given("view", "bytes", bytes);
    auto& self = in_rank("view", "table", table).table;
    return show(self.view(text_of("view", "name", name)), to, size);
  });
}

weft_code weft_table_view_piece(weft_table* table, size_t piece, const void** data, size_t* bytes) {
  return guarded([&] {
    auto& to = given("view", "data", data);
    auto& size = given("view", "bytes", bytes);
    auto& self = in_rank("view", "table", table).table;
    check_index("view", piece, self.pieces().size());
    return show(self.view_piece(self.pieces()[piece]), to, size);
  });
}

weft_code weft_table_version(const weft_table* table, uint64_t* version) {
  return guarded([&] {
    auto& out = given("version", "version", version);
    out = in_rank("version", "table", table).table.version();
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_pulled(weft_table* table, uint64_t* version, const int** contributors,
                            size_t* count) {
  return guarded([&] {
    auto& number = given("pulled", "version", version);
    auto& ranks = given("pulled", "contributors", contributors);
    auto& size = given("pulled", "count", count);
    auto& self = in_rank("pulled", "table", table);
    auto pulled = self.table.pulled();
    self.contributors = std::move(pulled.contributors);
    number = pulled.version;
    ranks = self.contributors.data();
    size = self.contributors.size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_describe(const weft_table* table, char** text) {
  return guarded([&] {
    auto& out = given("describe", "text", text);
    out = new_text(in_rank("describe", "table", table).table.describe());
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_tensors(const weft_table* table, size_t* count) {
  return guarded([&] {
    auto& out = given("tensors", "count", count);
    out = in_rank("tensors", "table", table).table.specs().size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_tensor_at(weft_table* table, size_t index, weft_table_tensor* tensor) {
  return guarded([&] {
    auto& self = in_rank("tensor_at", "table", table);
    check_index("tensor_at", index, self.table.specs().size());
    const auto& spec = self.table.specs()[index];
    self.dims.clear();
    for (std::size_t i = 0; i < spec.shape.dims(); ++i) self.dims.push_back(spec.shape[i]);
    write_sized("tensor_at", "tensor", tensor,
                weft_table_tensor{0, spec.name.c_str(), self.dims.data(), self.dims.size()});
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_pieces(const weft_table* table, size_t* count) {
  return guarded([&] {
    auto& out = given("pieces", "count", count);
    out = in_rank("pieces", "table", table).table.pieces().size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_piece_at(const weft_table* table, size_t index, weft_shard_piece* piece) {
  return guarded([&] {
    const auto& self = in_rank("piece_at", "table", table).table;
    check_index("piece_at", index, self.pieces().size());
    write_piece("piece_at", piece, self.pieces()[index]);
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_get_statistics(const weft_table* table, weft_table_statistics* statistics) {
  return guarded([&] {
    const auto from = in_rank("statistics", "table", table).table.statistics();
    weft_table_statistics known{};
    known.applied = from.applied;
    known.folded = from.folded;
    known.dropped = from.dropped;
    known.skipped = from.skipped;
    static_assert(sizeof known.staleness == sizeof from.staleness);
    std::copy(from.staleness.begin(), from.staleness.end(), known.staleness);
    write_sized("statistics", "statistics", statistics, known);
    return WEFT_CODE_OK;
  });
}

weft_code weft_table_get_compression(const weft_table* table,
                                     weft_compression_statistics* statistics) {
  return guarded([&] {
    const auto from = in_rank("compression", "table", table).table.compression();
    write_sized(
        "compression", "statistics", statistics,
        weft_compression_statistics{0, from.bytes_spared, from.nanoseconds, from.residual_norm});
    return WEFT_CODE_OK;
  });
}
