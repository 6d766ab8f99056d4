/* The parameter server from C: dense and sparse tables, the caller's rule, servers that only serve.
 */
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 1000, kSteps = 4 };

static const int64_t kDims[2] = {10, 100};
static const weft_table_tensor kTensors[2] = {
    {.struct_size = sizeof kTensors[0], .name = "weights", .dims = kDims, .ndims = 2},
    {.struct_size = sizeof kTensors[0], .name = "bias", .dims = NULL, .ndims = 0}};

static weft_optimizer sgd(float learning_rate) {
  weft_optimizer optimizer = {.struct_size = sizeof optimizer};
  require(weft_optimizer_defaults(WEFT_OPTIMIZER_SGD, &optimizer), "defaults");
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

/* The memory of the parameters, which the table keeps. */
static float* parameters_of(const weft_table* table) {
  weft_tensor* tensor = NULL;
  float* data = NULL;
  require(weft_table_parameter(table, "weights", &tensor), "parameter");
  data = floats_of(tensor);
  require(weft_tensor_free(tensor), "free");
  return data;
}

static void fill_gradients(const weft_table* table, float value) {
  weft_tensor *weights = NULL, *bias = NULL;
  require(weft_table_gradient(table, "weights", &weights), "gradient");
  require(weft_table_gradient(table, "bias", &bias), "gradient");
  for (int i = 0; i < kFloats; ++i) floats_of(weights)[i] = value;
  floats_of(bias)[0] = value;
  require(weft_tensor_free(weights), "free");
  require(weft_tensor_free(bias), "free");
}

static void check_defaults(void) {
  weft_optimizer optimizer = {.struct_size = sizeof optimizer};
  weft_schedule schedule = {
      .struct_size = sizeof schedule, .kind = WEFT_SCHEDULE_LINEAR, .warmup = 2, .period = 10};
  double factor = 9;
  require(weft_optimizer_defaults(WEFT_OPTIMIZER_ADAM, &optimizer), "adam");
  expect(optimizer.kind == WEFT_OPTIMIZER_ADAM && optimizer.beta2 == 0.999F &&
             optimizer.epsilon == 1e-8F && optimizer.momentum == 0.9F && optimizer.rule == NULL,
         "adam's defaults");
  require(weft_optimizer_defaults(WEFT_OPTIMIZER_ADAGRAD, &optimizer), "adagrad");
  expect(optimizer.epsilon == 1e-10F, "adagrad's own epsilon");
  expect(weft_optimizer_defaults((weft_optimizer_kind)10, &optimizer) == WEFT_CODE_BAD_ARGUMENT,
         "no such kind");
  require(weft_schedule_factor(&schedule, 1, &factor), "factor");
  expect(factor == 0.5, "the first update of a warm-up of two");
  require(weft_schedule_factor(&schedule, 1000, &factor), "factor");
  expect(factor == 0, "after the period, the floor");
}

static void check_map(weft_table* table, int size) {
  weft_table_tensor tensor = {.struct_size = sizeof tensor};
  weft_shard_piece piece = {.struct_size = sizeof piece}, first = {.struct_size = sizeof first};
  size_t tensors = 0, pieces = 0, count = 0;
  int servers[8];
  char* text = NULL;
  for (int r = 0; r < size; ++r) servers[r] = r;
  require(weft_table_tensors(table, &tensors), "tensors");
  require(weft_table_tensor_at(table, 0, &tensor), "the first");
  expect(tensors == 2 && strcmp(tensor.name, "weights") == 0 && tensor.ndims == 2 &&
             tensor.dims[1] == 100,
         "a table knows its tensors");
  expect(weft_table_tensor_at(table, 2, &tensor) == WEFT_CODE_BAD_ARGUMENT, "there is no third");
  require(weft_table_pieces(table, &pieces), "pieces");
  require(weft_table_piece_at(table, 0, &piece), "the first");
  require(weft_shard_map(kTensors, 2, servers, (size_t)size, 64 << 10, &first, 1, &count), "map");
  expect(count == pieces && piece.tensor == first.tensor && piece.server == first.server &&
             piece.first == first.first && piece.count == first.count && piece.count > 0,
         "the map is that of the same tensors and servers");
  require(weft_table_describe(table, &text), "describe");
  expect(text[0] != '\0', "the map for people");
  weft_text_free(text);
}

static void check_views(weft_table* table, float expected) {
  const void* data = NULL;
  size_t bytes = 0, pieces = 0;
  require(weft_table_view(table, "bias", &data, &bytes), "view");
  expect(bytes == sizeof(float) && ((const float*)data)[0] == expected, "a view in place");
  require(weft_table_pieces(table, &pieces), "pieces");
  require(weft_table_view_piece(table, pieces - 1, &data, &bytes), "view a piece");
  expect(bytes > 0 && data != NULL, "a piece in place");
  expect(weft_table_view_piece(table, pieces, &data, &bytes) == WEFT_CODE_BAD_ARGUMENT, "no more");
  expect(weft_table_view(table, "nothing", &data, &bytes) == WEFT_CODE_BAD_ARGUMENT,
         "no such name");
}

/* p -= lr g, and every element counts its updates in a state. */
static void own_rule(void* context, const weft_rule_step* step, float* parameters,
                     const float* gradient, float* const* states, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    parameters[i] -= step->learning_rate * gradient[i];
    states[0][i] += 1;
    if (states[0][i] != (float)step->update || states[1] != NULL) ++*(int*)context;
  }
}

