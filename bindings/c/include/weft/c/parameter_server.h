/* The parameter server: a model's parameters in dense and sparse tables, spread over server shards,
 * updated by workers. weft/pslib.hpp and weft/sparse_table.hpp have the contracts. */
#ifndef WEFT_C_PARAMETER_SERVER_H
#define WEFT_C_PARAMETER_SERVER_H

#include "weft/c/optimizer.h"
#include "weft/c/tensor.h"

WEFT_C_BEGIN

typedef struct weft_parameter_server
    weft_parameter_server;                          /* freed by weft_parameter_server_close */
typedef struct weft_table weft_table;               /* freed by weft_table_close */
typedef struct weft_sparse_table weft_sparse_table; /* freed by weft_sparse_table_close */

/* Which ranks work and which serve. If no field says so, WEFT_PS_SERVERS decides; by default every
 * rank does both. */
typedef struct weft_server_options {
  size_t struct_size;
  const int* workers; /* ranks of the world (with a group: places); NULL: every rank */
  size_t worker_count;
  const int* servers; /* the same */
  size_t server_count;
  size_t split_bytes; /* tensors of at least this size are split over the shards; 0: 64 KiB */
  const char* metrics_folder; /* each rank keeps a file per table for Prometheus; NULL: none */
  int dedicated_servers;      /* above 0: the highest ranks only serve, the others only work */
  int one_server_per_host;    /* 1: on every host with several ranks the highest only serves */
  int replicas;               /* servers that hold each shard; 0: WEFT_PS_REPLICAS */
  int reserved;
} weft_server_options;

/* Among all ranks of the world, or the members of `group` unless that is NULL, all of which create
 * it with equal arguments. `options` may be NULL, and `name` too: "ps". */
weft_code weft_parameter_server_open(weft_world* world, const weft_group* group,
                                     const weft_server_options* options, const char* name,
                                     weft_parameter_server** server);
/* Refused while a table of the server is open. */
weft_code weft_parameter_server_close(weft_parameter_server* server);
/* 1 if this rank is a worker. */
weft_code weft_parameter_server_works(const weft_parameter_server* server, int* works);
/* 1 if this rank holds shards. */
weft_code weft_parameter_server_serves(const weft_parameter_server* server, int* serves);
/* For a rank that only serves: works on the tables until every worker has closed them. With a
 * negative timeout it waits as long as that takes. */
weft_code weft_parameter_server_serve(weft_parameter_server* server, weft_table* const* tables,
                                      size_t table_count, weft_sparse_table* const* sparse,
                                      size_t sparse_count, double timeout_seconds);

/* One named tensor of a table, in the table's wire type. Arrays of it have `struct_size` set in
 * each element, to the same size. */
typedef struct weft_table_tensor {
  size_t struct_size;
  const char* name;
  const int64_t* dims;
  size_t ndims;
} weft_table_tensor;

/* How a dense table is updated. NULL stands for the defaults. */
typedef struct weft_table_options {
  size_t struct_size;
  const weft_optimizer* optimizer;
  const weft_schedule* schedule;
  const weft_compression* compression;
  const weft_consistency* consistency;
  const weft_checkpoint_options* checkpoint;
  float clip_norm;     /* above 0: the largest norm of a mean gradient over the whole table */
  uint32_t accumulate; /* pushes per update; 0: 1 */
  weft_dtype wire;     /* type of gradients and parameters at the workers: WEFT_DTYPE_F32 (0 stands
                        * for it), WEFT_DTYPE_F16 or WEFT_DTYPE_BF16 */
  int reserved;
  const int* place; /* of this worker's parameters and gradients: a GPU's number or WEFT_PLACE_*;
                     * NULL: in host memory. Each worker's own; NULL on ranks that only serve */
} weft_table_options;

/* Creates a dense table of `count` tensors. Every member calls it with the same arguments, the
 * place excepted, and in the same order. `options` may be NULL. */
weft_code weft_table_open(weft_parameter_server* server, const char* name,
                          const weft_table_tensor* tensors, size_t count,
                          const weft_table_options* options, double timeout_seconds,
                          weft_table** table);
