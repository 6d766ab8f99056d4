/* Tensors on GPUs from C. Their driver is the stand-in. */
#include <string.h>

#include "c_ranks.h"
#include "dlpack_structs.h"

static void check_texts(void) {
  char* text = NULL;
  require(weft_place_text(2, &text), "text");
  expect(strcmp(text, "GPU 2") == 0, "a GPU's place has its number");
  weft_text_free(text);
  require(weft_place_text(WEFT_PLACE_HOST, &text), "text");
  expect(strcmp(text, "host memory") == 0, "host memory is a place");
  weft_text_free(text);
  expect_error(weft_place_text(-3, &text), WEFT_CODE_BAD_ARGUMENT, "-3", "-3 is no place");
}

static void check_copies(weft_world* world, int rank) {
  const int64_t dims[1] = {1000};
  weft_tensor *from = new_floats(world, 1000, (float)rank), *on_gpu = NULL, *to = NULL;
  void* default_stream = NULL;
  int place = 0;
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, WEFT_PLACE_OWN_GPU, &on_gpu),
          "allocate on the GPU");
  require(weft_tensor_get_place(on_gpu, &place), "place");
  expect(place == rank % 2, "the rank's own GPU has a number");
  require(weft_tensor_get_place(from, &place), "place");
  expect(place == WEFT_PLACE_HOST, "other tensors are in host memory");
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, WEFT_PLACE_HOST, &to),
          "allocate in host memory");
  require(weft_world_copy(world, from, on_gpu, &default_stream, -1), "copy on a stream");
  require(weft_world_copy(world, on_gpu, to, NULL, kSeconds), "copy and wait");
  expect_floats(floats_of(to), 1000, (float)rank, "the elements come back");
  require(weft_tensor_free(to), "free");
  to = new_floats(world, 999, 0);
  expect_error(weft_world_copy(world, on_gpu, to, NULL, kSeconds), WEFT_CODE_MISMATCH, "999",
               "tensors of other shapes are refused");
  require(weft_tensor_free(to), "free");
  require(weft_tensor_free(from), "free");
  require(weft_tensor_free(on_gpu), "free");
}

static void check_dlpack(weft_world* world, int rank) {
  const int64_t dims[1] = {10};
  weft_tensor *tensor = NULL, *wrapped = NULL, *adopted = NULL, *back = NULL;
  old_tensor* managed = NULL;
  weft_tensor_info info = {.struct_size = sizeof info};
  int place = 0;
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, WEFT_PLACE_OWN_GPU, &tensor),
          "allocate on the GPU");
  require(weft_tensor_to_dlpack_unversioned(tensor, (struct DLManagedTensor**)&managed), "export");
  expect(managed->tensor.device.type == 2 && managed->tensor.device.id == rank % 2,
         "DLPack tells that the tensor is on the GPU");
  managed->tensor.device.id = 1 - rank % 2;
  expect_error(weft_tensor_from_dlpack_unversioned(world, managed, NULL, &adopted),
               WEFT_CODE_BAD_ARGUMENT, rank % 2 == 0 ? "GPU 0's" : "GPU 1's",
               "memory of another GPU than the one that is named is refused");
  managed->tensor.device.id = 7;
  expect_error(weft_tensor_from_dlpack_unversioned(world, managed, NULL, &adopted),
               WEFT_CODE_BAD_ARGUMENT, "GPU 7", "so is one of no GPU");
  managed->tensor.device.id = rank % 2;
  require(weft_tensor_wrap_in(managed->tensor.data, WEFT_DTYPE_F32, dims, 1, rank % 2, &wrapped),
          "wrap");
  require(weft_tensor_get_place(wrapped, &place), "place");
  expect(place == rank % 2, "wrapped memory is where the caller says");
  require(weft_tensor_free(wrapped), "free");

  /* A GPU's memory by DLPack: adopted with a world, wrapped without one. */
  wrapped = new_floats(world, 10, (float)rank);
  require(weft_world_copy(world, wrapped, tensor, NULL, kSeconds), "fill");
  require(weft_tensor_free(wrapped), "free");
  require(weft_tensor_free(tensor), "free, while DLPack's tensor lives");
  require(weft_tensor_from_dlpack_unversioned(world, managed, NULL, &adopted), "import");
  require(weft_tensor_get_place(adopted, &place), "place");
  require(weft_tensor_get_info(adopted, &info), "info");
  expect(place == rank % 2 && info.memory == WEFT_MEMORY_ADOPTED, "a GPU's memory is adopted");
  back = new_floats(world, 10, -1);
  require(weft_world_copy(world, adopted, back, NULL, kSeconds), "copy back");
  expect_floats(floats_of(back), 10, (float)rank, "and has its elements");
  require(weft_tensor_to_dlpack_unversioned(adopted, (struct DLManagedTensor**)&managed), "export");
  require(weft_tensor_free(adopted), "free");
  require(weft_tensor_from_dlpack_unversioned(NULL, managed, NULL, &wrapped),
          "import without a world");
  require(weft_tensor_get_place(wrapped, &place), "place");
  require(weft_tensor_get_info(wrapped, &info), "info");
  expect(place == rank % 2 && info.memory == WEFT_MEMORY_WRAPPED, "wrapped without a world");
  require(weft_world_copy(world, wrapped, back, NULL, kSeconds), "copy back");
  expect_floats(floats_of(back), 10, (float)rank, "which has its elements too");
  require(weft_tensor_free(wrapped), "free");
  require(weft_tensor_free(back), "free");
}