static int rules_unused[8];
static void count_unused(void* context) { ++*(int*)context; }

/* Steps of a table that all ranks work on and serve: w = first - 0.5 step. */
static weft_table* train(weft_parameter_server* server, const char* name,
                         const weft_table_options* options, int rank, int size) {
  weft_table* table = NULL;
  weft_table_statistics statistics = {.struct_size = sizeof statistics};
  weft_compression_statistics compressed = {.struct_size = sizeof compressed};
  const int* contributors = NULL;
  uint64_t version = 0;
  size_t count = 0;
  require(weft_table_open(server, name, kTensors, 2, options, kSeconds, &table), "table");
  for (int i = 0; rank == 0 && i < kFloats; ++i) parameters_of(table)[i] = (float)i;
  require(weft_table_initialize(table, kSeconds), "initialize");
  check_map(table, size);
  for (int n = 1; n <= kSteps; ++n) {
    fill_gradients(table, 1);
    if (n == 1) require(weft_table_push_pull(table, kSeconds), "push and pull");
    if (n > 1) require(weft_table_push(table), "push");
    if (n > 1 && n < kSteps) require(weft_table_pull(table, kSeconds), "pull");
  }
  require(weft_table_wait_updated(table, kSeconds), "wait for the update");
  check_views(table, -0.5F * kSteps);
  require(weft_table_version(table, &version), "version");
  expect(version == kSteps, "each step is an update");
  require(weft_table_pulled(table, &version, &contributors, &count), "pulled");
  expect(version == kSteps && count == (size_t)size && contributors[size - 1] == size - 1,
         "all ranks made the last version");
  require(weft_table_get_statistics(table, &statistics), "statistics");
  expect(statistics.skipped == 0 && statistics.dropped == 0, "nothing was dropped");
  require(weft_table_get_compression(table, &compressed), "compression");
  expect(compressed.bytes_spared == 0 && compressed.residual_norm == 0, "nothing is compressed");
  fill_gradients(table, 0);
  require(weft_table_push_pull(table, kSeconds), "a last step");
  expect_floats(parameters_of(table), kFloats, -0.5F * kSteps, "parameters of all steps");
  expect_error(weft_parameter_server_close(server), WEFT_CODE_BAD_ARGUMENT, "tables of this server",
               "a server is not closed before its tables");
  return table;
}

