#include "c_ranks.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int failures;

void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "failed: %s; last error %d: %s\n", what, (int)weft_error_code(),
          weft_error_text());
}

int failures_so_far(void) { return failures; }

void require(weft_code code, const char* what) {
  if (code == WEFT_CODE_OK) return;
  fprintf(stderr, "failed: %s: %s\n", what, weft_error_text());
  exit(1);
}

void expect_error(weft_code code, weft_code wanted, const char* part, const char* what) {
  expect(code == wanted && weft_error_code() == wanted && strstr(weft_error_text(), part) != NULL,
         what);
}

weft_tensor* new_tensor(weft_world* world, weft_dtype dtype, int64_t elements) {
  weft_tensor* tensor = NULL;
  require(weft_tensor_allocate(world, dtype, &elements, 1, &tensor), "allocate");
  return tensor;
}

void* data_of(const weft_tensor* tensor) {
  void* data = NULL;
  require(weft_tensor_data(tensor, &data), "data");
  return data;
}

float* floats_of(const weft_tensor* tensor) { return data_of(tensor); }

weft_tensor* new_floats(weft_world* world, int64_t elements, float first) {
  weft_tensor* tensor = new_tensor(world, WEFT_DTYPE_F32, elements);
  float* data = floats_of(tensor);
  for (int64_t i = 0; i < elements; ++i) data[i] = first + (float)i;
  return tensor;
}

void expect_floats(const void* data, int64_t elements, float first, const char* what) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < elements; ++i) wrong += ((const float*)data)[i] != first + (float)i;
  expect(wrong == 0, what);
}

void meet(weft_world* world) {
  const weft_call barrier = {.struct_size = sizeof barrier};
  weft_collectives* all = NULL;
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open a group");
  require(weft_collectives_run(all, &barrier, kSeconds), "meet");
  require(weft_collectives_close(all), "close the group");
}

void make_shared_folder(weft_world* world, int rank, char folder[kFolderName]) {
  weft_tensor* text = new_tensor(world, WEFT_DTYPE_U8, kFolderName);
  const weft_call call = {
      .struct_size = sizeof call, .out = text, .kind = WEFT_COLLECTIVE_BROADCAST};
  weft_collectives* all = NULL;
  char* shared = data_of(text);
  strcpy(shared, "/tmp/weft-c-test-XXXXXX");
  if (rank == 0) expect(mkdtemp(shared) != NULL, "a folder is made");
  require(weft_collectives_open(world, NULL, kSeconds, &all), "open a group");
  require(weft_collectives_run(all, &call, kSeconds), "share the folder's name");
  memcpy(folder, shared, kFolderName);
  require(weft_collectives_close(all), "close the group");
  require(weft_tensor_free(text), "free");
}

void remove_folder(const char* folder) {
  char command[kFolderName + 16];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  expect(system(command) == 0, "the folder is removed");
}

static void run_rank(weft_world* world, rank_body body) {
  int rank = -1, size = 0;
  require(weft_rank(world, &rank), "rank");
  require(weft_size(world, &size), "size");
  body(world, rank, size);
  require(weft_leave(world, kSeconds), "leave");
}

/* A port of 127.0.0.1 on which nothing listens, below those that the kernel gives by itself. */
static int free_port(void) {
  enum { kFirst = 10240 };
  int beyond = 0;
  FILE* const range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
  if (range != NULL) {
    if (fscanf(range, "%d", &beyond) != 1) beyond = 0;
    fclose(range);
  }
  if (beyond <= kFirst) beyond = 32768;
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = kFirst + ((int)getpid() * 31 + tries) % (beyond - kFirst);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int probe = socket(AF_INET, SOCK_STREAM, 0);
    const int taken = bind(probe, (struct sockaddr*)&own, sizeof own);
    close(probe);
    if (taken == 0) return port;
  }
  fprintf(stderr, "no port of 127.0.0.1 is free\n");
  exit(1);
}

struct thread_rank {
  pthread_t thread;
  weft_join_options options;
  rank_body body;
};

static void* run_thread(void* given) {
  struct thread_rank* self = given;
  weft_world* world = NULL;
  require(weft_join_with(&self->options, &world), "join as a thread");
  run_rank(world, self->body);
  return NULL;
}

static void run_threads(int size, rank_body body) {
  static const char token[] = "a token that every thread of this process knows";
  struct thread_rank ranks[8];
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%d", free_port());
  for (int rank = 0; rank < size; ++rank) {
    const weft_join_options options = {.struct_size = sizeof options,
                                       .address = address,
                                       .token = token,
                                       .token_bytes = sizeof token - 1,
                                       .rank = rank,
                                       .size = size};
    ranks[rank].options = options;
    ranks[rank].body = body;
    pthread_create(&ranks[rank].thread, NULL, run_thread, &ranks[rank]);
  }
  for (int rank = 0; rank < size; ++rank) pthread_join(ranks[rank].thread, NULL);
}

int run_job(int argc, char** argv, rank_body body) {
  if (argc == 3 && strcmp(argv[1], "--threads") == 0) {
    run_threads(atoi(argv[2]), body);
  } else {
    weft_world* world = NULL;
    require(weft_join(&world), "join");
    run_rank(world, body);
  }
  return failures == 0 ? 0 : 1;
}
