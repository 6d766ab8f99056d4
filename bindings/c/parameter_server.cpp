// Parameter servers, and the shard map.
#include "bindings/c/parameter_server.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/sized.hpp"

using namespace weft::c;

namespace weft::c {

std::vector<pslib::TensorSpec> specs_of(const char* operation, const weft_table_tensor* tensors,
                                        std::size_t count) {
  std::vector<pslib::TensorSpec> specs;
  if (count > 0)
    check_struct_size(operation, "tensors", given(operation, "tensors", tensors).struct_size);
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = read_sized(operation, "tensors", element_at(tensors, i));
    specs.push_back({text_of(operation, "a tensor's name", from.name),
                     shape_of(operation, from.dims, from.ndims)});
  }
  return specs;
}

}  // namespace weft::c

namespace {

constexpr auto kServer = "parameter_server";

std::vector<int> ranks_of(const char* what, const int* ranks, std::size_t count) {
  const auto list = given(kServer, what, ranks, count);
  return {list.begin(), list.end()};
}

weft::pslib::Options options_of(const weft_server_options* given_options) {
  const auto from = read_optional(kServer, "options", given_options);
  weft::pslib::Options to;
  to.workers = ranks_of("options->workers", from.workers, from.worker_count);
  to.servers = ranks_of("options->servers", from.servers, from.server_count);
  to.dedicated_servers = from.dedicated_servers;
  to.one_server_per_host = from.one_server_per_host != 0;
  to.replicas = from.replicas;
  if (from.split_bytes != 0) to.split_bytes = from.split_bytes;
  if (from.metrics_folder != nullptr) to.metrics_folder = from.metrics_folder;
  return to;
}

/// The tables behind the handles.
template <typename Table, typename Handle>
std::vector<Table*> tables_of(Handle* const* handles, std::size_t count) {
  std::vector<Table*> list;
  for (Handle* const handle : given("serve", "tables", handles, count))
    list.push_back(&given("serve", "a table", handle).table);
  return list;
}

}  // namespace

weft_code weft_parameter_server_open(weft_world* world, const weft_group* group,
                                     const weft_server_options* options, const char* name,
                                     weft_parameter_server** server) {
  return guarded([&] {
    auto& self = in_rank(kServer, "world", world);
    auto& out = given(kServer, "server", server);
    auto wanted = options_of(options);
    const std::string called = name == nullptr ? "ps" : name;
    using weft::pslib::ParameterServer;
    out = group == nullptr
              ? new weft_parameter_server{OpenIn(self),
                                          ParameterServer(self.world, std::move(wanted), called)}
              : new weft_parameter_server{OpenIn(self), ParameterServer(self.world, group->group,
                                                                        std::move(wanted), called)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_parameter_server_close(weft_parameter_server* server) {
  return guarded([&] {
    check_closed("parameter_server_close",
                 in_rank("parameter_server_close", "server", server).tables,
                 "tables of this server");
    delete server;
    return WEFT_CODE_OK;
  });
}

weft_code weft_parameter_server_works(const weft_parameter_server* server, int* works) {
  return guarded([&] {
    auto& out = given("works", "works", works);
    out = in_rank("works", "server", server).server.works() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_parameter_server_serves(const weft_parameter_server* server, int* serves) {
  return guarded([&] {
    auto& out = given("serves", "serves", serves);
    out = in_rank("serves", "server", server).server.serves() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_parameter_server_serve(weft_parameter_server* server, weft_table* const* tables,
                                      size_t table_count, weft_sparse_table* const* sparse,
                                      size_t sparse_count, double timeout_seconds) {
  return guarded([&] {
    auto& self = given("serve", "server", server).server;
    const auto dense_list = tables_of<weft::pslib::Table>(tables, table_count);
    const auto sparse_list = tables_of<weft::pslib::SparseTable>(sparse, sparse_count);
    return code_of(self.serve(dense_list, sparse_list, deadline("serve", timeout_seconds)));
  });
}

weft_code weft_shard_map(const weft_table_tensor* tensors, size_t count, const int* servers,
                         size_t server_count, size_t split_bytes, weft_shard_piece* pieces,
                         size_t capacity, size_t* piece_count) {
  return guarded([&] {
    auto& out = given("shard_map", "piece_count", piece_count);
    const auto specs = specs_of("shard_map", tensors, count);
    const auto map = weft::pslib::make_shard_map(
        specs, given("shard_map", "servers", servers, server_count), split_bytes);
    const std::size_t shown = std::min(capacity, map.size());
    if (shown > 0)
      check_struct_size("shard_map", "pieces", given("shard_map", "pieces", pieces).struct_size);
    for (std::size_t i = 0; i < shown; ++i) write_piece("shard_map", element_at(pieces, i), map[i]);
    out = map.size();
    return WEFT_CODE_OK;
  });
}
