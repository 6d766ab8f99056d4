/* Worlds, groups and the error of a thread, from C. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "c_ranks.h"

/* An error struct as a later weft.h may have it, and one as an earlier. */
typedef struct later_error {
  weft_error known;
  uint64_t more[2];
} later_error;

static void check_errors(void) {
  weft_error error = {.struct_size = sizeof error};
  later_error later;
  expect(weft_tensor_free(NULL) == WEFT_CODE_BAD_ARGUMENT, "a NULL handle is refused");
  require(weft_last_error(&error), "the last error");
  expect(error.code == WEFT_CODE_BAD_ARGUMENT && strcmp(error.operation, "tensor_free") == 0 &&
             strcmp(error.message, "tensor is NULL") == 0 && error.hint[0] == '\0' &&
             error.rank == -1 && error.peer == -1 && error.host[0] == '\0' && error.slot[0] == '\0',
         "the error is told by its parts");

  memset(&later, 0xff, sizeof later);
  later.known.struct_size = sizeof later;
  require(weft_last_error(&later.known), "the last error for a later program");
  expect(later.known.struct_size == sizeof later && later.more[0] == 0 && later.more[1] == 0,
         "what this library does not know is 0");
  memset(&error, 0xff, sizeof error);
  error.struct_size = offsetof(weft_error, operation);
  require(weft_last_error(&error), "the last error for an earlier program");
  expect(
      error.rank == -1 && error.code == WEFT_CODE_BAD_ARGUMENT && error.sequence_seen == UINT64_MAX,
      "nothing is written beyond an earlier program's struct");
  error.struct_size = 0;
  expect_error(weft_last_error(&error), WEFT_CODE_BAD_ARGUMENT, "error->struct_size is 0",
               "a struct without its size is refused");
}

static void check_names(void) {
  expect(strcmp(weft_code_name(WEFT_CODE_PEER_FAILED), "peer_failed") == 0 &&
             strcmp(weft_code_name(WEFT_CODE_UNDER_WAY), "under_way") == 0 &&
             strcmp(weft_code_name((weft_code)77), "unknown") == 0,
         "codes have names");
  expect(strcmp(weft_dtype_name(WEFT_DTYPE_BF16), "bf16") == 0 &&
             strcmp(weft_dtype_name((weft_dtype)9), "unknown") == 0,
         "types have names");
  expect(weft_dtype_bytes(WEFT_DTYPE_F64) == 8 && weft_dtype_bytes((weft_dtype)9) == 0,
         "types have sizes");
}

static void check_join_options(void) {
  struct {
    weft_join_options known;
    int64_t more;
  } later = {{sizeof later, "127.0.0.1:20000", "short", 5, 0, 1}, 1};
  weft_world* world = NULL;
  expect_error(weft_join_with(&later.known, &world), WEFT_CODE_BAD_ARGUMENT, "does not know",
               "a later program's option is refused");
  later.more = 0;
  expect_error(weft_join_with(&later.known, &world), WEFT_CODE_BAD_CONFIG,
               "a token of 5 bytes, fewer than 32", "a later program without it gets further");
  later.known.address = "nowhere";
  later.known.token = "a token of more than thirty-two bytes";
  later.known.token_bytes = 37;
  expect_error(weft_join_with(&later.known, &world), WEFT_CODE_BAD_CONFIG, "nowhere",
               "a wrong address is refused");
  later.known.rank = 3;
  expect_error(weft_join_with(&later.known, &world), WEFT_CODE_BAD_CONFIG, "WEFT_RANK=3",
               "a rank that is no rank is refused");
}

static void check_ranks(weft_world* world, int rank, int size) {
  char* own_host = NULL;
  int local = 0, ranks[2] = {0, 0}, fd = -1;
  struct pollfd poll_fd;
  ranks[1] = size - 1;
  require(weft_world_host(world, rank, &own_host), "host");
  expect(own_host != NULL && own_host[0] != '\0', "a host has a name");
  weft_text_free(own_host);
  expect_error(weft_world_host(world, size, &own_host), WEFT_CODE_BAD_ARGUMENT, "there is no rank",
               "a rank that is not there has no host");
  require(weft_world_local_size(world, &local), "local size");
  expect(local == size, "all ranks are on this host");
  require(weft_world_alive(world, ranks, 2), "all ranks live");
  require(weft_world_alive(world, NULL, 0), "no rank is dead");
  expect(weft_world_alive(world, &size, 1) == WEFT_CODE_BAD_ARGUMENT, "no such rank");
  expect_error(weft_world_declare_dead(world, rank, "a test"), WEFT_CODE_BAD_ARGUMENT,
               "can't declare itself dead", "a rank can't declare itself dead");
  require(weft_world_event_fd(world, &fd), "event fd");
  require(weft_world_clear_event(world), "clear the event");
  poll_fd.fd = fd;
  poll_fd.events = POLLIN;
  expect(poll(&poll_fd, 1, 0) >= 0, "the descriptor can be polled");
}

