/* Allocation sites from C: a site that was sent once is registered from the next step on. */
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 100000, kSteps = 3 };
static const int64_t kDims = kFloats;

static weft_tracing_counters counters_of(const weft_tracer* tracer) {
  weft_tracing_counters counters = {.struct_size = sizeof counters};
  require(weft_tracer_get_counters(tracer, &counters), "counters");
  return counters;
}

static void check_nodes(weft_tracer* tracer) {
  weft_running_node *outer = NULL, *inner = NULL, *again = NULL;
  weft_tensor* tensor = NULL;
  expect(weft_tracer_allocate(tracer, WEFT_DTYPE_F32, &kDims, 1, &tensor) == WEFT_CODE_BAD_ARGUMENT,
         "no node runs");
  require(weft_tracer_enter(tracer, "outer", &outer), "enter");
  expect(weft_tracer_enter(tracer, "outer", &again) == WEFT_CODE_BAD_ARGUMENT, "it runs already");
  require(weft_tracer_enter(tracer, "inner", &inner), "enter");
  expect_error(weft_running_node_leave(outer), WEFT_CODE_BAD_ARGUMENT, "innermost",
               "nodes are left in reverse order");
  expect_error(weft_tracer_close(tracer), WEFT_CODE_BAD_ARGUMENT, "running nodes",
               "a tracer is not closed while nodes run");
  expect(weft_tracer_next_step(tracer) == WEFT_CODE_BAD_ARGUMENT, "a node still runs");
  require(weft_running_node_leave(inner), "leave");
  require(weft_running_node_leave(outer), "leave");
}

static void send_steps(weft_world* world, weft_remote_slot* remote) {
  weft_tracer* tracer = NULL;
  char* json = NULL;
  require(weft_tracer_open(world, NULL, &tracer), "tracer");
  check_nodes(tracer);
  for (int step = 0; step < kSteps; ++step) {
    weft_running_node* running = NULL;
    weft_tensor *gradient = NULL, *sent = NULL;
    require(weft_tracer_enter(tracer, "backward", &running), "enter");
    require(weft_tracer_allocate(tracer, WEFT_DTYPE_F32, &kDims, 1, &gradient), "allocate");
    require(weft_running_node_leave(running), "leave");
    for (int i = 0; i < kFloats; ++i) floats_of(gradient)[i] = (float)(step + i);
    require(weft_tracer_to_send(tracer, gradient, &sent), "to send");
    expect((floats_of(sent) == floats_of(gradient)) == (step > 0), "only the first step copies");
    require(weft_put(remote, sent, kSeconds), "put");
    require(weft_tensor_free(sent), "free");
    require(weft_tensor_free(gradient), "free");
    require(weft_tracer_next_step(tracer), "next step");
  }
  const weft_tracing_counters counters = counters_of(tracer);
  expect(counters.steps == kSteps && counters.copies == 1 && counters.sends == kSteps &&
             counters.sent_sites == 1,
         "one copy, in the first step");
  require(weft_tracer_report(tracer, &json), "report");
  expect(strstr(json, "\"backward\"") != NULL, "the report has the site");
  weft_text_free(json);
  require(weft_tracer_close(tracer), "close");
}

static void check_modes(weft_world* world) {
  const weft_tracing_options cut = {.struct_size = sizeof cut, .mode = WEFT_TRACING_CUT_EDGES};
  weft_tracing_options wrong = {.struct_size = sizeof wrong, .mode = (weft_tracing_mode)3};
  weft_running_node* running = NULL;
  weft_tensor* tensor = NULL;
  weft_tracer* tracer = NULL;
  expect(weft_tracer_open(world, &wrong, &tracer) == WEFT_CODE_BAD_ARGUMENT, "no such mode");
  require(weft_tracer_open(world, &cut, &tracer), "tracer");
  require(weft_tracer_mark_cut(tracer, "node", 0), "mark");
  require(weft_tracer_enter(tracer, "node", &running), "enter");
  require(weft_tracer_allocate(tracer, WEFT_DTYPE_F32, &kDims, 1, &tensor), "allocate");
  require(weft_running_node_leave(running), "leave");
  expect(counters_of(tracer).registered_allocations == 1, "a site that was named is registered");
  require(weft_tensor_free(tensor), "free");
  require(weft_tracer_close(tracer), "close");
}

static void body(weft_world* world, int rank, int size) {
  const weft_slot_spec spec = {"gradient", WEFT_DTYPE_F32, &kDims, 1, 2};
  expect(size == 2, "two ranks");
  check_modes(world);
  if (rank == 0) {
    weft_remote_slot* remote = NULL;
    require(weft_slot_attach(world, 1, &spec, kSeconds, &remote), "attach");
    send_steps(world, remote);
    require(weft_remote_slot_close(remote), "close");
  } else {
    weft_slot* slot = NULL;
    require(weft_slot_expose(world, &spec, &slot), "expose");
    for (int step = 0; step < kSteps; ++step) {
      weft_arrival* arrival = NULL;
      const void* data = NULL;
      require(weft_slot_wait(slot, kSeconds, &arrival), "wait");
      require(weft_arrival_data(arrival, &data), "data");
      expect_floats(data, kFloats, (float)step, "each step's gradient");
      require(weft_arrival_release(arrival), "release");
    }
    require(weft_slot_close(slot), "close");
  }
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
