/* Allocation sites: memory for a trainer's own engine that learns which allocations are sent.
 * weft/tracing.hpp and docs/dataflow.md say how a site is traced. */
#ifndef WEFT_C_TRACING_H
#define WEFT_C_TRACING_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

typedef struct weft_tracer weft_tracer;             /* freed by weft_tracer_close; any thread */
typedef struct weft_running_node weft_running_node; /* freed by weft_running_node_leave */

/* The memory that a tracer gives. */
typedef enum weft_tracing_mode WEFT_C_ENUM {
  WEFT_TRACING_SITES = 0,     /* registered if a tensor of the site was sent in an earlier step */
  WEFT_TRACING_CUT_EDGES = 1, /* registered one by one if weft_tracer_mark_cut named the site */
  WEFT_TRACING_OFF = 2        /* plain; every tensor that is sent is copied: to compare */
} weft_tracing_mode;

typedef struct weft_tracing_options {
  size_t struct_size;
  size_t max_sites; /* the largest number of sites, and of nodes; 0: 65536 */
  weft_tracing_mode mode;
  int reserved;
} weft_tracing_options;

/* Counts so far. */
typedef struct weft_tracing_counters {
  size_t struct_size;
  uint64_t steps;                  /* that have ended */
  uint64_t plain_allocations;      /* in plain memory */
  uint64_t registered_allocations; /* in the arena, or registered one by one */
  uint64_t sends;                  /* weft_tracer_to_send */
  uint64_t copies;                 /* by it */
  uint64_t bytes_copied;           /* by it */
  uint64_t registrations;          /* of allocations, one by one */
  uint64_t sites;
  uint64_t sent_sites; /* whose tensors were sent */
  uint64_t late_sites; /* those of them that were not sent in the first step */
} weft_tracing_counters;

/* `options` may be NULL. */
weft_code weft_tracer_open(weft_world* world, const weft_tracing_options* options,
                           weft_tracer** tracer);
/* Refused while a node runs. Tensors may outlive the tracer. */
weft_code weft_tracer_close(weft_tracer* tracer);
/* The node of that name runs on this thread until it is left; its allocations are counted from 0.
 * Within another node's run, that node waits. */
weft_code weft_tracer_enter(weft_tracer* tracer, const char* node, weft_running_node** running);
/* Leaves the innermost node of this thread; any other is WEFT_CODE_BAD_ARGUMENT. */
weft_code weft_running_node_leave(weft_running_node* running);
/* A dense tensor of the node that runs on this thread, 64-byte aligned, not initialised. */
weft_code weft_tracer_allocate(weft_tracer* tracer, weft_dtype dtype, const int64_t* dims,
                               size_t ndims, weft_tensor** tensor);
/* A tensor of the same elements that no put has to copy: the tensor itself where it lies in such
 * memory, else a copy in the arena, counted. */
weft_code weft_tracer_to_send(weft_tracer* tracer, const weft_tensor* tensor,
                              weft_tensor** to_send);
/* Names a site whose tensors cross ranks, for WEFT_TRACING_CUT_EDGES. Other modes ignore it. */
weft_code weft_tracer_mark_cut(weft_tracer* tracer, const char* node, uint32_t allocation);
/* Ends a step: sites that it sent are registered from now on. */
weft_code weft_tracer_next_step(weft_tracer* tracer);
weft_code weft_tracer_get_counters(const weft_tracer* tracer, weft_tracing_counters* counters);
/* The sites and what they cost, as TracingReport::json() in weft/tracing.hpp documents. */
weft_code weft_tracer_report(const weft_tracer* tracer, char** json);

WEFT_C_END

#endif /* WEFT_C_TRACING_H */
