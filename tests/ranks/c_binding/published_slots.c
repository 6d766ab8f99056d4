/* Published slots from C: versions viewed and got, runs, and the wait for one of several handles.
 */
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 1000 };
static const int64_t kDims = kFloats;

static weft_published_spec spec_of(const char* name, uint32_t depth) {
  const weft_published_spec spec = {.struct_size = sizeof spec,
                                    .name = name,
                                    .dims = &kDims,
                                    .ndims = 1,
                                    .dtype = WEFT_DTYPE_F32,
                                    .depth = depth};
  return spec;
}

static void publish(weft_published_slot* slot, float first) {
  weft_tensor* next = NULL;
  require(weft_published_slot_next(slot, kSeconds, &next), "next");
  for (int i = 0; i < kFloats; ++i) floats_of(next)[i] = first + (float)i;
  require(weft_published_slot_publish(slot), "publish");
  require(weft_tensor_free(next), "free");
}

/* A word from one rank to the other: that a step is done. */
typedef struct step_word {
  weft_slot* own;
  weft_remote_slot* peers;
  weft_tensor* word;
} step_word;

static step_word new_step_word(weft_world* world, int peer) {
  const weft_slot_spec spec = {"step", WEFT_DTYPE_F32, NULL, 0, 2};
  step_word made = {NULL, NULL, NULL};
  require(weft_slot_expose(world, &spec, &made.own), "expose");
  require(weft_slot_attach(world, peer, &spec, kSeconds, &made.peers), "attach");
  require(weft_tensor_allocate(world, WEFT_DTYPE_F32, NULL, 0, &made.word), "allocate");
  floats_of(made.word)[0] = 0;
  return made;
}

static void say(step_word* step) { require(weft_put(step->peers, step->word, kSeconds), "say"); }

static void hear(step_word* step) {
  weft_arrival* arrival = NULL;
  require(weft_slot_wait(step->own, kSeconds, &arrival), "hear");
  require(weft_arrival_release(arrival), "release");
}

static void free_step_word(step_word* step) {
  require(weft_slot_close(step->own), "close");
  require(weft_remote_slot_close(step->peers), "close");
  require(weft_tensor_free(step->word), "free");
}

static void run_owner(weft_world* world, step_word* step) {
  weft_published_spec spec = spec_of("news", 0);
  weft_published_slot *slot = NULL, *twin = NULL;
  weft_tensor* none = NULL;
  weft_slot_info info = {.struct_size = sizeof info};
  const int peer = 1;
  int readers = 0;
  require(weft_published_slot_expose(world, &spec, &slot), "expose");
  expect(weft_published_slot_expose(world, &spec, &twin) == WEFT_CODE_DUPLICATE_NAME,
         "one slot of a name");
  require(weft_published_slot_get_info(slot, &info), "info");
  expect(strcmp(info.name, "news") == 0 && info.depth == 1 && info.owner == 0, "the owner's info");
  require(weft_published_slot_also_needs(slot, &peer, 1, WEFT_NEEDED_ALWAYS), "also needs");
  expect(weft_published_slot_publish(slot) == WEFT_CODE_BAD_ARGUMENT, "nothing to publish");
  publish(slot, 1);
  hear(step); /* rank 1 views version 1 */
  require(weft_published_slot_readers(slot, &readers), "readers");
  expect(readers == 1, "one rank is attached");
  expect(weft_published_slot_next(slot, 0.01, &none) == WEFT_CODE_TIMEOUT && none == NULL,
         "the only buffer is viewed");
  say(step);
  hear(step); /* rank 1 has released it */
  publish(slot, 2);
  hear(step); /* rank 1 has got it */
  publish(slot, 3);
  hear(step); /* rank 1 needs the slot no more */
  require(weft_published_slot_close(slot), "close");
}

static void check_view(weft_published_reader* reader, step_word* step) {
  weft_arrival* arrival = NULL;
  const void* data = NULL;
  uint64_t version = 0;
  int ready = 1;
  require(weft_published_reader_view(reader, kSeconds, &arrival), "view");
  require(weft_arrival_data(arrival, &data), "data");
  require(weft_arrival_sequence(arrival, &version), "version");
  expect_floats(data, kFloats, 1, "version 1 has its elements");
  expect(version == 1, "versions count from 1");
  require(weft_published_reader_ready(reader, &ready), "ready");
  expect(!ready, "no newer version");
  expect_error(weft_published_reader_close(reader), WEFT_CODE_BAD_ARGUMENT, "arrivals",
               "a reader is not closed before its arrivals");
  say(step);
  hear(step);
  require(weft_arrival_release(arrival), "release");
  say(step);
}