/* Frees the table. Only when the other ranks have pulled what they need from its shard, which
 * weft_world_leave ensures: call that first. */
weft_code weft_table_close(weft_table* table);
/* Worker: the tensor of the parameters, for the next forward pass; for the first worker also of the
 * first values. Valid until the table is closed, as the next. */
weft_code weft_table_parameter(const weft_table* table, const char* name, weft_tensor** tensor);
/* Worker: the tensor to write the gradient for the next push into. Not to be touched between push
 * and the end of the pull. */
weft_code weft_table_gradient(const weft_table* table, const char* name, weft_tensor** tensor);
/* Every rank calls it once, before the first step. The first worker's values, or a checkpoint's,
 * become the shards' and every worker's. After an error the next call resumes, and pushes are
 * refused until one has succeeded. */
weft_code weft_table_initialize(weft_table* table, double timeout_seconds);
/* Worker: makes the gradients visible to the shards. Does not wait, but for a GPU, which copies
 * them to host memory first, within WEFT_TIMEOUT; after an error of that push again. */
weft_code weft_table_push(weft_table* table);
/* Worker: waits for the parameters that result from the last push. After a timeout the next call
 * resumes. */
weft_code weft_table_pull(weft_table* table, double timeout_seconds);
weft_code weft_table_push_pull(weft_table* table, double timeout_seconds);
/* Worker: as weft_table_pull, but leaves the parameters on the shards, for weft_table_view. Both
 * are WEFT_CODE_BAD_ARGUMENT where this worker's parameters lie on a GPU. */
weft_code weft_table_wait_updated(weft_table* table, double timeout_seconds);
/* Worker: a tensor's parameters in place, in the wire type; after a pull those of
 * weft_table_parameter. Valid until this worker's next push. WEFT_CODE_BAD_ARGUMENT for a tensor
 * that is split over shards. */
weft_code weft_table_view(weft_table* table, const char* name, const void** data, size_t* bytes);
/* The same for run number `piece` of the shard map. */
weft_code weft_table_view_piece(weft_table* table, size_t piece, const void** data, size_t* bytes);
/* The number of updates done; worker: the version of the values last pulled. */
weft_code weft_table_version(const weft_table* table, uint64_t* version);
/* Worker: the last pull's smallest version of all shards, and the ranks whose gradients made it, in
 * rank order. The ranks stay valid until the next call. */
weft_code weft_table_pulled(weft_table* table, uint64_t* version, const int** contributors,
                            size_t* count);
/* The shard map for people: one line per server. */
weft_code weft_table_describe(const weft_table* table, char** text);
/* The number of tensors, and the n-th as given at creation; its pointers are valid until the table
 * is closed or this is called again. */
weft_code weft_table_tensors(const weft_table* table, size_t* count);
weft_code weft_table_tensor_at(weft_table* table, size_t index, weft_table_tensor* tensor);

/* A run of a tensor's elements on one shard. */
typedef struct weft_shard_piece {
  size_t struct_size;
  size_t tensor;        /* index into the table's tensors */
  int64_t first;        /* index of the first element, row-major */
  int64_t count;        /* number of elements */
  int64_t shard_offset; /* offset in the shard's region, in elements */
  int server;           /* rank of the shard */
  int reserved;
} weft_shard_piece;

/* The number of runs of the shard map, and the n-th. */
weft_code weft_table_pieces(const weft_table* table, size_t* count);
weft_code weft_table_piece_at(const weft_table* table, size_t index, weft_shard_piece* piece);
/* Computes the shard map of `count` tensors over servers: the first `capacity` runs of it, whose
 * struct_size is set, and their number `piece_count`. `pieces` may be NULL if `capacity` is 0. */
weft_code weft_shard_map(const weft_table_tensor* tensors, size_t count, const int* servers,
                         size_t server_count, size_t split_bytes, weft_shard_piece* pieces,
                         size_t capacity, size_t* piece_count);

