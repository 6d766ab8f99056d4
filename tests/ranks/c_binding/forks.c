/* In a fork of a rank's process no function of weft.h does anything, whichever handle it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_ranks.h"

/* A handle of every kind, all of one rank's own slots and the like. */
typedef struct handles {
  weft_world* world;
  weft_tensor* tensor;
  weft_slot* slot;
  weft_remote_slot* remote;
  weft_arrival* arrival;
  weft_request* request;
  weft_published_slot* published;
  weft_published_reader* reader;
  weft_message_request* receive;
  weft_signal* signal;
  weft_remote_signal* remote_signal;
  weft_rendezvous* exchange;
  weft_collectives* group;
  weft_plan* plan;
  weft_parameter_server* server;
  weft_table* table;
  weft_sparse_table* rows;
} handles;

static const int64_t kDims = 4;
static const weft_table_tensor kTensor = {
    .struct_size = sizeof kTensor, .name = "w", .dims = &kDims, .ndims = 1};
static const weft_sparse_options kRows = {.struct_size = sizeof kRows, .dim = 4};

static handles new_handles(weft_world* world, int rank) {
  const weft_slot_spec spec = {"slot", WEFT_DTYPE_F32, &kDims, 1, 2};
  const weft_published_spec news = {.struct_size = sizeof news,
                                    .name = "news",
                                    .dims = &kDims,
                                    .ndims = 1,
                                    .dtype = WEFT_DTYPE_F32};
  const weft_call barrier = {.struct_size = sizeof barrier};
  handles all = {.world = world, .tensor = new_floats(world, 4, 0)};
  require(weft_slot_expose(world, &spec, &all.slot), "expose");
  require(weft_slot_attach(world, rank, &spec, kSeconds, &all.remote), "attach");
  require(weft_put(all.remote, all.tensor, kSeconds), "put");
  require(weft_slot_wait(all.slot, kSeconds, &all.arrival), "wait");
  require(weft_put_start(all.remote, (const weft_tensor* const*)&all.tensor, 1, WEFT_UNTIL_REUSABLE,
                         &all.request),
          "put");
  require(weft_published_slot_expose(world, &news, &all.published), "expose");
  require(weft_published_reader_attach(world, rank, &news, kSeconds, &all.reader), "attach");
  require(weft_message_irecv(world, rank, 1, WEFT_EXACT_TAG, all.tensor, &all.receive), "receive");
  require(weft_signal_expose(world, "signal", 0, &all.signal), "expose");
  require(weft_remote_signal_attach(world, rank, "signal", kSeconds, &all.remote_signal), "attach");
  require(weft_rendezvous_open(world, NULL, NULL, kSeconds, &all.exchange), "open");
  require(weft_collectives_open(world, NULL, kSeconds, &all.group), "open");
  require(weft_collectives_plan(all.group, &barrier, &all.plan), "plan");
  require(weft_parameter_server_open(world, NULL, NULL, NULL, &all.server), "server");
  require(weft_table_open(all.server, "table", &kTensor, 1, NULL, kSeconds, &all.table), "table");
  require(weft_sparse_table_open(all.server, "rows", &kRows, kSeconds, &all.rows), "rows");
  return all;
}

static void forked(weft_code code, const char* what) {
  expect(code == WEFT_CODE_FORKED && weft_error_code() == WEFT_CODE_FORKED, what);
}

static void check_waits(handles* all) {
  weft_arrival* arrival = NULL;
  weft_tensor* tensor = NULL;
  const weft_call barrier = {.struct_size = sizeof barrier};
  weft_received received = {.struct_size = sizeof received};
  int number = 0;
  uint64_t value = 0;
  float row[4];
  const uint64_t id = 1;
  forked(weft_slot_wait(all->slot, 1, &arrival), "wait");
  forked(weft_put(all->remote, all->tensor, 1), "put");
  forked(weft_request_test(all->request, &number), "test a request");
  forked(weft_published_slot_next(all->published, 1, &tensor), "next");
  forked(weft_published_reader_view(all->reader, 1, &arrival), "view");
  forked(weft_message_send(all->world, 0, 1, all->tensor, 1), "send");
  forked(weft_message_request_wait(all->receive, 1, NULL), "wait for a message");
  forked(weft_signal_fetch_add(all->signal, 1, &value), "add");
  forked(weft_signal_wait_at_least(all->signal, 1, 1, &value), "wait for a signal");
  forked(weft_remote_signal_add(all->remote_signal, 1), "add from afar");
  forked(weft_rendezvous_recv(all->exchange, 0, "key", 0, 1, &received), "receive by key");
  forked(weft_collectives_run(all->group, &barrier, 1), "a collective");
  forked(weft_plan_run(all->plan, 1), "a plan");
  forked(weft_table_initialize(all->table, 1), "initialize");
  forked(weft_table_push_pull(all->table, 1), "push and pull");
  forked(weft_sparse_table_lookup(all->rows, &id, 1, row, 1), "look up");
}

static void check_frees(handles* all) {
  forked(weft_arrival_release(all->arrival), "release");
  forked(weft_request_free(all->request), "free a request");
  forked(weft_slot_close(all->slot), "close");
  forked(weft_remote_slot_close(all->remote), "close the remote end");
  forked(weft_published_slot_close(all->published), "close a published slot");
  forked(weft_published_reader_close(all->reader), "close a reader");
  forked(weft_message_request_free(all->receive), "free a receive");
  forked(weft_signal_close(all->signal), "close a signal");
  forked(weft_remote_signal_close(all->remote_signal), "close a remote signal");
  forked(weft_rendezvous_close(all->exchange), "close a rendezvous");
  forked(weft_plan_free(all->plan), "free a plan");
  forked(weft_collectives_close(all->group), "close a group");
  forked(weft_table_close(all->table), "close a table");
  forked(weft_sparse_table_close(all->rows), "close rows");
  forked(weft_parameter_server_close(all->server), "close a server");
  forked(weft_world_leave(all->world, 1), "leave");
  forked(weft_leave(all->world, 1), "leave and free");
}

static void free_handles(handles* all) {
  require(weft_world_leave(all->world, kSeconds), "leave");
  require(weft_arrival_release(all->arrival), "release");
  require(weft_request_free(all->request), "free");
  require(weft_remote_slot_close(all->remote), "close");
  require(weft_slot_close(all->slot), "close");
  require(weft_published_reader_close(all->reader), "close");
  require(weft_published_slot_close(all->published), "close");
  require(weft_message_request_free(all->receive), "free");
  require(weft_remote_signal_close(all->remote_signal), "close");
  require(weft_signal_close(all->signal), "close");
  require(weft_rendezvous_close(all->exchange), "close");
  require(weft_plan_free(all->plan), "free");
  require(weft_collectives_close(all->group), "close");
  require(weft_table_close(all->table), "close");
  require(weft_sparse_table_close(all->rows), "close");
  require(weft_parameter_server_close(all->server), "close");
  require(weft_tensor_free(all->tensor), "free");
}

static void body(weft_world* world, int rank, int size) {
  handles all = new_handles(world, rank);
  int ended = -1;
  (void)size;
  meet(world); /* a rank that left would end what others still open */
  const pid_t child = fork();
  if (child == 0) {
    check_waits(&all);
    check_frees(&all);
    _exit(failures_so_far() == 0 ? 0 : 1);
  }
  expect(child > 0 && waitpid(child, &ended, 0) == child && ended == 0, "the fork's checks hold");
  free_handles(&all);
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
