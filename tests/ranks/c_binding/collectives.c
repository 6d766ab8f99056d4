/* Collectives from C: every operation, plans, the caller's reduction. */
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 1000, kMost = 8 };

/* The tensors of a call, made of f32: `in` counts up from `first`, `out` is 0. */
typedef struct tensors {
  weft_tensor *in, *out;
} tensors;

static tensors new_tensors(weft_world* world, int64_t in, float first, int64_t out) {
  tensors made = {new_floats(world, in, first), new_tensor(world, WEFT_DTYPE_F32, out)};
  memset(data_of(made.out), 0, (size_t)out * sizeof(float));
  return made;
}

static void free_tensors(tensors* both) {
  require(weft_tensor_free(both->in), "free");
  require(weft_tensor_free(both->out), "free");
}

static weft_call call_of(weft_collective_kind kind, const tensors* both) {
  const weft_call call = {
      .struct_size = sizeof call, .in = both->in, .out = both->out, .kind = kind};
  return call;
}

static void check_reductions(weft_world* world, weft_collectives* all, int rank, int size) {
  tensors both = new_tensors(world, kFloats, (float)rank, kFloats);
  weft_call call = call_of(WEFT_COLLECTIVE_ALL_REDUCE, &both);
  float sum = 0;
  for (int r = 0; r < size; ++r) sum += (float)r;
  require(weft_collectives_run(all, &call, kSeconds), "all_reduce");
  expect(floats_of(both.out)[0] == sum && floats_of(both.out)[1] == sum + (float)size, "the sum");
  call.struct_size = offsetof(weft_call, counts); /* as an older program's */
  call.counts = (const int64_t*)8;
  call.any_order = 77;
  require(weft_collectives_run(all, &call, kSeconds), "a call without the last fields");
  expect(floats_of(both.out)[0] == sum, "which are not read");
  call = call_of(WEFT_COLLECTIVE_ALL_REDUCE, &both);
  call.reduction = WEFT_REDUCTION_MAX;
  require(weft_collectives_run(all, &call, kSeconds), "maximum");
  expect_floats(floats_of(both.out), kFloats, (float)(size - 1), "the maximum");
  call.kind = WEFT_COLLECTIVE_SCAN;
  call.reduction = WEFT_REDUCTION_SUM;
  require(weft_collectives_run(all, &call, kSeconds), "scan");
  expect(floats_of(both.out)[1] == (float)((rank + 1) * (rank + 2)) / 2, "the ranks up to this");
  call.kind = WEFT_COLLECTIVE_REDUCE;
  call.root = size - 1;
  if (rank != call.root) call.out = NULL;
  require(weft_collectives_run(all, &call, kSeconds), "reduce");
  expect(rank != call.root || floats_of(both.out)[0] == sum, "the root's sum");
  call.kind = WEFT_COLLECTIVE_ALL_REDUCE;
  call.in = NULL;
  call.out = both.in;
  call.any_order = 1;
  require(weft_collectives_run(all, &call, kSeconds), "all_reduce in place");
  expect(floats_of(both.in)[0] == sum, "the sum in place");
  free_tensors(&both);
}

static void check_moves(weft_world* world, weft_collectives* all, int rank, int size) {
  tensors both = new_tensors(world, kFloats, (float)(rank * kFloats), (int64_t)size * kFloats);
  weft_call call = call_of(WEFT_COLLECTIVE_ALL_GATHER, &both);
  require(weft_collectives_run(all, &call, kSeconds), "all_gather");
  expect_floats(floats_of(both.out), (int64_t)size * kFloats, 0, "all parts, in order");
  memset(data_of(both.out), 0, (size_t)size * kFloats * sizeof(float));
  call.kind = WEFT_COLLECTIVE_GATHER;
  if (rank != 0) call.out = NULL;
  require(weft_collectives_run(all, &call, kSeconds), "gather");
  if (rank == 0) expect_floats(floats_of(both.out), (int64_t)size * kFloats, 0, "the root's parts");

  call.kind = WEFT_COLLECTIVE_SCATTER;
  call.in = rank == 0 ? both.out : NULL;
  call.out = both.in;
  memset(data_of(both.in), 0, kFloats * sizeof(float));
  require(weft_collectives_run(all, &call, kSeconds), "scatter");
  expect_floats(floats_of(both.in), kFloats, (float)(rank * kFloats), "this rank's part");

  call.kind = WEFT_COLLECTIVE_BROADCAST;
  call.in = NULL;
  call.root = size - 1;
  require(weft_collectives_run(all, &call, kSeconds), "broadcast");
  expect_floats(floats_of(both.in), kFloats, (float)((size - 1) * kFloats), "the root's tensor");
  free_tensors(&both);
}

static void check_parts(weft_world* world, weft_collectives* all, int rank, int size) {
  int64_t counts[kMost], whole = 0;
  for (int r = 0; r < size; ++r) whole += counts[r] = 10 + r;
  tensors both = new_tensors(world, whole, 1, counts[rank]);
  weft_call call = call_of(WEFT_COLLECTIVE_REDUCE_SCATTER, &both);
  float first = 1;
  for (int r = 0; r < rank; ++r) first += (float)counts[r];
  call.reduction = WEFT_REDUCTION_AVG;
  call.counts = counts;
  require(weft_collectives_run(all, &call, kSeconds), "reduce_scatter");
  expect_floats(floats_of(both.out), counts[rank], first, "this rank's part of the mean");
  free_tensors(&both);

  both = new_tensors(world, size, (float)(10 * rank), size);
  call = call_of(WEFT_COLLECTIVE_ALL_TO_ALL, &both);
  require(weft_collectives_run(all, &call, kSeconds), "all_to_all");
  for (int r = 0; r < size; ++r)
    expect(floats_of(both.out)[r] == (float)(10 * r + rank), "each rank's part for this one");
  free_tensors(&both);
}

