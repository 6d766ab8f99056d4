/* Slots from C: requests, several parts, flow and placement, memory of the caller's, wait sets. */
#include <poll.h>
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 1000 };
static const int64_t kDims = kFloats;

static weft_slot_spec floats_spec(const char* name, uint32_t depth) {
  const weft_slot_spec spec = {name, WEFT_DTYPE_F32, &kDims, 1, depth};
  return spec;
}

/* Rank `owner` exposes, the others don't; afterwards both ends are there. */
static void check_info(const weft_slot_info* info, const char* name, int owner) {
  expect(strcmp(info->name, name) == 0 && info->dtype == WEFT_DTYPE_F32 && info->ndims == 1 &&
             info->owner == owner,
         "a slot's end knows its properties");
}

static void write_requests(weft_world* world) {
  weft_remote_slot* remote = NULL;
  weft_slot_info info = {.struct_size = sizeof info};
  weft_error error = {.struct_size = sizeof error};
  weft_tensor *whole = new_floats(world, kFloats, 5), *parts[2];
  weft_request *first = NULL, *second = NULL;
  const int64_t half = kFloats / 2;
  int ended = 0, pairs = 0;
  const int self = 0;
  require(weft_slot_attach_by_name(world, 1, "requests", kSeconds, &remote), "attach by name");
  require(weft_remote_slot_get_info(remote, &info), "info");
  check_info(&info, "requests", 1);
  expect(info.depth == 1 && info.dims[0] == kFloats, "attached by name, with the owner's spec");
  require(weft_remote_slot_queue_pairs(remote, &pairs), "queue pairs");
  expect(pairs >= 1, "there is a queue pair, or what stands for one");
  expect(weft_remote_slot_use_queue_pair(remote, 99) == WEFT_CODE_BAD_ARGUMENT, "there is no 99th");
  require(weft_remote_slot_also_needs(remote, &self, 1, WEFT_NEEDED_UNTIL_IT_LEAVES), "needs");

  require(weft_tensor_part(whole, 0, &half, 1, &parts[0]), "part");
  require(weft_tensor_part(whole, half, &half, 1, &parts[1]), "part");
  require(weft_put_start(remote, (const weft_tensor* const*)parts, 2, WEFT_UNTIL_DELIVERED, &first),
          "put two parts");
  require(weft_request_wait(first, kSeconds), "wait for the put");
  require(weft_request_test(first, &ended), "test");
  expect(ended, "a put that was waited for has ended");
  expect(weft_request_cancel(first) == WEFT_CODE_OK, "an operation that has ended is unchanged");

  /* The only buffer is taken until rank 1 has the first tensor's arrival released. */
  require(
      weft_put_start(remote, (const weft_tensor* const*)&whole, 1, WEFT_UNTIL_REUSABLE, &second),
      "put without a buffer");
  expect(weft_request_wait(second, 0.01) == WEFT_CODE_TIMEOUT, "a put waits for a buffer");
  require(weft_last_error(&error), "the last error");
  expect(error.code == WEFT_CODE_TIMEOUT && strcmp(error.slot, "requests") == 0 &&
             error.rank == 0 && error.peer == 1 && error.host[0] != '\0',
         "the error names the slot and the peer");
  expect(weft_request_cancel(second) == WEFT_CODE_CANCELLED, "and can be cancelled");
  expect(weft_request_wait(second, 1) == WEFT_CODE_CANCELLED, "which its end tells");
  expect_error(weft_remote_slot_close(remote), WEFT_CODE_BAD_ARGUMENT, "requests of this slot",
               "a slot is not closed before its requests");
  require(weft_request_free(first), "free");
  require(weft_request_free(second), "free");
  expect(weft_put_start(remote, (const weft_tensor* const*)&whole, 1, (weft_until)7, &first) ==
             WEFT_CODE_BAD_ARGUMENT,
         "a value outside the enumeration is refused");
  require(weft_remote_slot_close(remote), "close");
  require(weft_tensor_free(parts[0]), "free");
  require(weft_tensor_free(parts[1]), "free");
  require(weft_tensor_free(whole), "free");
}

/* As a program with a poll loop of its own waits. */
static void wait_by_descriptor(weft_world* world, weft_slot* slot) {
  struct pollfd events = {.events = POLLIN};
  int ready = 0;
  require(weft_world_event_fd(world, &events.fd), "event descriptor");
  require(weft_slot_ready(slot, &ready), "ready");
  for (int tries = 0; !ready && tries < 100; ++tries) {
    expect(poll(&events, 1, kSeconds * 1000) == 1, "an arrival makes the descriptor readable");
    require(weft_world_clear_event(world), "clear");
    require(weft_slot_ready(slot, &ready), "ready");
  }
  expect(ready, "the arrival was an event");
}

/* The slot stays until the writer has seen that it has no buffer: `done` tells. */
static void read_requests(weft_world* world, weft_slot* slot, weft_slot* done) {
  weft_slot_info info = {.struct_size = sizeof info};
  weft_arrival *arrival = NULL, *told = NULL;
  weft_tensor* tensor = NULL;
  weft_tensor_info about = {.struct_size = sizeof about};
  int ready = 1;
  const int peer = 0;
  require(weft_slot_get_info(slot, &info), "info");
  check_info(&info, "requests", 1);
  require(weft_slot_also_needs(slot, &peer, 1, WEFT_NEEDED_ALWAYS), "also needs");
  wait_by_descriptor(world, slot);
  require(weft_slot_wait(slot, kSeconds, &arrival), "wait");
  require(weft_arrival_tensor(arrival, &tensor), "arrival's tensor");
  require(weft_tensor_get_info(tensor, &about), "info");
  expect(about.read_only && about.memory == WEFT_MEMORY_ARENA && about.dims[0] == kFloats,
         "an arrival's tensor is read-only");
  expect_floats(about.data, kFloats, 5, "two parts arrive as one tensor");
  require(weft_slot_ready(slot, &ready), "ready");
  expect(!ready, "nothing else has arrived");
  require(weft_slot_wait(done, kSeconds, &told), "wait for the writer");
  require(weft_arrival_release(told), "release");
  require(weft_tensor_free(tensor), "free");
  require(weft_arrival_release(arrival), "release");
}