static void check_queue(weft_world* world, int rank) {
  const int64_t dims[1] = {10};
  weft_tensor *tensor = NULL, *wrapped = NULL;
  weft_unused_queue* queue = NULL;
  weft_tensor_info info = {.struct_size = sizeof info};
  void* token = NULL;
  int place = 0, found = 1;
  require(weft_unused_queue_new(&queue), "queue");
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, WEFT_PLACE_OWN_GPU, &tensor),
          "allocate on the GPU");
  require(weft_tensor_get_info(tensor, &info), "info");
  expect_error(weft_tensor_wrap_queued_in(info.data, WEFT_DTYPE_F32, dims, 1, WEFT_PLACE_OWN_GPU, 0,
                                          queue, &place, &wrapped),
               WEFT_CODE_BAD_ARGUMENT, "number", "memory is wrapped on a GPU with a number");
  require(weft_tensor_wrap_queued_in(info.data, WEFT_DTYPE_F32, dims, 1, rank % 2, 1, queue, &place,
                                     &wrapped),
          "wrap");
  require(weft_tensor_get_info(wrapped, &info), "info");
  require(weft_unused_queue_next(queue, &token, &found), "ask the queue");
  expect(info.read_only && found == 0, "the owner keeps memory that is wrapped");
  require(weft_tensor_get_place(wrapped, &place), "place");
  expect(place == rank % 2, "on its GPU");
  require(weft_tensor_free(wrapped), "free");
  require(weft_unused_queue_next(queue, &token, &found), "ask the queue");
  expect(found == 1 && token == &place, "until its token comes to the queue");
  require(weft_tensor_free(tensor), "free");
  require(weft_unused_queue_free(queue), "free");
}