static void check_dense(weft_parameter_server* server, int rank, int size, weft_table** tables) {
  static int wrong_of[8];
  int* const wrong = &wrong_of[rank];
  weft_optimizer optimizer = sgd(0.5F);
  weft_rule rule = {.struct_size = sizeof rule,
                    .text = "counting sgd",
                    .states = 1,
                    .apply = own_rule,
                    .unused = NULL};
  weft_table_options options = {.struct_size = sizeof options, .optimizer = &optimizer};
  weft_table* table = NULL;
  tables[0] = train(server, "sgd", &options, rank, size);
  optimizer.kind = WEFT_OPTIMIZER_USER;
  optimizer.rule = &rule;
  rule.context = wrong;
  tables[1] = train(server, "own rule", &options, rank, size);
  expect(*wrong == 0, "the caller's rule has its states and steps");
  rule.states = 3;
  rule.context = &rules_unused[rank];
  rule.unused = count_unused;
  expect_error(weft_table_open(server, "states", kTensors, 2, &options, kSeconds, &table),
               WEFT_CODE_BAD_ARGUMENT, "at most 2", "a rule with three states is refused");
  rule.states = 0;
  options.accumulate = 2;
  options.wire = WEFT_DTYPE_I32;
  expect(weft_table_open(server, "wire", kTensors, 2, &options, kSeconds, &table) ==
             WEFT_CODE_BAD_ARGUMENT,
         "integers are no gradients");
  expect(rules_unused[rank] == 1, "a rule that no table took is told");
}

static weft_sparse_table* check_sparse(weft_parameter_server* server, int rank, int size) {
  weft_optimizer optimizer = sgd(1);
  weft_sparse_options options = {
      .struct_size = sizeof options, .dim = 4, .optimizer = &optimizer, .start_from_zeros = 1};
  weft_sparse_statistics statistics = {.struct_size = sizeof statistics};
  weft_sparse_table* table = NULL;
  const uint64_t ids[3] = {7, 1ULL << 60, 7};
  float rows[12], gradients[12];
  uint64_t version = 0;
  size_t dim = 0;
  int holder = -1;
  require(weft_sparse_table_open(server, "rows", &options, kSeconds, &table), "sparse table");
  require(weft_sparse_table_lookup(table, ids, 3, rows, kSeconds), "lookup");
  expect(rows[0] == 0 && rows[11] == 0, "rows start as zeros");
  for (int i = 0; i < 12; ++i) gradients[i] = 1;
  require(weft_sparse_table_push_lookup(table, ids, 3, gradients, ids, 3, rows, kSeconds),
          "push and look up");
  expect(rows[0] == -2 && rows[4] == -1 && rows[8] == -2, "gradients of one id are added");
  require(weft_sparse_table_push(table, ids, 3, gradients, kSeconds), "push");
  require(weft_sparse_table_flush(table, kSeconds), "flush");
  require(weft_sparse_table_lookup(table, NULL, 0, NULL, kSeconds), "look up nothing");
  require(weft_sparse_table_version(table, &version), "version");
  require(weft_sparse_table_dim(table, &dim), "dim");
  require(weft_sparse_table_server_of(table, 7, &holder), "server of a row");
  expect(version == 2 && dim == 4 && holder >= 0 && holder < size, "the table's numbers");
  require(weft_sparse_table_get_statistics(table, &statistics), "statistics");
  expect(holder != rank || statistics.looked_up > 0, "the shard of the row has counted");
  return table;
}

