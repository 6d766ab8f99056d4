/* Messages and signals from C. */
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 5000 }; /* more than an eager message holds */

static weft_message_info message_info(void) {
  const weft_message_info info = {.struct_size = sizeof info};
  return info;
}

static void check_blocking(weft_world* world, int rank) {
  weft_tensor *mine = new_floats(world, kFloats, (float)rank * 10), *theirs = NULL;
  weft_message_info info = message_info();
  const int peer = 1 - rank;
  theirs = new_tensor(world, WEFT_DTYPE_F32, kFloats);
  require(
      weft_message_sendrecv(world, peer, 7, mine, peer, 7, WEFT_EXACT_TAG, theirs, kSeconds, &info),
      "send and receive");
  expect_floats(floats_of(theirs), kFloats, (float)peer * 10, "the peer's tensor");
  expect(info.source == peer && info.tag == 7 && info.bytes == kFloats * sizeof(float) &&
             info.dtype == WEFT_DTYPE_F32,
         "the message is described");
  if (rank == 0) {
    require(weft_message_send(world, peer, 0x1234, mine, kSeconds), "send");
  } else {
    int found = 0;
    require(weft_message_probe(world, WEFT_ANY_SOURCE, 0x1200, 0xff00, kSeconds, &info), "probe");
    expect(info.tag == 0x1234 && info.source == 0, "a masked tag matches");
    require(weft_message_iprobe(world, 0, 0x1235, WEFT_EXACT_TAG, &info, &found), "iprobe");
    expect(!found, "another tag does not");
    require(weft_message_iprobe(world, 0, 0, WEFT_ANY_TAG, &info, &found), "iprobe");
    expect(found, "any tag does");
    require(weft_message_recv(world, 0, 0x1234, WEFT_EXACT_TAG, theirs, kSeconds, NULL), "receive");
    expect_floats(floats_of(theirs), kFloats, 0, "what was probed");
  }
  require(weft_tensor_free(mine), "free");
  require(weft_tensor_free(theirs), "free");
}

static void check_requests(weft_world* world, int rank) {
  const int peer = 1 - rank;
  weft_tensor *mine = new_floats(world, kFloats, 1), *theirs = NULL, *small = NULL;
  weft_message_request *all[3] = {NULL, NULL, NULL}, *twice[2];
  weft_message_info info = message_info();
  size_t index = 9;
  int ended = 0;
  theirs = new_tensor(world, WEFT_DTYPE_F32, kFloats);
  small = new_tensor(world, WEFT_DTYPE_F32, 1);
  require(weft_message_irecv(world, peer, 99, WEFT_EXACT_TAG, small, &all[0]), "receive nothing");
  require(weft_message_irecv(world, peer, 3, WEFT_EXACT_TAG, theirs, &all[1]), "receive");
  require(weft_message_isend(world, peer, 3, mine, &all[2]), "send");
  twice[0] = twice[1] = all[2];
  expect_error(weft_message_wait_all(world, twice, 2, kSeconds), WEFT_CODE_BAD_ARGUMENT, "twice",
               "a request is listed once");
  require(weft_message_wait_all(world, all + 1, 2, kSeconds), "wait for all");
  require(weft_message_request_wait(all[1], kSeconds, &info), "its message");
  expect(info.source == peer && info.tag == 3, "a request that was waited for has its message");
  expect_floats(floats_of(theirs), kFloats, 1, "it has arrived");
  require(weft_message_wait_any(world, all, 3, kSeconds, &index), "wait for any");
  expect(index == 1 || index == 2, "one that has ended");
  require(weft_message_request_test(all[0], &ended), "test");
  expect(!ended, "no message matches the first");
  expect(weft_message_request_wait(all[0], 0.01, &info) == WEFT_CODE_TIMEOUT, "nor later");
  expect(weft_message_request_cancel(all[0]) == WEFT_CODE_CANCELLED, "so it is cancelled");
  expect(weft_message_request_wait(all[0], 1, NULL) == WEFT_CODE_CANCELLED, "as its end tells");
  weft_wait_set set = {.struct_size = sizeof set, .messages = all + 1, .message_count = 2};
  require(weft_wait_any(world, &set, kSeconds, &index), "wait for any of a set");
  expect(index < 2, "a message that has ended");
  for (int i = 0; i < 3; ++i) require(weft_message_request_free(all[i]), "free");
  require(weft_tensor_free(mine), "free");
  require(weft_tensor_free(theirs), "free");
  require(weft_tensor_free(small), "free");
}