static void check_slots(weft_world* world, int rank, int size) {
  const int64_t dims[1] = {1000};
  const int own = WEFT_PLACE_OWN_GPU;
  const weft_slot_spec spec = {"on a GPU", WEFT_DTYPE_F32, dims, 1, 2};
  const weft_slot_options options = {.struct_size = sizeof options, .place = &own};
  weft_tensor *from = NULL, *gpu = NULL, *arrived = NULL, *to = new_floats(world, 1000, 0);
  weft_slot* slot = NULL;
  weft_remote_slot* remote = NULL;
  weft_arrival* arrival = NULL;
  int place = 0;
  require(weft_slot_expose_with(world, &spec, &options, &slot), "expose on the GPU");
  expect_error(weft_slot_attach_with(world, 1 - rank, &spec, &options, kSeconds, &remote),
               WEFT_CODE_BAD_ARGUMENT, "place", "a writer gives no place");
  require(weft_slot_attach(world, (rank + 1) % size, &spec, kSeconds, &remote), "attach");
  from = new_floats(world, 1000, (float)(rank + 1));
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, own, &gpu), "allocate");
  require(weft_world_copy(world, from, gpu, NULL, kSeconds), "copy");
  require(weft_put(remote, gpu, kSeconds), "put from the GPU");
  require(weft_slot_wait(slot, kSeconds, &arrival), "wait");
  require(weft_arrival_tensor(arrival, &arrived), "the arrival's tensor");
  require(weft_tensor_get_place(arrived, &place), "place");
  expect(place == rank % 2, "it arrives on the owner's GPU");
  require(weft_world_copy(world, arrived, to, NULL, kSeconds), "copy back");
  expect_floats(floats_of(to), 1000, (float)((rank + size - 1) % size + 1), "with its elements");
  require(weft_tensor_free(arrived), "free");
  require(weft_arrival_release(arrival), "release");
  require(weft_remote_slot_close(remote), "close");
  require(weft_slot_close(slot), "close");
  require(weft_tensor_free(gpu), "free");
  require(weft_tensor_free(from), "free");
  require(weft_tensor_free(to), "free");
}

/* Streams wait in place of the thread: here CUDA's default one. */
static void check_streams(weft_world* world, int rank, int size) {
  const int64_t dims[1] = {1000};
  const int own = WEFT_PLACE_OWN_GPU;
  const weft_slot_spec spec = {"by streams", WEFT_DTYPE_F32, dims, 1, 2};
  const weft_slot_options options = {.struct_size = sizeof options, .place = &own};
  weft_tensor *from = new_floats(world, 1000, (float)(rank + 3)), *to = new_floats(world, 1000, 0),
              *gpu = NULL, *seen = NULL, *arrived = NULL;
  weft_slot* slot = NULL;
  weft_remote_slot* remote = NULL;
  weft_request* request = NULL;
  weft_arrival* arrival = NULL;
  void* stream = NULL;
  const uint32_t* outcome = NULL;
  require(weft_slot_expose_with(world, &spec, &options, &slot), "expose on the GPU");
  require(weft_slot_attach(world, (rank + 1) % size, &spec, kSeconds, &remote), "attach");
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, own, &gpu), "allocate");
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, own, &seen), "allocate");
  require(weft_world_copy(world, from, gpu, &stream, kSeconds), "copy on a stream");
  require(weft_put_start_on(remote, gpu, &stream, WEFT_UNTIL_REUSABLE, &request), "put behind it");
  require(weft_request_wait_on(request, &stream, kSeconds), "the stream waits for the put");
  require(weft_slot_wait_on(slot, &stream, kSeconds, &arrival), "and for an arrival");
  require(weft_arrival_outcome(arrival, &outcome), "the word for the GPU");
  require(weft_arrival_tensor(arrival, &arrived), "the arrival's tensor");
  require(weft_world_copy(world, arrived, seen, &stream, kSeconds), "copy behind the arrival");
  require(weft_tensor_free(arrived), "free");
  /* A put behind the stream has ended once the stream has come by. */
  require(weft_request_free(request), "free");
  require(weft_put_start_on(remote, gpu, &stream, WEFT_UNTIL_REUSABLE, &request), "put again");
  require(weft_request_wait(request, kSeconds), "wait on the thread");
  expect(outcome == NULL || *outcome == WEFT_CODE_OK, "the tensor came");
  require(weft_arrival_release_on(arrival, &stream), "release behind the stream");
  require(weft_world_copy(world, seen, to, NULL, kSeconds), "copy back");
  expect_floats(floats_of(to), 1000, (float)((rank + size - 1) % size + 3), "with its elements");
  require(weft_slot_wait(slot, kSeconds, &arrival), "the other put has come too");
  require(weft_arrival_release_on(arrival, NULL), "NULL is no stream");
  require(weft_request_free(request), "free");
  require(weft_remote_slot_close(remote), "close");
  require(weft_slot_close(slot), "close");
  require(weft_tensor_free(seen), "free");
  require(weft_tensor_free(gpu), "free");
  require(weft_tensor_free(from), "free");
  require(weft_tensor_free(to), "free");
}

