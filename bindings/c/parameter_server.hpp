// Handles of parameter servers and their tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/c/call.hpp"
#include "weft/pslib.hpp"

struct weft_parameter_server {
  weft::c::OpenIn open;
  weft::pslib::ParameterServer server;
  int tables = 0;  ///< handles that must be freed first
};

namespace weft::c {

/// Counts a table as open in its server as long as it lives.
class TableOf {
 public:
  explicit TableOf(weft_parameter_server& server) noexcept : server_(&server) { ++server.tables; }
  ~TableOf() { --server_->tables; }
  TableOf(const TableOf&) = delete;
  TableOf& operator=(const TableOf&) = delete;

 private:
  weft_parameter_server* server_;
};

}  // namespace weft::c

struct weft_table {
  weft::c::OpenIn open;
  weft::c::TableOf of;
  weft::pslib::Table table;
  std::vector<int> contributors{};   ///< as weft_table_pulled told them
  std::vector<std::int64_t> dims{};  ///< as weft_table_tensor_at told them
};

struct weft_sparse_table {
  weft::c::OpenIn open;
  weft::c::TableOf of;
  weft::pslib::SparseTable table;
};

namespace weft::c {

/// Writes a run of a shard map.
void write_piece(const char* operation, weft_shard_piece* to, const pslib::ShardPiece& from);
std::vector<pslib::TensorSpec> specs_of(const char* operation, const weft_table_tensor* tensors,
                                        std::size_t count);

}  // namespace weft::c