static void check_refusals(weft_world* world, int rank) {
  weft_tensor* tensor = new_floats(world, 1, 0);
  weft_message_request* request = NULL;
  weft_message_info info = message_info();
  expect(weft_message_send(world, 17, 0, tensor, kSeconds) == WEFT_CODE_BAD_ARGUMENT, "no rank 17");
  expect(weft_message_recv(world, 1 - rank, 5, WEFT_EXACT_TAG, tensor, 0.01, &info) ==
             WEFT_CODE_TIMEOUT,
         "nothing was sent");
  require(weft_message_irecv(world, 1 - rank, 5, WEFT_EXACT_TAG, tensor, &request), "receive");
  expect_error(weft_leave(world, 1), WEFT_CODE_BAD_ARGUMENT, "still open",
               "a world is not left before its requests");
  require(weft_message_request_free(request), "free");
  require(weft_tensor_free(tensor), "free");
}

static void check_own_signal(weft_world* world) {
  weft_signal *signal = NULL, *twin = NULL;
  uint64_t value = 0;
  require(weft_signal_expose(world, "own", 5, &signal), "expose");
  expect(weft_signal_expose(world, "own", 0, &twin) == WEFT_CODE_DUPLICATE_NAME, "one of a name");
  require(weft_signal_fetch_add(signal, 2, &value), "add");
  expect(value == 5, "an addition has the value before");
  require(weft_signal_compare_swap(signal, 7, 0, &value), "swap");
  expect(value == 7, "a swap too");
  require(weft_signal_compare_swap(signal, 7, 99, NULL), "no swap");
  require(weft_signal_value(signal, &value), "value");
  expect(value == 0, "a swap stores where the value is expected, and only there");
  require(weft_signal_close(signal), "close");
}

static void run_owner(weft_world* world) {
  const int64_t dims = kFloats;
  const weft_slot_spec spec = {"with signal", WEFT_DTYPE_F32, &dims, 1, 1};
  weft_signal* signal = NULL;
  weft_slot* slot = NULL;
  weft_arrival* arrival = NULL;
  const int peer = 1;
  int ready = 0;
  uint64_t value = 0;
  require(weft_slot_expose(world, &spec, &slot), "expose");
  check_own_signal(world);
  require(weft_signal_expose(world, "bell", 0, &signal), "expose");
  require(weft_signal_also_needs(signal, &peer, 1), "also needs");
  require(weft_signal_wait_at_least(signal, 1000, kSeconds, &value), "wait");
  expect(value >= 1000, "the signal's value");
  require(weft_slot_ready(slot, &ready), "ready");
  expect(ready, "a put with a signal has arrived when the signal tells");
  require(weft_slot_wait(slot, kSeconds, &arrival), "wait");
  require(weft_arrival_release(arrival), "release");
  require(weft_signal_wait_at_least(signal, 2000, kSeconds, NULL), "wait for the end");
  expect(weft_signal_wait_at_least(signal, 9000, 0.01, &value) != WEFT_CODE_OK, "no more");
  require(weft_signal_close(signal), "close");
  require(weft_slot_close(slot), "close");
}

static void run_peer(weft_world* world) {
  weft_remote_signal* remote = NULL;
  weft_remote_slot* slot = NULL;
  weft_tensor* tensor = new_floats(world, kFloats, 0);
  uint64_t value = 99;
  int owner = 9, direct = 9;
  require(weft_slot_attach_by_name(world, 0, "with signal", kSeconds, &slot), "attach");
  require(weft_remote_signal_attach(world, 0, "bell", kSeconds, &remote), "attach");
  require(weft_remote_signal_owner(remote, &owner), "owner");
  require(weft_remote_signal_is_direct(remote, &direct), "direct");
  expect(owner == 0 && (direct == 0 || direct == 1), "a remote signal knows its owner");
  require(weft_remote_signal_add(remote, 1), "add");
  require(weft_remote_signal_fetch_add(remote, 9, kSeconds, &value), "add");
  require(weft_remote_signal_compare_swap(remote, 12345, 1, kSeconds, &value), "no swap");
  expect(value != 12345, "the value is another one");
  require(weft_remote_signal_put(remote, slot, tensor, 1000, kSeconds), "put and add");
  require(weft_remote_signal_add(remote, 1000), "the end");
  require(weft_remote_signal_close(remote), "close");
  require(weft_remote_slot_close(slot), "close");
  require(weft_tensor_free(tensor), "free");
}

static void body(weft_world* world, int rank, int size) {
  expect(size == 2, "two ranks");
  check_blocking(world, rank);
  check_requests(world, rank);
  check_refusals(world, rank);
  if (rank == 0)
    run_owner(world);
  else
    run_peer(world);
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