static void check_collectives(weft_world* world, int rank) {
  const int64_t dims[1] = {100};
  weft_tensor *on_host = new_floats(world, 100, (float)(rank + 1)), *gpu = NULL;
  weft_collectives* all = NULL;
  uint64_t staged = 0;
  require(weft_tensor_allocate_in(world, WEFT_DTYPE_F32, dims, 1, WEFT_PLACE_OWN_GPU, &gpu),
          "allocate");
  require(weft_world_copy(world, on_host, gpu, NULL, kSeconds), "copy");
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open");
  const weft_call call = {.struct_size = sizeof call,
                          .in = gpu,
                          .out = gpu,
                          .kind = WEFT_COLLECTIVE_BROADCAST,
                          .root = 1};
  require(weft_collectives_run(all, &call, kSeconds), "broadcast");
  require(weft_world_copy(world, gpu, on_host, NULL, kSeconds), "copy back");
  expect_floats(floats_of(on_host), 100, 2, "the root's elements came to every GPU");
  require(weft_collectives_staged_bytes(all, &staged), "staged bytes");
  expect(staged == 0, "by the GPUs alone");
  require(weft_collectives_close(all), "close");
  require(weft_tensor_free(gpu), "free");
  require(weft_tensor_free(on_host), "free");
}

static void check_published(weft_world* world, int rank, int size) {
  const int64_t dims[1] = {1000};
  const int own = WEFT_PLACE_OWN_GPU;
  weft_published_spec spec = {.struct_size = sizeof spec,
                              .name = "news",
                              .dims = dims,
                              .ndims = 1,
                              .dtype = WEFT_DTYPE_F32,
                              .depth = 2,
                              .place = &own};
  weft_tensor *from = new_floats(world, 1000, (float)(rank + 5)), *to = new_floats(world, 1000, 0),
              *version = NULL;
  weft_published_slot* slot = NULL;
  weft_published_reader* reader = NULL;
  weft_collectives* all = NULL;
  const weft_call barrier = {.struct_size = sizeof barrier, .kind = WEFT_COLLECTIVE_BARRIER};
  int place = 0;
  require(weft_published_slot_expose(world, &spec, &slot), "expose");
  require(weft_published_slot_next(slot, kSeconds, &version), "next");
  require(weft_tensor_get_place(version, &place), "place");
  expect(place == rank % 2, "versions are filled on the owner's GPU");
  require(weft_world_copy(world, from, version, NULL, kSeconds), "fill");
  require(weft_published_slot_publish(slot), "publish");
  require(weft_tensor_free(version), "free");
  expect_error(weft_published_reader_attach(world, (rank + 1) % size, &spec, kSeconds, &reader),
               WEFT_CODE_BAD_ARGUMENT, "place", "a reader gives no place");
  spec.place = NULL;
  require(weft_published_reader_attach(world, (rank + 1) % size, &spec, kSeconds, &reader),
          "attach");
  require(weft_published_reader_get(reader, to, kSeconds), "get");
  expect_floats(floats_of(to), 1000, (float)((rank + 1) % size + 5), "the version is whole");
  /* The slot stays until all have read it. */
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open");
  require(weft_collectives_run(all, &barrier, kSeconds), "barrier");
  require(weft_collectives_close(all), "close");
  require(weft_published_reader_close(reader), "close");
  require(weft_published_slot_close(slot), "close");
  require(weft_tensor_free(from), "free");
  require(weft_tensor_free(to), "free");
}

