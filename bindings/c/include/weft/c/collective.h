/* Collectives: operations that all ranks of a group perform together, each on its own tensors. */
#ifndef WEFT_C_COLLECTIVE_H
#define WEFT_C_COLLECTIVE_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

typedef struct weft_collectives weft_collectives; /* freed by weft_collectives_close; one thread at
                                                   * a time per group, its plans included */
typedef struct weft_plan weft_plan;               /* freed by weft_plan_free */

/* How elements are combined; weft/collective.hpp says what each does with floats, integers and
 * booleans. */
typedef enum weft_reduction WEFT_C_ENUM {
  WEFT_REDUCTION_SUM = 0,
  WEFT_REDUCTION_PROD = 1,
  WEFT_REDUCTION_MIN = 2,
  WEFT_REDUCTION_MAX = 3,
  WEFT_REDUCTION_AVG = 4,
  WEFT_REDUCTION_BIT_AND = 5,
  WEFT_REDUCTION_BIT_OR = 6,
  WEFT_REDUCTION_BIT_XOR = 7
} weft_reduction;

/* Computes into[i] = into[i] combined with from[i] for `count` elements of type `dtype`. Must be
 * associative, and need not be commutative: `into` always comes from lower ranks of the group. weft
 * calls it on any thread of this rank that waits in weft or tests a plan; it must not call weft. */
typedef void (*weft_reduce_function)(void* context, void* into, const void* from, int64_t count,
                                     weft_dtype dtype);

/* The operation of a call, and the tensors that it uses:
 * BARRIER         none
 * BROADCAST       `out` of the root is copied into every other rank's `out`
 * REDUCE          every rank's `in` is combined into `out` of the root; others' may be NULL
 * ALL_REDUCE      every rank's `in` is combined into every rank's `out`; in place if `in` is NULL
 * REDUCE_SCATTER  as ALL_REDUCE, of whose result the n-th rank gets the n-th part
 * ALL_GATHER      every rank's `in`, one behind the other, into every rank's `out`
 * GATHER          the same into `out` of the root; others' may be NULL
 * SCATTER         the n-th part of the root's `in` into `out` of the n-th rank; others' may be NULL
 * ALL_TO_ALL      the n-th part of `in` to the n-th rank, whose part is the n-th of `out`
 * SCAN            `in` of this rank and of all ranks before it, combined into `out` */
typedef enum weft_collective_kind WEFT_C_ENUM {
  WEFT_COLLECTIVE_BARRIER = 0,
  WEFT_COLLECTIVE_BROADCAST = 1,
  WEFT_COLLECTIVE_REDUCE = 2,
  WEFT_COLLECTIVE_ALL_REDUCE = 3,
  WEFT_COLLECTIVE_REDUCE_SCATTER = 4,
  WEFT_COLLECTIVE_ALL_GATHER = 5,
  WEFT_COLLECTIVE_GATHER = 6,
  WEFT_COLLECTIVE_SCATTER = 7,
  WEFT_COLLECTIVE_ALL_TO_ALL = 8,
  WEFT_COLLECTIVE_SCAN = 9
} weft_collective_kind;

/* How the ranks of several hosts carry out a collective; weft/collective.hpp says which serves
 * which call. */
typedef enum weft_algorithm WEFT_C_ENUM {
  WEFT_ALGORITHM_AUTOMATIC = 0, /* the one that WEFT_COLL names, else the fastest */
  WEFT_ALGORITHM_DIRECT = 1,
  WEFT_ALGORITHM_ALLGATHER_THEN_REDUCE = 2,
  WEFT_ALGORITHM_RING = 3,
  WEFT_ALGORITHM_HALVING = 4,
  WEFT_ALGORITHM_DOUBLING = 5,
  WEFT_ALGORITHM_TWO_LEVEL = 6
} weft_algorithm;

/* One operation on this rank's tensors, which must be dense. Shapes are ignored: the elements are
 * taken in order, and all tensors of a call have one dtype. The pointers are read only during the
 * call that takes the struct; plans hold the tensors' memory. */
