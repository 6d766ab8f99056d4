/* Slots: named memory of a rank that another rank puts tensors into. */
#ifndef WEFT_C_SLOT_H
#define WEFT_C_SLOT_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

/* A slot's properties. Both ends declare them, and they are compared when the writer attaches. The
 * pointers are read only during the call that takes the spec. */
typedef struct weft_slot_spec {
  const char* name; /* unique within its owner; at most 200 bytes */
  weft_dtype dtype;
  const int64_t* dims; /* `ndims` sizes, outermost first; may be NULL when ndims is 0 (a scalar) */
  size_t ndims;        /* at most 8 */
  uint32_t depth;      /* number of buffers; 1 to 4096 */
} weft_slot_spec;

/* How a slot's writer is kept from overwriting what a reader still reads. */
typedef enum weft_flow WEFT_C_ENUM {
  WEFT_FLOW_CREDITS = 0,           /* the writer waits for the reader's credits */
  WEFT_FLOW_UNSAFE_SYNCHRONOUS = 1 /* the training loop itself guarantees it */
} weft_flow;

/* Where a put's tensor goes. */
typedef enum weft_placement WEFT_C_ENUM {
  WEFT_PLACEMENT_FIXED = 0,  /* into the slot's own buffers: every tensor has the slot's shape */
  WEFT_PLACEMENT_DYNAMIC = 1 /* into memory that the owner allocates for each arrival: only the
                              * number of dimensions is fixed; depth is at most 32 */
} weft_placement;

/* When a put counts as done. */
typedef enum weft_until WEFT_C_ENUM {
  WEFT_UNTIL_REUSABLE = 0, /* the source tensor may be written again */
  WEFT_UNTIL_DELIVERED = 1 /* the owner can see the tensor */
} weft_until;

/* How long a wait needs a rank that is not its slot's peer. */
typedef enum weft_needed WEFT_C_ENUM {
  WEFT_NEEDED_ALWAYS = 0,         /* the rank may neither fail nor leave */
  WEFT_NEEDED_UNTIL_IT_LEAVES = 1 /* the rank may leave the job in order, but not fail */
} weft_needed;

/* More properties of a slot. Both ends give the same flow and placement. */
typedef struct weft_slot_options {
  size_t struct_size;
  weft_flow flow;
  weft_placement placement;
  const weft_tensor* memory; /* the owner's: as for weft_slot_expose_in; NULL: weft allocates */
  const int* place;          /* the owner's: where the buffers, or a dynamic slot's tensors, lie: a
                              * GPU's number or WEFT_PLACE_*; NULL: in host memory */
} weft_slot_options;

/* A slot's properties, as its end knows them. */
typedef struct weft_slot_info {
  size_t struct_size;
  const char* name; /* valid until the handle is freed */
  weft_dtype dtype;
  uint32_t depth;
  weft_flow flow;
  weft_placement placement;
  int owner; /* the rank that has exposed it */
  int reserved;
  size_t ndims;
  int64_t dims[WEFT_MAX_DIMS]; /* of a dynamic slot only their number counts */
} weft_slot_info;

/* Makes the tensor that a dynamic arrival is read into: dense, of that dtype and those dimensions,
 * in memory that the caller chooses. weft takes the handle over. A code other than WEFT_CODE_OK
 * becomes the wait's, and the tensor stays with its writer. Called by weft_slot_wait. */
typedef weft_code (*weft_allocate_function)(void* context, weft_dtype dtype, const int64_t* dims,
                                            size_t ndims, weft_tensor** tensor);

typedef struct weft_request weft_request; /* freed by weft_request_free */

/* Exposes a slot that one rank (this one included) may put into. */
weft_code weft_slot_expose(weft_world* world, const weft_slot_spec* spec, weft_slot** slot);
/* The same with the slot's buffers in `memory`: a tensor from weft_tensor_adopt or
 * weft_tensor_allocate, of the slot's dtype and `depth` times its elements. The tensor may be
 * freed: the slot keeps the memory alive. */