/* Keeps the lower rank's value, which tells the order apart, and counts its calls. */
static void keep_first(void* context, void* into, const void* from, int64_t count,
                       weft_dtype dtype) {
  (void)into, (void)from;
  if (dtype == WEFT_DTYPE_F32 && count > 0) ++*(int*)context;
}

static void check_own_reduction(weft_world* world, weft_collectives* all, int rank, int size) {
  tensors both = new_tensors(world, kFloats, (float)rank, kFloats);
  weft_call call = call_of(WEFT_COLLECTIVE_ALL_REDUCE, &both);
  int calls = 0;
  call.reduce = keep_first;
  call.reduce_context = &calls;
  require(weft_collectives_run(all, &call, kSeconds), "the caller's reduction");
  expect_floats(floats_of(both.out), kFloats, 0, "the first rank's tensor stays");
  expect(calls > 0 || size == 1, "the caller's function was called");
  free_tensors(&both);
}

static void check_plans(weft_world* world, weft_collectives* all, int size) {
  tensors both = new_tensors(world, kFloats, 1, kFloats);
  const weft_call call = call_of(WEFT_COLLECTIVE_ALL_REDUCE, &both);
  const weft_call barrier = {.struct_size = sizeof barrier};
  weft_plan *plan = NULL, *second = NULL;
  uint64_t copied = 99;
  int ended = 0;
  require(weft_collectives_plan(all, &call, &plan), "plan");
  expect(weft_plan_wait(plan, 1) == WEFT_CODE_BAD_ARGUMENT, "a plan that was not started");
  for (int n = 0; n < 10; ++n) {
    floats_of(both.in)[0] = (float)n;
    require(weft_plan_run(plan, kSeconds), "run a plan");
    expect(floats_of(both.out)[0] == (float)(n * size), "each run has its elements");
  }
  require(weft_plan_start(plan), "start");
  require(weft_collectives_start(all, &barrier, &second), "start a barrier");
  require(weft_plan_wait(plan, kSeconds), "wait");
  while (!ended) require(weft_plan_test(second, &ended), "test");
  require(weft_plan_wait(second, kSeconds), "a barrier that was tested has ended");
  expect_error(weft_collectives_close(all), WEFT_CODE_BAD_ARGUMENT, "plans of this group",
               "a group is not closed before its plans");
  require(weft_collectives_bytes_copied(all, &copied), "bytes copied");
  expect(copied == 0, "arena tensors are not copied");
  require(weft_plan_free(second), "free");
  require(weft_plan_free(plan), "free");
  require(weft_collectives_settle(all, kSeconds), "settle");
  free_tensors(&both);
}

static void check_refusals(weft_world* world, weft_collectives* all) {
  tensors both = new_tensors(world, kFloats, 1, 10);
  weft_call call = call_of(WEFT_COLLECTIVE_ALL_REDUCE, &both);
  expect(weft_collectives_run(all, &call, kSeconds) == WEFT_CODE_BAD_ARGUMENT,
         "tensors of two sizes are refused");
  call.kind = (weft_collective_kind)10;
  expect_error(weft_collectives_run(all, &call, kSeconds), WEFT_CODE_BAD_ARGUMENT,
               "kind is 10, not one of 0 to 9", "an unknown kind is refused");
  call.struct_size = 3;
  expect_error(weft_collectives_run(all, &call, kSeconds), WEFT_CODE_BAD_ARGUMENT,
               "call->struct_size is 3", "a call without its size is refused");
  call.struct_size = offsetof(weft_call, counts) + 2;
  expect_error(weft_collectives_run(all, &call, kSeconds), WEFT_CODE_BAD_ARGUMENT,
               "call->struct_size is ", "a size that ends within a pointer is refused");
  free_tensors(&both);
}

static void body(weft_world* world, int rank, int size) {
  weft_collectives *all = NULL, *alone = NULL, *members = NULL;
  weft_group* group = NULL;
  const int* ranks = NULL;
  int place = -1, count = 0;
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open");
  require(weft_collectives_rank(all, &place), "rank");
  require(weft_collectives_size(all, &count), "size");
  require(weft_collectives_ranks(all, &ranks), "ranks");
  expect(place == rank && count == size && ranks[size - 1] == size - 1, "a group of all ranks");
  require(weft_collectives_open_ranks(world, &rank, 1, kSeconds, &alone), "open alone");
  require(weft_collectives_close(alone), "close");
  require(weft_world_group(world, &group), "group");
  require(weft_collectives_open(world, group, kSeconds, &members), "open a group");
  require(weft_group_free(group), "free");
  require(weft_collectives_close(members), "close");
  check_reductions(world, all, rank, size);
  check_moves(world, all, rank, size);
  check_parts(world, all, rank, size);
  check_own_reduction(world, all, rank, size);
  check_plans(world, all, size);
  check_refusals(world, all);
  require(weft_collectives_close(all), "close");
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