static int allocations = 0;

static weft_code allocate(void* context, weft_dtype dtype, const int64_t* dims, size_t ndims,
                          weft_tensor** tensor) {
  if (++allocations == 1) return WEFT_CODE_EXHAUSTED;
  return weft_tensor_allocate(context, dtype, dims, ndims, tensor);
}

static void check_dynamic(weft_world* world, int rank) {
  const int64_t any = 0;
  const weft_slot_spec spec = {"dynamic", WEFT_DTYPE_F32, &any, 1, 2};
  const weft_slot_options dynamic = {.struct_size = sizeof dynamic,
                                     .placement = WEFT_PLACEMENT_DYNAMIC};
  if (rank == 0) {
    weft_remote_slot* remote = NULL;
    weft_tensor* tensor = new_floats(world, 77, 1);
    expect(weft_slot_attach(world, 1, &spec, kSeconds, &remote) == WEFT_CODE_MISMATCH,
           "the placement is compared");
    require(weft_slot_attach_with(world, 1, &spec, &dynamic, kSeconds, &remote), "attach");
    require(weft_put(remote, tensor, kSeconds), "put");
    require(weft_remote_slot_close(remote), "close");
    require(weft_tensor_free(tensor), "free");
  } else {
    weft_slot* slot = NULL;
    weft_arrival* arrival = NULL;
    weft_code code = WEFT_CODE_OK;
    size_t bytes = 0;
    const void* data = NULL;
    require(weft_slot_expose_with(world, &spec, &dynamic, &slot), "expose");
    require(weft_slot_allocate_with(slot, allocate, world), "allocate with");
    do code = weft_slot_wait(slot, kSeconds, &arrival);
    while (code == WEFT_CODE_MISMATCH); /* the writer that was refused */
    expect_error(code, WEFT_CODE_EXHAUSTED, "allocate function",
                 "without memory the tensor stays with its writer");
    require(weft_slot_wait(slot, kSeconds, &arrival), "wait again");
    require(weft_arrival_bytes(arrival, &bytes), "bytes");
    require(weft_arrival_data(arrival, &data), "data");
    expect(bytes == 77 * sizeof(float) && allocations == 2, "it comes into the caller's tensor");
    expect_floats(data, 77, 1, "with its elements");
    require(weft_arrival_release(arrival), "release");
    require(weft_slot_close(slot), "close");
  }
}

static void check_own_memory(weft_world* world) {
  weft_tensor* memory = new_tensor(world, WEFT_DTYPE_F32, 2 * kFloats);
  const weft_slot_options options = {
      .struct_size = sizeof options, .flow = WEFT_FLOW_UNSAFE_SYNCHRONOUS, .memory = memory};
  const weft_slot_spec spec = floats_spec("own memory", 2);
  weft_slot_info info = {.struct_size = sizeof info};
  weft_slot* slot = NULL;
  weft_remote_slot* remote = NULL;
  weft_arrival* arrival = NULL;
  const void* data = NULL;
  int rank = 0;
  require(weft_rank(world, &rank), "rank");
  require(weft_slot_expose_with(world, &spec, &options, &slot), "expose in own memory");
  expect(weft_slot_attach_with(world, rank, &spec, &options, kSeconds, &remote) ==
             WEFT_CODE_BAD_ARGUMENT,
         "a writer gives no memory");
  require(weft_slot_attach_by_name(world, rank, "own memory", kSeconds, &remote), "attach to self");
  require(weft_remote_slot_get_info(remote, &info), "info");
  expect(info.flow == WEFT_FLOW_UNSAFE_SYNCHRONOUS && info.depth == 2, "the owner's flow");
  weft_tensor* tensor = new_floats(world, kFloats, 9);
  require(weft_put(remote, tensor, kSeconds), "put to self");
  require(weft_slot_wait(slot, kSeconds, &arrival), "wait");
  require(weft_arrival_data(arrival, &data), "data");
  expect(data == data_of(memory), "it arrives in the caller's memory");
  require(weft_arrival_release(arrival), "release");
  require(weft_remote_slot_close(remote), "close");
  require(weft_slot_close(slot), "close");
  require(weft_tensor_free(tensor), "free");
  require(weft_tensor_free(memory), "free");
}

static void body(weft_world* world, int rank, int size) {
  const weft_slot_spec requests = floats_spec("requests", 1), done = floats_spec("done", 1);
  expect(size == 2, "two ranks");
  check_own_memory(world);
  check_dynamic(world, rank);
  if (rank == 0) {
    weft_remote_slot* tell = NULL;
    weft_tensor* tensor = new_floats(world, kFloats, 0);
    require(weft_slot_attach(world, 1, &done, kSeconds, &tell), "attach");
    write_requests(world);
    require(weft_put(tell, tensor, kSeconds), "tell");
    require(weft_remote_slot_close(tell), "close");
    require(weft_tensor_free(tensor), "free");
  } else {
    weft_slot *slot = NULL, *told = NULL;
    require(weft_slot_expose(world, &requests, &slot), "expose");
    require(weft_slot_expose(world, &done, &told), "expose");
    read_requests(world, slot, told);
    require(weft_slot_close(slot), "close");
    require(weft_slot_close(told), "close");
  }
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