weft_code weft_slot_expose_in(weft_world* world, const weft_slot_spec* spec,
                              const weft_tensor* memory, weft_slot** slot);
/* Attaches as the writer of a slot of rank `owner`, waiting for the slot to be exposed.
 * WEFT_CODE_MISMATCH if the two specs differ: the text has both sides' values, and the owner is
 * told too. */
weft_code weft_slot_attach(weft_world* world, int owner, const weft_slot_spec* spec,
                           double timeout_seconds, weft_remote_slot** remote);
/* The same with more properties; `options` may be NULL. */
weft_code weft_slot_expose_with(weft_world* world, const weft_slot_spec* spec,
                                const weft_slot_options* options, weft_slot** slot);
weft_code weft_slot_attach_with(weft_world* world, int owner, const weft_slot_spec* spec,
                                const weft_slot_options* options, double timeout_seconds,
                                weft_remote_slot** remote);
/* Attaches by name alone, with the properties that the owner has declared. */
weft_code weft_slot_attach_by_name(weft_world* world, int owner, const char* name,
                                   double timeout_seconds, weft_remote_slot** remote);
weft_code weft_slot_get_info(const weft_slot* slot, weft_slot_info* info);
weft_code weft_remote_slot_get_info(const weft_remote_slot* remote, weft_slot_info* info);
/* For a dynamic slot: arrivals are read into tensors that `allocate` makes, instead of the world's
 * arena. WEFT_CODE_BAD_ARGUMENT for a slot of fixed shape. */
weft_code weft_slot_allocate_with(weft_slot* slot, weft_allocate_function allocate, void* context);
/* Waits on this end also end when one of `ranks` is dead or has left: for a loop that needs these
 * ranks although the slot's own peer lives. */
weft_code weft_slot_also_needs(weft_slot* slot, const int* ranks, size_t count, weft_needed needed);
weft_code weft_remote_slot_also_needs(weft_remote_slot* remote, const int* ranks, size_t count,
                                      weft_needed needed);
/* The number of queue pairs to the owner; 1 where the fabric has no such thing. */
weft_code weft_remote_slot_queue_pairs(const weft_remote_slot* remote, int* number);
/* Pins this slot's puts to queue pair `index`, unstriped, so that they stay ordered with those of
 * other slots pinned to it. Only before the first put. */
weft_code weft_remote_slot_use_queue_pair(weft_remote_slot* remote, int index);
/* Closes and frees the slot; its writer's calls then end with WEFT_CODE_CLOSED. Refused while an
 * arrival of the slot is held. */
weft_code weft_slot_close(weft_slot* slot);
/* Detaches from the slot; tensors put before stay in it. A put that is under way goes on, but there
 * is no way any more to learn when its tensor may be written. */
weft_code weft_remote_slot_close(weft_remote_slot* remote);

/* Moves the tensor into the slot's next buffer and notifies the owner. On success the tensor may be
 * written again. A put before that is under way is waited for first; if it fails, so does this one,
 * with the same code, and sends nothing. At the timeout:
 * - WEFT_CODE_TIMEOUT: no buffer was free, or the put before is still under way. Nothing of this
 *   put was sent, and nothing will be.
 * - WEFT_CODE_UNDER_WAY (between hosts, and into a dynamic slot): the tensor has begun to move
 *   and can't be held back. The put goes on by itself. The tensor is lent to weft: it must not be
 *   written, though it may be freed, until weft_put_wait returns another code. */
weft_code weft_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds);
/* Waits for the put that weft_put has left under way. WEFT_CODE_UNDER_WAY: it still is, at the
 * timeout. Any other code: the put has ended, well (WEFT_CODE_OK) or not, and its tensor may be
 * written again. WEFT_CODE_OK also if there is no such put. */
weft_code weft_put_wait(weft_remote_slot* remote, double timeout_seconds);

