/* Publications and their readers from C: rank 0 publishes, every process reads as one outside the
 * job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "c_ranks.h"

enum { kRows = 64, kColumns = 16, kFloats = kRows * kColumns };

static const int64_t kDims[2] = {kRows, kColumns}, kFew = 3;
static const weft_published_tensor kTensors[2] = {{.struct_size = sizeof kTensors[0],
                                                   .name = "table",
                                                   .dims = kDims,
                                                   .ndims = 2,
                                                   .dtype = WEFT_DTYPE_F32},
                                                  {.struct_size = sizeof kTensors[0],
                                                   .name = "few",
                                                   .dims = &kFew,
                                                   .ndims = 1,
                                                   .dtype = WEFT_DTYPE_F32}};

typedef struct place {
  char folder[kFolderName], address[kFolderName + 16], token[kFolderName + 16];
} place;

static void write_token(const char* path) {
  FILE* file = fopen(path, "w");
  expect(file != NULL && fputs("a token of the subscribers, 32 bytes or more", file) >= 0 &&
             fclose(file) == 0 && chmod(path, 0600) == 0,
         "the token is written");
}

static void publish(weft_publication* publication, weft_tensor** tensors, float first,
                    uint64_t step) {
  for (int i = 0; i < kFloats; ++i) floats_of(tensors[0])[i] = first + (float)i;
  for (int i = 0; i < kFew; ++i) floats_of(tensors[1])[i] = first;
  require(weft_publication_publish(publication, (const weft_tensor* const*)tensors, 2, step),
          "publish");
}

static void expect_version(weft_reader* reader, uint64_t version, uint64_t step, float first) {
  uint64_t seen = 0, of_step = 0;
  weft_tensor* tensor = NULL;
  weft_tensor_info info = {.struct_size = sizeof info};
  int whole = 0;
  require(weft_reader_version(reader, &seen), "version");
  require(weft_reader_step(reader, &of_step), "step");
  require(weft_reader_whole(reader, &whole), "whole");
  require(weft_reader_tensor(reader, "table", &tensor), "tensor");
  require(weft_tensor_get_info(tensor, &info), "info");
  expect(seen == version && of_step == step && whole, "the newest version, whole");
  expect(info.read_only && info.ndims == 2 && info.dims[1] == kColumns, "a read-only tensor");
  expect_floats(info.data, kFloats, first, "with its values");
  require(weft_tensor_free(tensor), "free");
  expect(weft_reader_tensor(reader, "nothing", &tensor) == WEFT_CODE_BAD_ARGUMENT, "no such name");
}

static void check_specs(weft_reader* reader) {
  weft_published_tensor spec = {.struct_size = sizeof spec};
  size_t count = 0;
  require(weft_reader_tensors(reader, &count), "tensors");
  require(weft_reader_tensor_at(reader, 1, &spec), "the second");
  expect(count == 2 && strcmp(spec.name, "few") == 0 && spec.ndims == 1 && spec.dims[0] == kFew &&
             spec.dtype == WEFT_DTYPE_F32,
         "a reader knows the tensors");
  expect(weft_reader_tensor_at(reader, 2, &spec) == WEFT_CODE_BAD_ARGUMENT, "there is no third");
}

static void run_alone(weft_world* world, const place* where) {
  const weft_publisher_options options = {
      .struct_size = sizeof options, .address = where->address, .token_file = where->token};
  const weft_reader_options reading = {
      .struct_size = sizeof reading, .address = where->address, .token_file = where->token};
  const weft_publication_options two = {.struct_size = sizeof two, .buffers = 2};
  weft_publication_statistics statistics = {.struct_size = sizeof statistics};
  weft_reader_statistics taken = {.struct_size = sizeof taken};
  weft_publisher* publisher = NULL;
  weft_publication *publication = NULL, *twin = NULL;
  weft_reader *reader = NULL, *in_place = NULL;
  weft_tensor *tensors[2] = {NULL, NULL}, *mine[2] = {NULL, NULL};
  uint64_t version = 9, rejected = 9;
  int subscribers = 0;
  char* address = NULL;
  require(weft_publisher_open(world, &options, &publisher), "publisher");
  require(weft_publisher_address(publisher, &address), "address");
  expect(strchr(address, ':') != NULL, "a publisher has an address");
  weft_text_free(address);
  require(weft_publication_open(publisher, "weights", kTensors, 2, &two, &publication),
          "publication");
  expect(weft_publication_open(publisher, "weights", kTensors, 2, NULL, &twin) ==
             WEFT_CODE_DUPLICATE_NAME,
         "one publication of a name");
  require(weft_publication_version(publication, &version), "version");
  expect(version == 0, "nothing is published yet");
  for (int i = 0; i < 2; ++i) {
    require(weft_tensor_allocate(world, WEFT_DTYPE_F32, kTensors[i].dims, kTensors[i].ndims,
                                 &tensors[i]),
            "allocate");
    require(
        weft_tensor_allocate(world, WEFT_DTYPE_F32, kTensors[i].dims, kTensors[i].ndims, &mine[i]),
        "allocate");
  }
  publish(publication, tensors, 10, 100);
  require(weft_reader_join("weights", &reading, kSeconds, &reader), "join");
  check_specs(reader);
  require(weft_reader_pull_latest(reader, kSeconds), "pull");
  expect_version(reader, 1, 100, 10);
  expect(weft_reader_pull_newer(reader, 0.01) == WEFT_CODE_TIMEOUT, "there is no newer one");
  publish(publication, tensors, 20, 200);
  require(weft_reader_pull_newer(reader, kSeconds), "pull a newer one");
  expect_version(reader, 2, 200, 20);

  require(weft_reader_join("weights", &reading, kSeconds, &in_place), "join");
  require(weft_reader_receive_into(in_place, (const weft_tensor* const*)mine, 2), "receive into");
  require(weft_reader_pull_latest(in_place, kSeconds), "pull");
  expect_floats(floats_of(mine[0]), kFloats, 20, "versions come into the caller's tensors");
  require(weft_publisher_subscribers(publisher, &subscribers), "subscribers");
  require(weft_publisher_rejected_connections(publisher, &rejected), "rejected");
  expect(subscribers == 2 && rejected == 0, "two subscribers");
  require(weft_publication_get_statistics(publication, &statistics), "statistics");
  expect(statistics.version == 2 && statistics.full_bytes == (kFloats + kFew) * sizeof(float) &&
             statistics.full_sent >= 2,
         "the publication's counters");
  require(weft_reader_get_statistics(reader, &taken), "statistics");
  expect(taken.full_taken + taken.deltas_taken == 2, "the reader's counters");
  expect_error(weft_publisher_close(publisher), WEFT_CODE_BAD_ARGUMENT, "publications",
               "a publisher is not closed before its publications");
  require(weft_publication_close(publication), "close");
  expect(weft_reader_pull_newer(reader, kSeconds) == WEFT_CODE_CLOSED,
         "the publication was closed");
  require(weft_reader_close(reader), "close");
  require(weft_reader_close(in_place), "close");
  require(weft_publisher_leave(publisher, kSeconds), "leave");
  require(weft_publisher_close(publisher), "close");
  for (int i = 0; i < 2; ++i) {
    require(weft_tensor_free(tensors[i]), "free");
    require(weft_tensor_free(mine[i]), "free");
  }
}

static void body(weft_world* world, int rank, int size) {
  place where;
  (void)size;
  make_shared_folder(world, rank, where.folder);
  snprintf(where.address, sizeof where.address, "%s/address", where.folder);
  snprintf(where.token, sizeof where.token, "%s/token", where.folder);
  if (rank == 0) {
    write_token(where.token);
    run_alone(world, &where);
    remove_folder(where.folder);
  }
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
