/* Bodies of the conformance suite in C: slots, published slots, messages, signals and collectives
 * around a ring of any number of ranks. tests/ranks/python has them in Python. */
#include <string.h>

#include "c_ranks.h"

enum { kFloats = 32, kSteps = 20 };

typedef struct ring {
  weft_world* world;
  int rank, size, next, last;
} ring;

static void slots_keep_the_order(const ring* job) {
  const int64_t dims[2] = {4, 8};
  const weft_slot_spec spec = {"ring", WEFT_DTYPE_F32, dims, 2, 2};
  weft_slot* slot = NULL;
  weft_remote_slot* remote = NULL;
  weft_tensor* tensor = NULL;
  require(weft_tensor_allocate(job->world, WEFT_DTYPE_F32, dims, 2, &tensor), "allocate");
  require(weft_slot_expose(job->world, &spec, &slot), "expose");
  require(weft_slot_attach(job->world, job->next, &spec, kSeconds, &remote), "attach");
  for (int step = 1; step <= kSteps; ++step) {
    weft_arrival* arrival = NULL;
    const void* data = NULL;
    uint64_t sequence = 0;
    for (int i = 0; i < kFloats; ++i)
      floats_of(tensor)[i] = (float)(1000 * job->rank + 100 * step + i);
    require(weft_put(remote, tensor, kSeconds), "put");
    require(weft_slot_wait(slot, kSeconds, &arrival), "wait");
    require(weft_arrival_data(arrival, &data), "data");
    require(weft_arrival_sequence(arrival, &sequence), "sequence");
    expect(sequence == (uint64_t)step, "arrivals are counted from 1");
    expect_floats(data, kFloats, (float)(1000 * job->last + 100 * step), "the tensor that was put");
    require(weft_arrival_release(arrival), "release");
  }
  require(weft_remote_slot_close(remote), "close");
  require(weft_slot_close(slot), "close");
  require(weft_tensor_free(tensor), "free");
}

static void published_versions_are_seen(const ring* job) {
  const int64_t floats = kFloats;
  const weft_published_spec spec = {.struct_size = sizeof spec,
                                    .name = "version",
                                    .dims = &floats,
                                    .ndims = 1,
                                    .dtype = WEFT_DTYPE_F32,
                                    .depth = 3};
  weft_published_slot* slot = NULL;
  weft_published_reader* reader = NULL;
  require(weft_published_slot_expose(job->world, &spec, &slot), "expose");
  require(weft_published_reader_attach(job->world, job->next, &spec, kSeconds, &reader), "attach");
  for (int version = 1; version <= 5; ++version) {
    weft_tensor* tensor = NULL;
    weft_arrival* arrival = NULL;
    const void* data = NULL;
    require(weft_published_slot_next(slot, kSeconds, &tensor), "next");
    for (int i = 0; i < kFloats; ++i)
      floats_of(tensor)[i] = (float)(1000 * job->rank + 100 * version + i);
    require(weft_published_slot_publish(slot), "publish");
    require(weft_tensor_free(tensor), "free");
    meet(job->world);
    require(weft_published_reader_view(reader, kSeconds, &arrival), "view");
    require(weft_arrival_data(arrival, &data), "data");
    expect_floats(data, kFloats, (float)(1000 * job->next + 100 * version), "the newest version");
    require(weft_arrival_release(arrival), "release");
    meet(job->world);
  }
  require(weft_published_reader_close(reader), "close");
  meet(job->world);
  require(weft_published_slot_close(slot), "close");
}

static void messages_by_tag(const ring* job) {
  weft_message_request *small = NULL, *large = NULL;
  weft_message_info info = {.struct_size = sizeof info};
  weft_tensor* few = new_floats(job->world, 4, (float)job->rank);
  weft_tensor* many = new_floats(job->world, 100000, (float)(10 * job->rank));
  weft_tensor* into = new_tensor(job->world, WEFT_DTYPE_F32, 100000);
  require(weft_message_isend(job->world, job->next, 7, many, &large), "send");
  require(weft_message_isend(job->world, job->next, 8, few, &small), "send");
  require(weft_message_recv(job->world, job->last, 8, WEFT_EXACT_TAG, into, kSeconds, &info),
          "receive");
  expect(info.source == job->last && info.tag == 8 && info.bytes == 16, "the message of that tag");
  expect_floats(floats_of(into), 4, (float)job->last, "a small message");
  require(weft_message_recv(job->world, WEFT_ANY_SOURCE, 0, WEFT_ANY_TAG, into, kSeconds, &info),
          "receive");
  expect(info.tag == 7 && info.bytes == 400000, "the other one");
  expect_floats(floats_of(into), 1000, (float)(10 * job->last), "a large message");
  require(weft_message_request_wait(large, kSeconds, NULL), "sent");
  require(weft_message_request_wait(small, kSeconds, NULL), "sent");
  require(weft_message_request_free(large), "free");
  require(weft_message_request_free(small), "free");
  require(weft_tensor_free(few), "free");
  require(weft_tensor_free(many), "free");
  require(weft_tensor_free(into), "free");
}

