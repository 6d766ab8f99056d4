/* Two ranks, C only, with a network between them: rank 0 puts into slots of rank 1, which rank 0
 * stops meanwhile. Every put ends by its timeout; one that has begun goes on, and the tensor is
 * lent until weft_put_wait says that the put has ended. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weft.h"

/* More than the sockets between two ranks hold. */
enum { kLarge = 64000000, kSmall = 1000 };

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "failed: %s; last error %d: %s\n", what, (int)weft_error_code(),
          weft_error_text());
}

static void require(weft_code code, const char* what) {
  if (code == WEFT_CODE_OK) return;
  fprintf(stderr, "failed: %s: %s\n", what, weft_error_text());
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static weft_slot_spec spec_of(const char* name, weft_dtype dtype, const int64_t* elements,
                              uint32_t depth) {
  weft_slot_spec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.dims = elements;
  spec.ndims = 1;
  spec.depth = depth;
  return spec;
}

static const int64_t kOne = 1, kLargeDims = kLarge, kSmallDims = kSmall;

static weft_tensor* new_tensor(weft_world* world, weft_dtype dtype, const int64_t* elements,
                               int byte) {
  weft_tensor* tensor = NULL;
  void* data = NULL;
  size_t bytes = 0;
  require(weft_tensor_allocate(world, dtype, elements, 1, &tensor), "allocate");
  require(weft_tensor_data(tensor, &data), "data");
  require(weft_tensor_bytes(tensor, &bytes), "bytes");
  memset(data, byte, bytes);
  return tensor;
}

static weft_remote_slot* attached(weft_world* world, int owner, const weft_slot_spec* spec) {
  weft_remote_slot* remote = NULL;
  require(weft_slot_attach(world, owner, spec, 20, &remote), "attach");
  return remote;
}

/* A put must not take much longer than its timeout, however busy the machine is. */
static weft_code timed_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout) {
  const double started = now();
  const weft_code code = weft_put(remote, tensor, timeout);
  expect(now() - started < timeout + 10, "a put ends by its timeout");
  return code;
}

static void put_while_stopped(weft_world* world, weft_remote_slot* remote, pid_t owner) {
  weft_tensor* first = new_tensor(world, WEFT_DTYPE_U8, &kLargeDims, 1);
  weft_tensor* second = new_tensor(world, WEFT_DTYPE_U8, &kLargeDims, 2);
  void* data = NULL;

  expect(weft_put_wait(remote, 0) == WEFT_CODE_OK, "no put is under way before the first");
  kill(owner, SIGSTOP);
  expect(timed_put(remote, first, 0) == WEFT_CODE_UNDER_WAY, "a put that has begun goes on");
  expect(weft_error_code() == WEFT_CODE_UNDER_WAY &&
             strstr(weft_error_text(), "weft_put_wait") != NULL,
         "the text says how to learn of its end");
  expect(weft_put_wait(remote, 0.1) == WEFT_CODE_UNDER_WAY, "it is under way while rank 1 stops");
  expect(timed_put(remote, second, 0.1) == WEFT_CODE_TIMEOUT, "the next put waits for it");
  expect(strstr(weft_error_text(), "nothing was sent of this one") != NULL, "and says so");
  kill(owner, SIGCONT);
  require(weft_put_wait(remote, 30), "the put ends once rank 1 goes on");
  require(weft_tensor_data(first, &data), "data");
  memset(data, 9, kLarge); /* which must not arrive */
  require(weft_put(remote, second, 30), "a put of the other tensor");
  require(weft_tensor_free(first), "free");
  require(weft_tensor_free(second), "free");
}

static void put_without_a_buffer(weft_world* world, weft_remote_slot* remote) {
  weft_tensor* tensor = new_tensor(world, WEFT_DTYPE_U8, &kSmallDims, 3);
  require(weft_put(remote, tensor, 20), "put into the only buffer");
  expect(timed_put(remote, tensor, 0.05) == WEFT_CODE_TIMEOUT, "without a buffer nothing is sent");
  expect(strstr(weft_error_text(), "withdrawn") != NULL &&
             strstr(weft_error_text(), "cancel()") == NULL,
         "the text says so, and names no call that C has not");
  expect(weft_put_wait(remote, 0) == WEFT_CODE_OK, "a put that was withdrawn is not under way");
  require(weft_tensor_free(tensor), "free");
}

