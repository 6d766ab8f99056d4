/* The C API of weft, for C and every language that can call C: a rank, its tensors, and slots
 * through which tensors are put.
 *
 * Every function returns a weft_code and never throws or aborts. If the code is not WEFT_CODE_OK,
 * weft_error_text() says why, per thread. A NULL argument is WEFT_CODE_BAD_ARGUMENT. Outputs are
 * written only on success.
 *
 * Timeouts are in seconds; a negative one stands for the world's own limit (WEFT_TIMEOUT). There is
 * no infinite wait.
 *
 * Handles are opaque. The caller owns them and frees each once, by the function that its type
 * names. Arrivals are released before their slot is closed, slots closed before their world is
 * left: a call that would break this order returns WEFT_CODE_BAD_ARGUMENT and changes nothing.
 *
 * Forks: in a fork of a rank's process every call that takes a world, a slot, a remote slot or an
 * arrival returns WEFT_CODE_FORKED and changes nothing; handles need not be freed there. The
 * elements of arena tensors and of arrivals are not mapped there.
 *
 * Threads: several threads may use a world; one thread at a time may use a slot, a remote slot or
 * an arrival. */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

/* libweft.so exports the following declarations, whatever visibility the including program sets. */
#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of failure, with the values of weft::Code; the last is this API's own. */
typedef enum weft_code {
  WEFT_CODE_OK = 0,
  WEFT_CODE_TIMEOUT = 1,
  WEFT_CODE_PEER_FAILED = 2,
  WEFT_CODE_PEER_LEFT = 3,
  WEFT_CODE_CLOSED = 4,
  WEFT_CODE_MISMATCH = 5,
  WEFT_CODE_DUPLICATE_NAME = 6,
  WEFT_CODE_WRITER_TAKEN = 7,
  WEFT_CODE_BAD_ARGUMENT = 8,
  WEFT_CODE_BAD_CONFIG = 9,
  WEFT_CODE_EXHAUSTED = 10,
  WEFT_CODE_UNREACHABLE = 11,
  WEFT_CODE_FLOW_OVERRUN = 12,
  WEFT_CODE_CANCELLED = 13,
  WEFT_CODE_BOOTSTRAP = 14,
  WEFT_CODE_SYSTEM = 15,
  WEFT_CODE_FORKED = 16,
  WEFT_CODE_PATH_FAILED = 17,
  WEFT_CODE_FENCED = 18,
  WEFT_CODE_PARTITIONED = 19,
  WEFT_CODE_UNDER_WAY = 100 /* a put goes on after its call, and its tensor stays lent to weft */
} weft_code;

/* Element types, with the values of weft::DType. */
typedef enum weft_dtype {
  WEFT_DTYPE_F64 = 0,
  WEFT_DTYPE_F32 = 1,
  WEFT_DTYPE_F16 = 2,
  WEFT_DTYPE_BF16 = 3,
  WEFT_DTYPE_I64 = 4,
  WEFT_DTYPE_I32 = 5,
  WEFT_DTYPE_I8 = 6,
  WEFT_DTYPE_U8 = 7,
  WEFT_DTYPE_BOOL = 8
} weft_dtype;

typedef struct weft_world weft_world;             /* freed by weft_leave */
typedef struct weft_tensor weft_tensor;           /* freed by weft_tensor_free */
typedef struct weft_slot weft_slot;               /* freed by weft_slot_close */
typedef struct weft_remote_slot weft_remote_slot; /* freed by weft_remote_slot_close */
typedef struct weft_arrival weft_arrival;         /* freed by weft_arrival_release */

/* A slot's properties. Both ends declare them, and they are compared when the writer attaches. The
 * pointers are read only during the call that takes the spec. */
typedef struct weft_slot_spec {
  const char* name; /* unique within its owner; at most 200 bytes */
  weft_dtype dtype;
  const int64_t* dims; /* `ndims` sizes, outermost first; may be NULL when ndims is 0 (a scalar) */
  size_t ndims;        /* at most 8 */
  uint32_t depth;      /* number of buffers; 1 to 4096 */
} weft_slot_spec;