/* Counters of this rank's shard. */
typedef struct weft_table_statistics {
  size_t struct_size;
  uint64_t applied;       /* gradients used in the update of their step */
  uint64_t folded;        /* late gradients used in a later update */
  uint64_t dropped;       /* late gradients not used */
  uint64_t skipped;       /* updates not made because their norm was not finite */
  uint64_t staleness[64]; /* gradients from values that were i versions old; the last: or older */
} weft_table_statistics;
weft_code weft_table_get_statistics(const weft_table* table, weft_table_statistics* statistics);

/* A worker's compression of one table: its savings and its cost. */
typedef struct weft_compression_statistics {
  size_t struct_size;
  uint64_t bytes_spared;
  uint64_t nanoseconds;
  double residual_norm; /* Euclidean norm of the residual after the last push */
} weft_compression_statistics;
weft_code weft_table_get_compression(const weft_table* table,
                                     weft_compression_statistics* statistics);

/* How a sparse table's rows are made, updated and stored. NULL stands for the defaults. */
typedef struct weft_sparse_options {
  size_t struct_size;
  size_t dim; /* floats per row */
  const weft_optimizer* optimizer;
  const weft_schedule* schedule;
  const weft_consistency* consistency;
  const weft_checkpoint_options* checkpoint;
  uint64_t seed;
  uint64_t expire_after; /* reset a row that was unused for more updates; 0: never */
  size_t request_rows;   /* most distinct rows per request to one server; 0: 4096 */
  uint32_t admit_after;  /* store a row once it was looked up so often; 0: at its first update */
  weft_dtype wire;       /* as weft_table_options.wire */
  float spread;          /* first values are uniform in [-spread, spread); 0: 0.01 */
  int start_from_zeros;  /* 1: first values are 0, whatever `spread` */
} weft_sparse_options;

/* Creates a sparse table, under the rules of weft_table_open. */
weft_code weft_sparse_table_open(weft_parameter_server* server, const char* name,
                                 const weft_sparse_options* options, double timeout_seconds,
                                 weft_sparse_table** table);
weft_code weft_sparse_table_close(weft_sparse_table* table);
/* Worker: writes the rows of `count` ids to `rows`, which holds count * dim floats. After a timeout
 * the same call resumes; another call is bad_argument then, unless this one has sent nothing yet,
 * because it waited for the answers to the last push. */
weft_code weft_sparse_table_lookup(weft_sparse_table* table, const uint64_t* ids, size_t count,
                                   float* rows, double timeout_seconds);
/* Worker: pushes one gradient for each id, laid out as rows are. Both may be reused when it
 * returns. */
weft_code weft_sparse_table_push(weft_sparse_table* table, const uint64_t* ids, size_t count,
                                 const float* gradients, double timeout_seconds);
/* Worker: a push and a lookup in one request. */
weft_code weft_sparse_table_push_lookup(weft_sparse_table* table, const uint64_t* pushed,
                                        size_t pushed_count, const float* gradients,
                                        const uint64_t* ids, size_t count, float* rows,
                                        double timeout_seconds);
/* Worker: waits until every server has answered the last push. */
weft_code weft_sparse_table_flush(weft_sparse_table* table, double timeout_seconds);
weft_code weft_sparse_table_dim(const weft_sparse_table* table, size_t* dim);
weft_code weft_sparse_table_version(const weft_sparse_table* table, uint64_t* version);
/* The rank of the server that holds row `id`. */
weft_code weft_sparse_table_server_of(const weft_sparse_table* table, uint64_t id, int* server);

/* Counters of this rank's shard. */
typedef struct weft_sparse_statistics {
  size_t struct_size;
  uint64_t rows;         /* rows stored, or counted for admission */
  uint64_t bytes;        /* memory of rows, states and index */
  uint64_t requests;     /* of all workers */
  uint64_t looked_up;    /* rows looked up */
  uint64_t updated;      /* rows updated, counted once per update */
  uint64_t not_admitted; /* gradients dropped because their row was not admitted */
} weft_sparse_statistics;
weft_code weft_sparse_table_get_statistics(const weft_sparse_table* table,
                                           weft_sparse_statistics* statistics);

WEFT_C_END

#endif /* WEFT_C_PARAMETER_SERVER_H */