static void check_groups(weft_world* world, int rank, int size) {
  weft_group *all = NULL, *last = NULL, *part = NULL, *survivors = NULL;
  const int* members = NULL;
  const int places[1] = {size - 1};
  int own = -2, count = 0, place = -2;
  uint32_t epoch = 9;
  uint64_t id = 0, other_id = 0;
  require(weft_world_group(world, &all), "the group of all");
  require(weft_group_rank(all, &own), "own place");
  require(weft_group_size(all, &count), "group size");
  require(weft_group_members(all, &members), "members");
  require(weft_group_epoch(all, &epoch), "epoch");
  require(weft_group_id(all, &id), "id");
  expect(own == rank && count == size && members[size - 1] == size - 1 && epoch == 0,
         "the group of all has all ranks");
  require(weft_group_subset(all, places, 1, &last), "a subset");
  require(weft_group_size(last, &count), "group size");
  require(weft_group_id(last, &other_id), "id");
  require(weft_group_place_of(last, size - 1, &place), "a member's place");
  expect(count == 1 && place == 0 && (size == 1 || other_id != id), "a subset has its members");
  require(weft_group_place_of(last, size, &place), "the place of no member");
  expect(place == -1, "a rank that is no member has no place");
  expect(weft_group_subset(all, &size, 1, &survivors) == WEFT_CODE_BAD_ARGUMENT, "no such place");
  require(weft_group_split(all, rank == 0 ? WEFT_NO_COLOUR : 3, -rank, kSeconds, &part), "split");
  require(weft_group_size(part, &count), "group size");
  require(weft_group_rank(part, &place), "own place");
  expect(rank == 0 ? count == 0 : count == size - 1 && place == size - 1 - rank,
         "a part has the ranks of its colour in the order of their keys");
  require(weft_group_free(part), "free");
  expect(weft_group_split(all, -2, 0, kSeconds, &part) == WEFT_CODE_BAD_ARGUMENT, "no colour");
  require(weft_group_shrink(all, kSeconds, &survivors), "shrink");
  require(weft_group_size(survivors, &count), "group size");
  require(weft_group_epoch(survivors, &epoch), "epoch");
  expect(count == size && epoch == 1, "all ranks survive");
  require(weft_group_free(survivors), "free");
  require(weft_group_free(last), "free");
  require(weft_group_free(all), "free");
}

/* Rank 0's report has a slot whose name is no UTF-8 and has a control character. */
static void check_report(weft_world* world, int rank) {
  const weft_slot_spec odd = {"caf\xe9\x1b[2J", WEFT_DTYPE_F32, NULL, 0, 1};
  weft_slot* slot = NULL;
  weft_remote_slot* to_self = NULL;
  char *json = NULL, start[40];
  require(weft_slot_expose(world, &odd, &slot), "expose");
  require(weft_slot_attach(world, rank, &odd, kSeconds, &to_self), "attach to self");
  require(weft_world_report(world, &json), "report");
  snprintf(start, sizeof start, "{\"version\": 1, \"rank\": %d, ", rank);
  expect(
      strncmp(json, start, strlen(start)) == 0 && strstr(json, "\"quarantined_bytes\": ") != NULL,
      "the report is JSON of its version");
  if (rank == 0) puts(json); /* whose members reports.py looks at */
  require(weft_remote_slot_close(to_self), "close");
  require(weft_slot_close(slot), "close");
  weft_text_free(json);
}

static void check_timeout(weft_world* world) {
  double seconds = 0;
  require(weft_world_timeout(world, &seconds), "the world's limit");
  expect(seconds == 60, "WEFT_TIMEOUT is 60 s by default");
}

static void body(weft_world* world, int rank, int size) {
  check_errors();
  check_names();
  check_join_options();
  check_timeout(world);
  check_ranks(world, rank, size);
  check_groups(world, rank, size);
  check_report(world, rank);
  meet(world); /* a rank that left would not be alive to the others */
  const int64_t dims[] = {4};
  const weft_slot_spec spec = {
      .name = "kept", .dtype = WEFT_DTYPE_F32, .dims = dims, .ndims = 1, .depth = 1};
  weft_slot* slot = NULL;
  weft_arrival* arrival = NULL;
  require(weft_slot_expose(world, &spec, &slot), "expose");
  require(weft_world_leave(world, kSeconds), "leave, and keep the world");
  expect_error(weft_slot_wait(slot, kSeconds, &arrival), WEFT_CODE_CLOSED, "has left the job",
               "a handle of a world that has left is closed");
  expect_error(weft_slot_expose(world, &spec, &slot), WEFT_CODE_CLOSED, "has left the job",
               "a world that has left exposes nothing");
  weft_tensor* tensor = new_tensor(world, WEFT_DTYPE_F32, 4);
  expect_error(weft_message_send(world, 0, 1, tensor, kSeconds), WEFT_CODE_CLOSED,
               "has left the job", "a world that has left sends nothing");
  weft_error error = {.struct_size = sizeof error};
  require(weft_last_error(&error), "the last error");
  expect(strcmp(error.operation, "send") == 0, "an error names the call");
  require(weft_tensor_free(tensor), "free");
  require(weft_slot_close(slot), "a handle of a world that has left is freed");
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