/* The last rank only serves; the others work, as gradients come, with few bits. */
static void check_dedicated(weft_world* world, int rank, int size) {
  const weft_server_options deployment = {.struct_size = sizeof deployment, .dedicated_servers = 1};
  const weft_optimizer optimizer = sgd(0.25F);
  const weft_compression int8 = {.struct_size = sizeof int8, .kind = WEFT_COMPRESSION_INT8};
  const weft_consistency async = {.struct_size = sizeof async, .kind = WEFT_CONSISTENCY_ASYNC};
  const weft_table_options options = {.struct_size = sizeof options,
                                      .optimizer = &optimizer,
                                      .compression = &int8,
                                      .consistency = &async};
  weft_parameter_server* server = NULL;
  weft_table* table = NULL;
  weft_tensor* held = NULL;
  weft_compression_statistics compressed = {.struct_size = sizeof compressed};
  int works = -1, serves = -1;
  require(weft_parameter_server_open(world, NULL, &deployment, "dedicated", &server), "server");
  require(weft_parameter_server_works(server, &works), "works");
  require(weft_parameter_server_serves(server, &serves), "serves");
  expect(works == (rank < size - 1) && serves == (rank == size - 1), "who works and who serves");
  require(weft_table_open(server, "async", kTensors, 2, &options, kSeconds, &table), "table");
  if (serves) {
    require(weft_parameter_server_serve(server, &table, 1, NULL, 0, -1), "serve");
    expect(weft_table_parameter(table, "weights", &held) == WEFT_CODE_BAD_ARGUMENT,
           "a server has no parameters to work with");
  } else {
    require(weft_table_initialize(table, kSeconds), "initialize");
    fill_gradients(table, 1);
    require(weft_table_push_pull(table, kSeconds), "step");
    expect(parameters_of(table)[0] < 0, "the step was done");
    require(weft_table_get_compression(table, &compressed), "compression");
    expect(compressed.bytes_spared > 0, "bytes were spared");
  }
  require(weft_table_close(table), "close");
  require(weft_parameter_server_close(server), "close");
}

/* A table that is saved after each step, then one that goes on from there. */
static void check_checkpoints(weft_world* world, weft_parameter_server* server, int rank) {
  weft_collectives* all = NULL;
  const weft_call barrier = {.struct_size = sizeof barrier};
  const weft_optimizer optimizer = sgd(1);
  char folder[kFolderName];
  weft_checkpoint_options saved = {
      .struct_size = sizeof saved, .folder = folder, .every = 1, .keep = WEFT_KEEP_ALL};
  const weft_table_options options = {
      .struct_size = sizeof options, .optimizer = &optimizer, .checkpoint = &saved};
  weft_table* table = NULL;
  uint64_t version = 99;
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open");
  make_shared_folder(world, rank, folder);
  for (int life = 0; life < 3; ++life) {
    saved.no_restore = life == 2;
    saved.every = life < 2;
    require(weft_table_open(server, "saved", kTensors, 2, &options, kSeconds, &table), "table");
    require(weft_table_initialize(table, kSeconds), "initialize");
    require(weft_table_version(table, &version), "version");
    expect(version == (life == 1 ? 1 : 0), "a table goes on from its checkpoint, if it may");
    if (life == 0) fill_gradients(table, 1);
    if (life == 0) require(weft_table_push_pull(table, kSeconds), "step");
    expect(parameters_of(table)[0] == (life < 2 ? -1 : 0), "with its parameters");
    require(weft_collectives_run(all, &barrier, kSeconds), "all have pulled");
    require(weft_table_close(table), "close");
    require(weft_collectives_run(all, &barrier, kSeconds), "all have closed");
  }
  require(weft_collectives_close(all), "close");
  if (rank == 0) remove_folder(folder);
}

static void body(weft_world* world, int rank, int size) {
  weft_group* group = NULL;
  weft_parameter_server* server = NULL;
  weft_table* tables[2] = {NULL, NULL};
  weft_sparse_table* rows = NULL;
  check_defaults();
  require(weft_world_group(world, &group), "group");
  require(weft_parameter_server_open(world, group, NULL, NULL, &server), "server");
  require(weft_group_free(group), "free");
  check_dense(server, rank, size, tables);
  rows = check_sparse(server, rank, size);
  check_checkpoints(world, server, rank);
  if (size > 1) check_dedicated(world, rank, size);
  require(weft_world_leave(world, kSeconds), "leave before the tables go");
  require(weft_table_close(tables[0]), "close");
  require(weft_table_close(tables[1]), "close");
  require(weft_sparse_table_close(rows), "close");
  require(weft_parameter_server_close(server), "close");
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
