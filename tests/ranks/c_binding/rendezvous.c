/* Rendezvous from C: tensors, dead ones, errors, encoded values, several at once, an observer. */
#include <pthread.h>
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 3000 };

static pthread_mutex_t seen_mutex = PTHREAD_MUTEX_INITIALIZER;
static int seen_requests = 0, seen_wrong = 0;

static void observe(void* context, const weft_rendezvous_event* event) {
  const int* const peer = context;
  pthread_mutex_lock(&seen_mutex);
  if (event->message == WEFT_RENDEZVOUS_TENSOR_REQUEST) {
    ++seen_requests;
    seen_wrong += event->struct_size != sizeof *event || event->peer != *peer || event->sent ||
                  event->key_bytes == 0;
  }
  pthread_mutex_unlock(&seen_mutex);
}

static void send_all(weft_rendezvous* exchange, weft_world* world) {
  weft_tensor* tensor = new_floats(world, kFloats, 4);
  int lent = 1;
  require(weft_rendezvous_send(exchange, 1, "weights", 0, tensor, kSeconds), "send");
  expect(
      weft_rendezvous_send(exchange, 1, "weights", 0, tensor, kSeconds) == WEFT_CODE_BAD_ARGUMENT,
      "a key and step are offered once");
  require(weft_rendezvous_send(exchange, 1, "weights", 1, tensor, kSeconds), "send");
  require(weft_rendezvous_send_dead(exchange, 1, "dead", 0, kSeconds), "send a dead one");
  require(weft_rendezvous_send_error(exchange, 1, "error", 0, WEFT_CODE_EXHAUSTED, "no more of it",
                                     kSeconds),
          "send an error");
  expect(weft_rendezvous_send_error(exchange, 1, "error", 1, WEFT_CODE_UNDER_WAY, "", kSeconds) ==
             WEFT_CODE_BAD_ARGUMENT,
         "only C++'s codes travel");
  require(weft_rendezvous_send_encoded(exchange, 1, "encoded", 0, 42, "five.", 5, kSeconds),
          "send encoded bytes");
  expect(weft_rendezvous_send_encoded(exchange, 1, "encoded", 1, 0, "x", 1, kSeconds) ==
             WEFT_CODE_BAD_ARGUMENT,
         "0 is no codec");
  require(weft_rendezvous_serve(exchange, kSeconds), "serve");
  require(weft_rendezvous_lent(exchange, 1, "weights", 0, &lent), "lent");
  expect(!lent, "what was fetched is the caller's again");
  require(weft_tensor_free(tensor), "free");
}

static void receive_all(weft_rendezvous* exchange) {
  const char* const keys[2] = {"weights", "error"};
  const uint64_t steps[2] = {1, 0};
  weft_received one = {.struct_size = sizeof one}, many[2] = {{.struct_size = sizeof many[0]}};
  int ready = 1;
  require(weft_rendezvous_ready(exchange, 0, "nothing", 0, &ready), "ready");
  expect(!ready, "nothing has been offered");
  expect(weft_rendezvous_recv(exchange, 0, "nothing", 0, 0.01, &one) == WEFT_CODE_TIMEOUT,
         "nor later");
  require(weft_rendezvous_cancel(exchange, 0, "nothing", 0), "cancel");
  require(weft_rendezvous_recv(exchange, 0, "weights", 0, kSeconds, &one), "receive");
  expect(!one.is_dead && one.codec == 0, "a plain tensor");
  expect_floats(floats_of(one.tensor), kFloats, 4, "with its elements");
  require(weft_tensor_free(one.tensor), "free");
  require(weft_rendezvous_recv(exchange, 0, "dead", 0, kSeconds, &one), "receive");
  expect(one.is_dead && one.tensor == NULL, "a dead tensor");
  require(weft_rendezvous_recv(exchange, 0, "encoded", 0, kSeconds, &one), "receive");
  expect(one.codec == 42 && memcmp(data_of(one.tensor), "five.", 5) == 0, "the encoded bytes");
  require(weft_tensor_free(one.tensor), "free");
  expect_error(weft_rendezvous_recv_many(exchange, 0, keys, steps, 2, kSeconds, many),
               WEFT_CODE_EXHAUSTED, "no more of it", "the first failure of several");
  expect(many[0].code == WEFT_CODE_OK && many[0].tensor != NULL &&
             many[1].code == WEFT_CODE_EXHAUSTED && many[1].tensor == NULL &&
             many[1].struct_size == sizeof many[0],
         "each of several has its own end");
  expect_floats(floats_of(many[0].tensor), kFloats, 4, "with its elements");
  require(weft_tensor_free(many[0].tensor), "free");
}

static void body(weft_world* world, int rank, int size) {
  int peer = 1 - rank;
  weft_group* group = NULL;
  weft_rendezvous *exchange = NULL, *of_group = NULL;
  weft_rendezvous_spec spec = {.struct_size = sizeof spec, .name = "c", .message_bytes = 1};
  weft_received received = {.struct_size = sizeof received};
  expect(size == 2, "two ranks");
  expect(weft_rendezvous_open(world, NULL, &spec, kSeconds, &exchange) == WEFT_CODE_BAD_ARGUMENT,
         "messages of 1 byte are refused");
  spec.message_bytes = 0;
  spec.no_metadata_cache = 1;
  if (rank == 0) {
    spec.observer = observe;
    spec.observer_context = &peer;
  }
  require(weft_rendezvous_open(world, NULL, &spec, kSeconds, &exchange), "open");
  require(weft_world_group(world, &group), "group");
  require(weft_rendezvous_open(world, group, NULL, kSeconds, &of_group), "open for a group");
  if (rank == 0) {
    send_all(exchange, world);
    expect(seen_requests > 0, "the observer sees the requests");
    expect(seen_wrong == 0, "of the peer, each with its key");
    require(weft_rendezvous_send_dead(of_group, 1, "end", 0, kSeconds), "end");
    require(weft_rendezvous_serve(of_group, kSeconds), "serve");
  } else {
    receive_all(exchange);
    require(weft_rendezvous_recv(of_group, 0, "end", 0, kSeconds, &received), "end");
  }
  require(weft_rendezvous_close(of_group), "close");
  require(weft_rendezvous_close(exchange), "close");
  require(weft_group_free(group), "free");
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