static void check_gets(weft_world* world, weft_published_reader* reader, step_word* step) {
  weft_tensor* into = new_floats(world, kFloats, 0);
  float first[2] = {0, 0}, last[3] = {0, 0, 0};
  const int64_t firsts[2] = {10, kFloats - 3}, counts[2] = {2, 3}, outside[1] = {kFloats};
  void* const targets[2] = {first, last};
  require(weft_published_reader_get(reader, into, kSeconds), "get");
  expect_floats(floats_of(into), kFloats, 2, "version 2 is copied");
  expect(weft_published_reader_get(reader, into, 0.01) == WEFT_CODE_TIMEOUT, "it was seen");
  require(weft_published_reader_see_again(reader), "see again");
  require(weft_published_reader_get_runs(reader, firsts, counts, targets, 2, kSeconds), "get runs");
  expect_floats(first, 2, 12, "the first run has its elements");
  expect_floats(last, 3, 2 + kFloats - 3, "the last too");
  require(weft_published_reader_see_again(reader), "see again");
  expect(weft_published_reader_get_runs(reader, outside, counts, targets, 1, kSeconds) ==
             WEFT_CODE_BAD_ARGUMENT,
         "a run outside the slot is refused");
  require(weft_published_reader_get(reader, into, kSeconds), "get again");
  say(step);
  require(weft_tensor_free(into), "free");
}

static void check_wait_any(weft_world* world, weft_published_reader* reader, step_word* step) {
  const weft_slot_spec quiet = {"quiet", WEFT_DTYPE_F32, &kDims, 1, 1};
  weft_slot* silent = NULL;
  weft_remote_slot* to_self = NULL;
  weft_request* request = NULL;
  weft_tensor* tensor = new_floats(world, kFloats, 4);
  weft_arrival* arrival = NULL;
  const int64_t firsts[1] = {4}, counts[1] = {2};
  size_t index = 99, bytes = 0;
  require(weft_slot_expose(world, &quiet, &silent), "expose");
  require(weft_slot_attach(world, 1, &quiet, kSeconds, &to_self), "attach to self");
  weft_wait_set set = {.struct_size = sizeof set,
                       .slots = &silent,
                       .slot_count = 1,
                       .readers = &reader,
                       .reader_count = 1};
  require(weft_wait_any(world, &set, kSeconds, &index), "wait for any");
  expect(index == 1, "the reader has version 3");
  require(weft_published_reader_view_runs(reader, firsts, counts, 1, kSeconds, &arrival), "view");
  require(weft_arrival_bytes(arrival, &bytes), "bytes");
  expect(bytes >= 2 * sizeof(float), "a view of runs has them");
  require(weft_arrival_release(arrival), "release");
  expect(weft_wait_any(world, &set, 0.01, &index) == WEFT_CODE_TIMEOUT, "nothing is ready");

  require(weft_put_start(to_self, (const weft_tensor* const*)&tensor, 1, WEFT_UNTIL_DELIVERED,
                         &request),
          "put");
  set.requests = &request;
  set.request_count = 1;
  require(weft_wait_any(world, &set, kSeconds, &index), "wait for any");
  expect(index == 0 || index == 1, "the slot or the request is ready");
  set.slot_count = set.reader_count = set.request_count = 0;
  expect(weft_wait_any(world, &set, kSeconds, &index) == WEFT_CODE_BAD_ARGUMENT,
         "an empty set is refused");
  require(weft_request_free(request), "free");
  require(weft_remote_slot_close(to_self), "close");
  require(weft_slot_close(silent), "close");
  require(weft_tensor_free(tensor), "free");
  say(step);
}

static void run_reader(weft_world* world, step_word* step) {
  weft_published_spec wrong = spec_of("news", 7);
  weft_published_reader *reader = NULL, *none = NULL;
  weft_slot_info info = {.struct_size = sizeof info};
  weft_arrival* arrival = NULL;
  const int peer = 0;
  expect(weft_published_reader_attach(world, 0, &wrong, kSeconds, &none) == WEFT_CODE_MISMATCH,
         "the depth is compared");
  require(weft_published_reader_attach_by_name(world, 0, "news", kSeconds, &reader), "attach");
  require(weft_published_reader_get_info(reader, &info), "info");
  expect(info.depth == 1 && info.owner == 0 && info.dims[0] == kFloats, "the reader's info");
  require(weft_published_reader_also_needs(reader, &peer, 1, WEFT_NEEDED_ALWAYS), "also needs");
  check_view(reader, step);
  check_gets(world, reader, step);
  check_wait_any(world, reader, step);
  const weft_code code = weft_published_reader_view(reader, kSeconds, &arrival);
  expect((code == WEFT_CODE_CLOSED || code == WEFT_CODE_PEER_LEFT) && arrival == NULL,
         "a closed slot has no further version");
  require(weft_published_reader_close(reader), "close");
}

static void body(weft_world* world, int rank, int size) {
  step_word step = new_step_word(world, 1 - rank);
  expect(size == 2, "two ranks");
  if (rank == 0)
    run_owner(world, &step);
  else
    run_reader(world, &step);
  free_step_word(&step);
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