typedef struct weft_call {
  size_t struct_size;
  const weft_tensor* in;
  const weft_tensor* out;
  weft_collective_kind kind;
  int root; /* a rank of the group, from 0 (weft_collectives_rank), not of the world */
  weft_reduction reduction;
  weft_algorithm algorithm;    /* the same on every rank */
  weft_reduce_function reduce; /* in place of `reduction`; NULL: none */
  void* reduce_context;        /* must live as long as the plan */
  /* Elements of each rank's part, by place in the group, as many as the group has ranks; NULL: all
   * parts are equal. ALL_TO_ALL: elements that this rank sends to each rank, and, in `out_counts`,
   * that it receives from each; give both or neither. Else the same on all ranks. */
  const int64_t* counts;
  const int64_t* out_counts;
  int any_order; /* 1: floats may be combined in the order that is fastest between hosts, which
                  * another placement of the ranks may change */
  int reserved;
} weft_call;

/* Opens a group of all ranks of the world, or of the members of `group` unless that is NULL. Each
 * of them must call it; groups of the same ranks are told apart by the order of the calls. */
weft_code weft_collectives_open(weft_world* world, const weft_group* group, double timeout_seconds,
                                weft_collectives** collectives);
/* The same for `count` ranks of the world, all of which give the same list. */
weft_code weft_collectives_open_ranks(weft_world* world, const int* ranks, size_t count,
                                      double timeout_seconds, weft_collectives** collectives);
/* Refused while a plan of the group is not freed. */
weft_code weft_collectives_close(weft_collectives* collectives);
/* This rank's place in the group, from 0. */
weft_code weft_collectives_rank(const weft_collectives* collectives, int* place);
weft_code weft_collectives_size(const weft_collectives* collectives, int* size);
/* The group's ranks of the world, by place. Valid until the group is closed. */
weft_code weft_collectives_ranks(const weft_collectives* collectives, const int** ranks);
/* Runs `call` once. All ranks of the group call the same operations in the same order. A timeout
 * ends the group. If the error's text says that tensors stay lent, call weft_collectives_settle
 * before touching them. */
weft_code weft_collectives_run(weft_collectives* collectives, const weft_call* call,
                               double timeout_seconds);
/* Binds `call` to its tensors, to be run any number of times without allocation, registration or
 * control messages. */
weft_code weft_collectives_plan(weft_collectives* collectives, const weft_call* call,
                                weft_plan** plan);
/* The same, and begins it. */
weft_code weft_collectives_start(weft_collectives* collectives, const weft_call* call,
                                 weft_plan** plan);
/* Waits until no other rank can touch the tensors of this group's ended calls: after an error whose
 * text says that tensors stay lent. */
weft_code weft_collectives_settle(weft_collectives* collectives, double timeout_seconds);
/* Bytes copied in user space because tensors were not in the world's memory. */
weft_code weft_collectives_bytes_copied(const weft_collectives* collectives, uint64_t* bytes);
/* Bytes copied from and to a GPU for calls on tensors there. */
weft_code weft_collectives_staged_bytes(const weft_collectives* collectives, uint64_t* bytes);

/* Begins the operation: its tensors are lent to weft until it has ended. Up to 4 plans of a group
 * may be under way; they run in the order of their start, the same on every rank. */
weft_code weft_plan_start(weft_plan* plan);
/* `ended` is 1 if the operation has ended, well or not. Never blocks; makes progress. */
weft_code weft_plan_test(weft_plan* plan, int* ended);
/* Waits for the operation's end. A timeout leaves it under way and names the ranks that have not
 * entered; other errors end the whole group. */
weft_code weft_plan_wait(weft_plan* plan, double timeout_seconds);
/* weft_plan_start, then weft_plan_wait. */
weft_code weft_plan_run(weft_plan* plan, double timeout_seconds);
/* Freeing a plan that is under way ends its group: every rank's operations of it end with
 * WEFT_CODE_CANCELLED. */
weft_code weft_plan_free(weft_plan* plan);

WEFT_C_END

#endif /* WEFT_C_COLLECTIVE_H */