static void check_rendezvous(weft_world* world, int rank, int size) {
  const int own = WEFT_PLACE_OWN_GPU;
  const weft_rendezvous_spec spec = {.struct_size = sizeof spec, .place = &own};
  weft_tensor *from = new_floats(world, 1000, (float)(rank + 9)), *to = new_floats(world, 1000, 0);
  weft_rendezvous* exchange = NULL;
  weft_received received = {.struct_size = sizeof received};
  int place = 0;
  require(weft_rendezvous_open(world, NULL, &spec, kSeconds, &exchange), "open");
  require(weft_rendezvous_send(exchange, (rank + 1) % size, "t", 1, from, kSeconds), "send");
  require(weft_rendezvous_recv(exchange, (rank + size - 1) % size, "t", 1, kSeconds, &received),
          "receive");
  require(weft_tensor_get_place(received.tensor, &place), "place");
  expect(place == rank % 2, "it is received on the rank's GPU");
  require(weft_world_copy(world, received.tensor, to, NULL, kSeconds), "copy back");
  expect_floats(floats_of(to), 1000, (float)((rank + size - 1) % size + 9), "with its elements");
  require(weft_rendezvous_serve(exchange, kSeconds), "serve");
  require(weft_tensor_free(received.tensor), "free");
  require(weft_rendezvous_close(exchange), "close");
  require(weft_tensor_free(from), "free");
  require(weft_tensor_free(to), "free");
}

/* Rank 1's parameters and gradients lie on its GPU. */
static void check_tables(weft_world* world, int rank) {
  const int64_t dims[1] = {1000};
  const int own = WEFT_PLACE_OWN_GPU;
  const weft_call barrier = {.struct_size = sizeof barrier, .kind = WEFT_COLLECTIVE_BARRIER};
  const weft_table_tensor tensors[1] = {
      {.struct_size = sizeof tensors[0], .name = "w", .dims = dims, .ndims = 1}};
  const weft_table_options options = {.struct_size = sizeof options,
                                      .place = rank == 1 ? &own : NULL};
  weft_collectives* all = NULL;
  weft_parameter_server* server = NULL;
  weft_table* table = NULL;
  weft_tensor *parameter = NULL, *gradient = NULL, *seen = new_floats(world, 1000, 0);
  const void* view = NULL;
  size_t bytes = 0;
  int place = 0;
  require(weft_parameter_server_open(world, NULL, NULL, NULL, &server), "open");
  require(weft_table_open(server, "on a GPU", tensors, 1, &options, kSeconds, &table), "open");
  require(weft_table_parameter(table, "w", &parameter), "parameter");
  require(weft_table_gradient(table, "w", &gradient), "gradient");
  require(weft_tensor_get_place(gradient, &place), "place");
  expect(place == (rank == 1 ? 1 : WEFT_PLACE_HOST), "each worker's lie where it says");
  if (rank == 0) {
    weft_tensor* first = new_floats(world, 1000, 3);
    require(weft_world_copy(world, first, parameter, NULL, kSeconds), "copy");
    require(weft_tensor_free(first), "free");
  }
  require(weft_table_initialize(table, kSeconds), "initialize");
  require(weft_table_push(table), "push");
  require(weft_table_pull(table, kSeconds), "pull");
  require(weft_world_copy(world, parameter, seen, NULL, kSeconds), "copy back");
  expect_floats(floats_of(seen), 1000, 3, "the first rank's values are everybody's");
  if (rank == 1)
    expect_error(weft_table_view(table, "w", &view, &bytes), WEFT_CODE_BAD_ARGUMENT, "GPU 1",
                 "views are of host memory");
  /* The shards stay until all have read them. */
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open");
  require(weft_collectives_run(all, &barrier, kSeconds), "barrier");
  require(weft_collectives_close(all), "close");
  require(weft_tensor_free(parameter), "free");
  require(weft_tensor_free(gradient), "free");
  require(weft_tensor_free(seen), "free");
  require(weft_table_close(table), "close");
  require(weft_parameter_server_close(server), "close");
}

static void body(weft_world* world, int rank, int size) {
  check_texts();
  check_copies(world, rank);
  check_dlpack(world, rank);
  check_queue(world, rank);
  check_slots(world, rank, size);
  check_streams(world, rank, size);
  check_collectives(world, rank);
  check_published(world, rank, size);
  check_rendezvous(world, rank, size);
  check_tables(world, rank);
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
