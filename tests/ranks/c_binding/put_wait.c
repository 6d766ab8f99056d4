/* Two ranks, C only: rank 0 puts tensors into a slot of rank 1, which checks every element; before
 * that a writer with the wrong element type is refused on both sides, and both are told why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft.h"

enum { kElements = 1000, kTensors = 20, kDepth = 2 };

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

static int32_t element(int tensor, int index) { return tensor * 7919 + index; }

/* The text must hold both sides' values. */
static void expect_both_types(const char* side) {
  char what[80];
  snprintf(what, sizeof what, "%s is told both element types", side);
  expect(weft_error_code() == WEFT_CODE_MISMATCH && strstr(weft_error_text(), "f64") != NULL &&
             strstr(weft_error_text(), "i32") != NULL,
         what);
}

static void write_tensors(weft_world* world, const weft_slot_spec* spec) {
  weft_slot_spec wrong = *spec;
  weft_remote_slot* remote = NULL;
  weft_tensor* tensor = NULL;
  void* data = NULL;
  int t, i;

  wrong.dtype = WEFT_DTYPE_F64;
  expect(weft_slot_attach(world, 1, &wrong, 20, &remote) == WEFT_CODE_MISMATCH && remote == NULL,
         "an attach with the wrong element type is refused");
  expect_both_types("the writer");

  require(weft_slot_attach(world, 1, spec, 20, &remote), "attach");
  require(weft_tensor_allocate(world, spec->dtype, spec->dims, spec->ndims, &tensor), "allocate");
  require(weft_tensor_data(tensor, &data), "data");
  for (t = 0; t < kTensors; ++t) {
    for (i = 0; i < kElements; ++i) ((int32_t*)data)[i] = element(t, i);
    require(weft_put(remote, tensor, 20), "put");
  }
  require(weft_tensor_free(tensor), "free");
  expect(weft_leave(world, 1) == WEFT_CODE_BAD_ARGUMENT, "leaving with an open slot is refused");
  require(weft_remote_slot_close(remote), "close the remote slot");
}

/* The next tensor. The owner is told of the refused writer once, before some tensor or after the
 * last one. */
static weft_code next_arrival(weft_slot* slot, double timeout_seconds, int* refusals,
                              weft_arrival** arrival) {
  weft_code code = weft_slot_wait(slot, timeout_seconds, arrival);
  if (code != WEFT_CODE_MISMATCH) return code;
  expect(*arrival == NULL, "a failing wait gives no arrival");
  expect_both_types("the owner");
  ++*refusals;
  return weft_slot_wait(slot, timeout_seconds, arrival);
}

static void check_tensor(weft_slot* slot, int t, int* refusals) {
  weft_arrival* arrival = NULL;
  const void* data = NULL;
  size_t bytes = 0;
  uint64_t sequence = 0;
  int i, wrong = 0;

  require(next_arrival(slot, 20, refusals, &arrival), "wait");
  require(weft_arrival_data(arrival, &data), "arrival data");
  require(weft_arrival_bytes(arrival, &bytes), "arrival bytes");
  require(weft_arrival_sequence(arrival, &sequence), "arrival sequence");
  expect(bytes == kElements * sizeof(int32_t), "an arrival has the slot's size");
  expect(sequence == (uint64_t)t + 1, "arrivals come in the order of the puts");
  for (i = 0; i < kElements; ++i) wrong += ((const int32_t*)data)[i] != element(t, i);
  expect(wrong == 0, "every element is the one that was put");
  expect(weft_slot_close(slot) == WEFT_CODE_BAD_ARGUMENT,
         "closing a slot with a held arrival is refused");
  require(weft_arrival_release(arrival), "release");
}

static void read_tensors(weft_world* world, const weft_slot_spec* spec) {
  weft_slot* slot = NULL;
  weft_slot* twin = NULL;
  weft_arrival* arrival = NULL;
  int t, refusals = 0;

  require(weft_slot_expose(world, spec, &slot), "expose");
  expect(weft_slot_expose(world, spec, &twin) == WEFT_CODE_DUPLICATE_NAME && twin == NULL,
         "a second slot of the same name is refused");
  for (t = 0; t < kTensors; ++t) check_tensor(slot, t, &refusals);
  expect(next_arrival(slot, 0.1, &refusals, &arrival) != WEFT_CODE_OK, "nothing else arrives");
  expect(refusals == 1, "the owner learns of the refused writer, once");
  require(weft_slot_close(slot), "close the slot");
}

static void check_null_arguments(weft_world* world) {
  int rank = -1;
  expect(weft_rank(NULL, &rank) == WEFT_CODE_BAD_ARGUMENT && rank == -1, "a NULL world is refused");
  expect(strstr(weft_error_text(), "world is NULL") != NULL, "the text names the NULL argument");
  expect(weft_rank(world, NULL) == WEFT_CODE_BAD_ARGUMENT, "a NULL output is refused");
  expect(weft_put(NULL, NULL, 1) == WEFT_CODE_BAD_ARGUMENT, "a put with no handles is refused");
}

int main(void) {
  const int64_t dims[2] = {kElements / 10, 10};
  weft_slot_spec spec;
  weft_world* world = NULL;
  int rank = -1, size = 0;

  spec.name = "numbers";
  spec.dtype = WEFT_DTYPE_I32;
  spec.dims = dims;
  spec.ndims = 2;
  spec.depth = kDepth;

  expect(weft_error_code() == WEFT_CODE_OK && weft_error_text()[0] == '\0',
         "there is no error before the first");
  require(weft_join(&world), "join");
  require(weft_rank(world, &rank), "rank");
  require(weft_size(world, &size), "size");
  expect(size == 2, "the job has two ranks");
  check_null_arguments(world);
  if (rank == 0)
    write_tensors(world, &spec);
  else
    read_tensors(world, &spec);
  require(weft_leave(world, 20), "leave");
  return failures == 0 ? 0 : 1;
}