static void signals_count(const ring* job) {
  weft_signal* own = NULL;
  weft_remote_signal* remote = NULL;
  uint64_t value = 0;
  require(weft_signal_expose(job->world, "count", 5, &own), "expose");
  require(weft_remote_signal_attach(job->world, job->next, "count", kSeconds, &remote), "attach");
  require(weft_remote_signal_add(remote, 2), "add");
  require(weft_signal_wait_at_least(own, 7, kSeconds, &value), "wait");
  expect(value == 7, "a peer adds");
  meet(job->world);
  require(weft_remote_signal_fetch_add(remote, 1, kSeconds, &value), "fetch");
  expect(value == 7, "the value before");
  require(weft_signal_wait_at_least(own, 8, kSeconds, &value), "wait");
  meet(job->world);
  require(weft_remote_signal_compare_swap(remote, 8, 20, kSeconds, &value), "swap");
  expect(value == 8, "the value before the swap");
  require(weft_signal_wait_at_least(own, 20, kSeconds, &value), "wait");
  meet(job->world);
  require(weft_remote_signal_close(remote), "close");
  require(weft_signal_close(own), "close");
}

static weft_tensor* filled(weft_world* world, int64_t elements, float value) {
  weft_tensor* tensor = new_tensor(world, WEFT_DTYPE_F32, elements);
  for (int64_t i = 0; i < elements; ++i) floats_of(tensor)[i] = value;
  return tensor;
}

static void collectives_combine(const ring* job) {
  weft_collectives* group = NULL;
  weft_tensor* own = filled(job->world, 3, (float)job->rank);
  weft_tensor* out = filled(job->world, 3, 0);
  weft_tensor* all = filled(job->world, 3 * job->size, 0);
  weft_call call = {.struct_size = sizeof call, .kind = WEFT_COLLECTIVE_BARRIER};
  require(weft_collectives_open(job->world, NULL, kSeconds, &group), "open");
  require(weft_collectives_run(group, &call, kSeconds), "barrier");
  call.kind = WEFT_COLLECTIVE_ALL_REDUCE, call.in = own, call.out = out;
  require(weft_collectives_run(group, &call, kSeconds), "all_reduce");
  expect(floats_of(out)[2] == (float)(job->size * (job->size - 1) / 2), "the sum of all ranks");
  call.kind = WEFT_COLLECTIVE_SCAN;
  require(weft_collectives_run(group, &call, kSeconds), "scan");
  expect(floats_of(out)[1] == (float)(job->rank * (job->rank + 1) / 2), "the sum up to this rank");
  call.kind = WEFT_COLLECTIVE_ALL_GATHER, call.out = all;
  require(weft_collectives_run(group, &call, kSeconds), "all_gather");
  for (int i = 0; i < 3 * job->size; ++i)
    expect(floats_of(all)[i] == (float)(i / 3), "every rank's part");
  call.kind = WEFT_COLLECTIVE_REDUCE_SCATTER, call.in = all, call.out = out;
  require(weft_collectives_run(group, &call, kSeconds), "reduce_scatter");
  expect(floats_of(out)[0] == (float)(job->size * job->rank), "this rank's part of the sum");
  call.kind = WEFT_COLLECTIVE_BROADCAST, call.in = NULL, call.out = own, call.root = job->size - 1;
  require(weft_collectives_run(group, &call, kSeconds), "broadcast");
  expect(floats_of(own)[0] == (float)(job->size - 1), "the root's tensor");
  require(weft_collectives_close(group), "close");
  require(weft_tensor_free(own), "free");
  require(weft_tensor_free(out), "free");
  require(weft_tensor_free(all), "free");
}

static void body(weft_world* world, int rank, int size) {
  const ring job = {world, rank, size, (rank + 1) % size, (rank + size - 1) % size};
  slots_keep_the_order(&job);
  meet(world);
  published_versions_are_seen(&job);
  messages_by_tag(&job);
  signals_count(&job);
  collectives_combine(&job);
  meet(world);
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
