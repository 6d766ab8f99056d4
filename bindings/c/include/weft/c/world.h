/* Worlds: joining and leaving a job, its hosts, its groups, and what a rank knows of the others. */
#ifndef WEFT_C_WORLD_H
#define WEFT_C_WORLD_H

#include "weft/c/base.h"

WEFT_C_BEGIN

/* A job without a launcher. Fields that are left out are taken from the environment; with all left
 * out, weft_join_with joins as weft_join does. */
typedef struct weft_join_options {
  size_t struct_size;
  const char* address; /* as WEFT_ADDR: where rank 0 accepts the others */
  const void* token;   /* the ranks' token itself, 32 to 4096 bytes, in place of WEFT_TOKEN_FILE */
  size_t token_bytes;
  int rank; /* from 0; taken from the environment (with size) if size is 0 */
  int size; /* the number of ranks */
} weft_join_options;

/* Joins the job that mpirun or srun started, or the one at WEFT_ADDR; with neither, a world of one
 * rank. */
weft_code weft_join(weft_world** world);
/* Joins the job that `options` describe, whatever launcher has started this process. Several ranks
 * of a job may be threads of one process. */
weft_code weft_join_with(const weft_join_options* options, weft_world** world);
/* Waits until every peer has left too or is dead, then leaves and frees the world. The world is
 * left and freed even if the call fails, for example with WEFT_CODE_TIMEOUT. Only
 * WEFT_CODE_BAD_ARGUMENT (slots or other handles of it are still open) leaves the world
 * unchanged. */
weft_code weft_leave(weft_world* world, double timeout_seconds);
/* Leaves as weft_leave does, but frees nothing: for handles that peers need until they have left
 * too, such as the tables of a parameter server. Free those next, then call weft_leave. */
weft_code weft_world_leave(weft_world* world, double timeout_seconds);
/* This rank, from 0. */
weft_code weft_rank(const weft_world* world, int* rank);
/* The number of ranks of the job. */
weft_code weft_size(const weft_world* world, int* size);
/* The limit of waits without their own, WEFT_TIMEOUT, for callers that wait in parts. */
weft_code weft_world_timeout(const weft_world* world, double* seconds);

/* The name of the host that rank `rank` runs on. */
weft_code weft_world_host(const weft_world* world, int rank, char** host);
/* The number of ranks on this rank's host, including this one. */
weft_code weft_world_local_size(const weft_world* world, int* size);
/* WEFT_CODE_OK while all of the `count` ranks are alive; otherwise the failure of the first that is
 * not: WEFT_CODE_PEER_FAILED, WEFT_CODE_PEER_LEFT and the like. `ranks` may be NULL if `count` is
 * 0. */
weft_code weft_world_alive(const weft_world* world, const int* ranks, size_t count);
/* Declares `rank` dead, for example a stopped process that does not answer but is not detected as
 * dead. Operations that need it fail with WEFT_CODE_PEER_FAILED, whose text has `why`. The rank is
 * fenced (killed if it is reached by shared memory). Returns at once. */
weft_code weft_world_declare_dead(weft_world* world, int rank, const char* why);

/* A file descriptor, owned by the world, for the caller's own poll loop. It becomes readable after
 * any event of this rank: an arrival, a credit, a peer's death. Usage: poll,
 * weft_world_clear_event, then test every slot and request of interest. */
weft_code weft_world_event_fd(weft_world* world, int* fd);
/* Makes the descriptor unreadable until the next event. */
weft_code weft_world_clear_event(weft_world* world);

/* The paths, slots and arenas of this rank as of now, as one line of JSON:
 * {"version": 1, "rank", "size",
 *  "paths": [{"peer", "host", "pid", "fabric", "health", "condition", "rails_lost", "rails_back",
 *    "verdicts": [{"fabric", "usable", "reason"}], "rails": [{"own", "peer", "up"}], "counters"}],
 *  "edges": [{"peer", "slot", "role", "fabric", "way", "reason", "counters"}],
 *  "arenas": [{"sort", "chunks", "reserved_bytes", "used_bytes", "peak_bytes",
 *    "quarantined_bytes", "largest_free_bytes", "allocations", "huge_page_bytes"}],
 *  "rejected_connections"}
 * `counters`: {"transfers", "bytes_moved", "bytes_copied", "work_requests", "credit_writes",
 * "control_messages", "registrations", "staged_bytes", "device_copies", "gpu_flushes"}. A later
 * version may have more members. */
weft_code weft_world_report(const weft_world* world, char** json);

/* The group of all ranks of the job. Deaths do not change it: weft_group_shrink makes the
 * survivors' group. A group may be used by several threads. */
weft_code weft_world_group(const weft_world* world, weft_group** group);
/* This rank's place in the group, from 0; -1 if this rank is not a member. */
weft_code weft_group_rank(const weft_group* group, int* place);
weft_code weft_group_size(const weft_group* group, int* size);
/* The members' ranks in the world, by place: as many as the group's size. Valid until the group is
 * freed. */
weft_code weft_group_members(const weft_group* group, const int** ranks);
/* The place of rank `rank` of the world; -1 if it is not a member. */
weft_code weft_group_place_of(const weft_group* group, int rank, int* place);
/* The number of shrinks between the world's group and this one. */
weft_code weft_group_epoch(const weft_group* group, uint32_t* epoch);
/* A number that is equal for groups with the same members, order and epoch, and only for those. */
weft_code weft_group_id(const weft_group* group, uint64_t* id);
/* The group of the members at `places`, in this order. Each of these members must call it with
 * equal arguments. Sends no messages. */
weft_code weft_group_subset(const weft_group* group, const int* places, size_t count,
                            weft_group** subset);
/* The colour of a rank that is to be in no group of a split. */
#define WEFT_NO_COLOUR (-1)
/* Splits the group: the members that give one `colour`, from 0 on, get the group of these, in the
 * order of their `key` and, of equal keys, of their places in this group. With WEFT_NO_COLOUR the
 * group is empty. Every member calls it. Group::split() in weft/group.hpp has the errors. */
weft_code weft_group_split(const weft_group* group, int colour, int key, double timeout_seconds,
                           weft_group** part);
/* Agrees with the other members on the survivors: every survivor gets the same group, in the former
 * order. Any member may call it at any time. Group::shrink() in weft/group.hpp has the errors. */
weft_code weft_group_shrink(const weft_group* group, double timeout_seconds,
                            weft_group** survivors);
weft_code weft_group_free(weft_group* group);

WEFT_C_END

#endif /* WEFT_C_WORLD_H */