/* Begins to move `count` tensors whose elements, in this order, fill the slot's next buffer: one
 * operation. Their memory is lent to weft until the request has ended; the handles may be freed.
 * Several puts of a slot may be under way (at most 64 without a credit, then the request has ended
 * with WEFT_CODE_EXHAUSTED). Into a dynamic slot `count` is 1, and the tensor is lent until the
 * owner has read it. */
weft_code weft_put_start(weft_remote_slot* remote, const weft_tensor* const* parts, size_t count,
                         weft_until until, weft_request** request);
/* Begins a put that starts once the work now on the stream is done, and takes the tensor as that
 * work leaves it. Call weft_request_wait_on before later work on the stream writes the tensor. */
weft_code weft_put_start_on(weft_remote_slot* remote, const weft_tensor* tensor,
                            void* const* stream, weft_until until, weft_request** request);
/* `ended` is 1 if the operation has ended, well or not. Never blocks. */
weft_code weft_request_test(weft_request* request, int* ended);
/* Waits for the operation's end and returns its code. A timeout leaves it under way. */
weft_code weft_request_wait(weft_request* request, double timeout_seconds);
/* The stream waits in place of the thread. If the operation fails or is late, the stream goes on,
 * and the remote slot's next call with a stream returns why. */
weft_code weft_request_wait_on(weft_request* request, void* const* stream, double timeout_seconds);
/* Ends an operation that has not begun to move data: WEFT_CODE_CANCELLED, also from then on. One
 * that has ended is unchanged, and its code is returned. WEFT_CODE_BAD_ARGUMENT if the tensor is on
 * its way already; the request lives on then. */
weft_code weft_request_cancel(weft_request* request);
/* Frees the handle; an operation that is under way goes on. */
weft_code weft_request_free(weft_request* request);

/* Waits for the next tensor, in the order of the puts. */
weft_code weft_slot_wait(weft_slot* slot, double timeout_seconds, weft_arrival** arrival);
/* The same where a stream waits in place of the thread (weft_world_copy says how one is given; NULL
 * is none). The arrival's tensor is there for what is put on the stream later. For slots of fixed
 * shape on a GPU; of one in host memory the thread waits. If the tensor does not come in time, the
 * stream goes on, weft_arrival_outcome tells the GPU, and the slot's next wait returns why, and
 * begins anew with that tensor. */
weft_code weft_slot_wait_on(weft_slot* slot, void* const* stream, double timeout_seconds,
                            weft_arrival** arrival);
/* `ready` is 1 if weft_slot_wait would return at once. */
weft_code weft_slot_ready(const weft_slot* slot, int* ready);
/* The tensor's elements in the slot's own memory, readable until the arrival is released. */
weft_code weft_arrival_data(const weft_arrival* arrival, const void** data);
/* The size of all elements in bytes. */
weft_code weft_arrival_bytes(const weft_arrival* arrival, size_t* bytes);
/* The tensor's sequence number in its slot, from 1. */
weft_code weft_arrival_sequence(const weft_arrival* arrival, uint64_t* sequence);
/* The tensor itself, read-only: its shape, parts and DLPack. Its elements may be read until the
 * arrival is released; those of a dynamic slot stay as long as the tensor. */
weft_code weft_arrival_tensor(const weft_arrival* arrival, weft_tensor** tensor);
/* Returns the buffer to the writer and frees the arrival. */
weft_code weft_arrival_release(weft_arrival* arrival);
/* The same behind what is on the stream: returns at once. With an error the arrival is still
 * held. */
weft_code weft_arrival_release_on(weft_arrival* arrival, void* const* stream);
/* After weft_slot_wait_on: the word that tells, behind the stream's wait, whether the tensor came:
 * WEFT_CODE_OK, or else the code. In host memory that all of the process's GPUs reach; valid until
 * the release. NULL: the call itself has waited. */
weft_code weft_arrival_outcome(const weft_arrival* arrival, const uint32_t** outcome);

WEFT_C_END

#endif /* WEFT_C_SLOT_H */