/* The code and the one-line text of this thread's last failing call; WEFT_CODE_OK and "" before the
 * first. The text stays valid until this thread's next failing call and is never NULL. */
weft_code weft_error_code(void);
const char* weft_error_text(void);

/* Joins the job that mpirun or srun started, or the one at WEFT_ADDR; with neither, a world of one
 * rank. */
weft_code weft_join(weft_world** world);
/* Waits until every peer has left too or is dead, then leaves and frees the world. The world is
 * left and freed even if the call fails, for example with WEFT_CODE_TIMEOUT. Only
 * WEFT_CODE_BAD_ARGUMENT (slots are still open) leaves the world unchanged. */
weft_code weft_leave(weft_world* world, double timeout_seconds);
/* This rank, from 0. */
weft_code weft_rank(const weft_world* world, int* rank);
/* The number of ranks of the job. */
weft_code weft_size(const weft_world* world, int* size);

/* Allocates a tensor in the rank's arena, which peers reach without a copy; its elements are not
 * initialised. The tensor may outlive its world. */
weft_code weft_tensor_allocate(weft_world* world, weft_dtype dtype, const int64_t* dims,
                               size_t ndims, weft_tensor** tensor);
/* Describes memory of the caller, who keeps the memory alive until the tensor is freed and every
 * put from it has ended. A put from this tensor is staged: copied once more. */
weft_code weft_tensor_wrap(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                           weft_tensor** tensor);
/* Makes a tensor of memory with another owner (for example a numpy array), put from and into
 * without staging where the kernel lets ranks reach the memory. The owner must not free the memory
 * before weft has called `unused` with `context`: once, on any thread, when the tensor was freed
 * and no peer can touch the memory any more. `unused` may be NULL for memory that is never freed.
 */
weft_code weft_tensor_adopt(weft_world* world, void* data, weft_dtype dtype, const int64_t* dims,
                            size_t ndims, void (*unused)(void* context), void* context,
                            weft_tensor** tensor);
/* The tensor's first element. Valid until the tensor is freed. */
weft_code weft_tensor_data(const weft_tensor* tensor, void** data);
/* The size of all elements in bytes. */
weft_code weft_tensor_bytes(const weft_tensor* tensor, size_t* bytes);
/* Frees the tensor. A slot exposed in its memory (weft_slot_expose_in) keeps that memory. */
weft_code weft_tensor_free(weft_tensor* tensor);

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
 * - WEFT_CODE_UNDER_WAY (only where a network lies between the ranks): the tensor has begun to move
 *   and can't be held back. The put goes on by itself. The tensor is lent to weft: it must not be
 *   written, though it may be freed, until weft_put_wait returns another code. */
weft_code weft_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds);
/* Waits for the put that weft_put has left under way. WEFT_CODE_UNDER_WAY: it still is, at the
 * timeout. Any other code: the put has ended, well (WEFT_CODE_OK) or not, and its tensor may be
 * written again. WEFT_CODE_OK also if there is no such put. */
weft_code weft_put_wait(weft_remote_slot* remote, double timeout_seconds);

/* Waits for the next tensor, in the order of the puts. */
weft_code weft_slot_wait(weft_slot* slot, double timeout_seconds, weft_arrival** arrival);
/* The tensor's elements in the slot's own memory, readable until the arrival is released. */
weft_code weft_arrival_data(const weft_arrival* arrival, const void** data);
/* The size of all elements in bytes. */
weft_code weft_arrival_bytes(const weft_arrival* arrival, size_t* bytes);
/* The tensor's sequence number in its slot, from 1. */
weft_code weft_arrival_sequence(const weft_arrival* arrival, uint64_t* sequence);
/* Returns the buffer to the writer and frees the arrival. */
weft_code weft_arrival_release(weft_arrival* arrival);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif /* WEFT_H */