static void run_writer(weft_world* world, weft_slot_spec pid_spec, weft_slot_spec large,
                       weft_slot_spec small, weft_slot_spec done) {
  weft_slot* pid_slot = NULL;
  weft_arrival* arrival = NULL;
  const void* data = NULL;
  int64_t owner = 0;
  weft_remote_slot *to_large, *to_small, *to_done;
  weft_tensor* word = new_tensor(world, WEFT_DTYPE_I64, &kOne, 0);

  require(weft_slot_expose(world, &pid_spec, &pid_slot), "expose");
  to_large = attached(world, 1, &large);
  to_small = attached(world, 1, &small);
  to_done = attached(world, 1, &done);
  require(weft_slot_wait(pid_slot, 20, &arrival), "wait for rank 1's process");
  require(weft_arrival_data(arrival, &data), "arrival data");
  memcpy(&owner, data, sizeof owner);
  require(weft_arrival_release(arrival), "release");

  put_while_stopped(world, to_large, (pid_t)owner);
  put_without_a_buffer(world, to_small);
  require(weft_put(to_done, word, 20), "put that all is done");
  require(weft_tensor_free(word), "free");
  require(weft_remote_slot_close(to_large), "close");
  require(weft_remote_slot_close(to_small), "close");
  require(weft_remote_slot_close(to_done), "close");
  require(weft_slot_close(pid_slot), "close");
}

static void expect_arrival(weft_slot* slot, size_t bytes, unsigned char byte, const char* what) {
  weft_arrival* arrival = NULL;
  const void* data = NULL;
  size_t size = 0, i, wrong = 0;
  require(weft_slot_wait(slot, 30, &arrival), what);
  require(weft_arrival_data(arrival, &data), "arrival data");
  require(weft_arrival_bytes(arrival, &size), "arrival bytes");
  for (i = 0; i < bytes && i < size; ++i) wrong += ((const unsigned char*)data)[i] != byte;
  expect(size == bytes && wrong == 0, what);
  require(weft_arrival_release(arrival), "release");
}

static void run_owner(weft_world* world, weft_slot_spec pid_spec, weft_slot_spec large_spec,
                      weft_slot_spec small_spec, weft_slot_spec done_spec) {
  weft_slot *large = NULL, *small = NULL, *done = NULL;
  weft_arrival* arrival = NULL;
  weft_remote_slot* to_pid = NULL;
  weft_tensor* pid = new_tensor(world, WEFT_DTYPE_I64, &kOne, 0);
  void* data = NULL;
  const int64_t own = (int64_t)getpid();

  require(weft_slot_expose(world, &large_spec, &large), "expose");
  require(weft_slot_expose(world, &small_spec, &small), "expose");
  require(weft_slot_expose(world, &done_spec, &done), "expose");
  to_pid = attached(world, 0, &pid_spec);
  require(weft_tensor_data(pid, &data), "data");
  memcpy(data, &own, sizeof own);
  require(weft_put(to_pid, pid, 20), "put this process' number");
  require(weft_remote_slot_close(to_pid), "close");
  require(weft_tensor_free(pid), "free");

  expect_arrival(large, kLarge, 1, "the put that went on arrives as it was lent");
  expect_arrival(large, kLarge, 2, "then the next, once");
  require(weft_slot_wait(done, 60, &arrival), "wait for the end");
  require(weft_arrival_release(arrival), "release");
  expect(weft_slot_wait(large, 0.05, &arrival) != WEFT_CODE_OK, "no other large tensor arrives");
  expect_arrival(small, kSmall, 3, "the put that had a buffer arrives");
  expect(weft_slot_wait(small, 0.05, &arrival) != WEFT_CODE_OK, "the one withdrawn does not");
  require(weft_slot_close(large), "close");
  require(weft_slot_close(small), "close");
  require(weft_slot_close(done), "close");
}

int main(void) {
  weft_world* world = NULL;
  int rank = -1;
  const weft_slot_spec pid = spec_of("pid", WEFT_DTYPE_I64, &kOne, 1);
  const weft_slot_spec large = spec_of("large", WEFT_DTYPE_U8, &kLargeDims, 2);
  const weft_slot_spec small = spec_of("small", WEFT_DTYPE_U8, &kSmallDims, 1);
  const weft_slot_spec done = spec_of("done", WEFT_DTYPE_I64, &kOne, 1);

  require(weft_join(&world), "join");
  require(weft_rank(world, &rank), "rank");
  if (rank == 0)
    run_writer(world, pid, large, small, done);
  else
    run_owner(world, pid, large, small, done);
  require(weft_leave(world, 30), "leave");
  return failures == 0 ? 0 : 1;
}
