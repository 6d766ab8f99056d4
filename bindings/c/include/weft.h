/* weft from C, and from every language that can call C: a rank, its tensors, and slots to put
 * them through.
 *
 * Every function returns a weft_code and never throws or aborts. When it is not WEFT_CODE_OK,
 * weft_error_text() says why, per thread. A NULL argument is WEFT_CODE_BAD_ARGUMENT; an output is
 * written only on success.
 *
 * Timeouts are seconds; a negative one stands for the world's own limit (WEFT_TIMEOUT). There is
 * no "for ever".
 *
 * Handles are opaque and owned by the caller, who gives each back once by the call that its type
 * names. Arrivals go before their slot, slots before their world: the call that would break this
 * order is refused with WEFT_CODE_BAD_ARGUMENT and changes nothing.
 *
 * Forks: in a fork of a rank's process every call that takes a world, a slot, a remote slot or an
 * arrival returns WEFT_CODE_FORKED and changes nothing; handles need not be given back there. The
 * elements of arena tensors and arrivals are not mapped in it.
 *
 * Threads: a world may be used by several threads; a slot, a remote slot and an arrival by one at a
 * time. */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

/* What follows is exported by libweft.so, whatever the including program hides of its own. */
#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of failure, with the values of weft::Code. */
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
  WEFT_CODE_PARTITIONED = 19
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

typedef struct weft_world weft_world;             /* given back by weft_leave */
typedef struct weft_tensor weft_tensor;           /* by weft_tensor_free */
typedef struct weft_slot weft_slot;               /* by weft_slot_close */
typedef struct weft_remote_slot weft_remote_slot; /* by weft_remote_slot_close */
typedef struct weft_arrival weft_arrival;         /* by weft_arrival_release */

/* What both ends of a slot declare; compared when the writer attaches. The pointers are only read
 * during the call that takes the spec. */
typedef struct weft_slot_spec {
  const char* name; /* unique within its owner; at most 200 bytes */
  weft_dtype dtype;
  const int64_t* dims; /* `ndims` sizes, outermost first; may be NULL when ndims is 0 (a scalar) */
  size_t ndims;        /* at most 8 */
  uint32_t depth;      /* buffers; 1 to 4096 */
} weft_slot_spec;

/* The code and the one-line text of this thread's last failing call: WEFT_CODE_OK and "" before
 * the first. The text stays valid until this thread's next failing call; it is never NULL. */
weft_code weft_error_code(void);
const char* weft_error_text(void);

/* Joins the job that mpirun or srun started; with no launcher, a world of one. */
weft_code weft_join(weft_world** world);
/* Waits for the peers to leave too, then leaves and frees the world; after WEFT_CODE_TIMEOUT or
 * another failure to agree the world is left and freed as well. Only WEFT_CODE_BAD_ARGUMENT (slots
 * are still open) leaves it as it was. */
weft_code weft_leave(weft_world* world, double timeout_seconds);
weft_code weft_rank(const weft_world* world, int* rank);
weft_code weft_size(const weft_world* world, int* size);

/* A tensor in the rank's arena, which peers reach without a copy; not initialised. It may outlive
 * its world. */
weft_code weft_tensor_allocate(weft_world* world, weft_dtype dtype, const int64_t* dims,
                               size_t ndims, weft_tensor** tensor);
/* Describes memory of the caller's own, who keeps it alive until the tensor is freed and every put
 * from it has ended. A put from it is staged: copied once more. */
weft_code weft_tensor_wrap(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                           weft_tensor** tensor);
/* A tensor of memory that somebody else owns (a numpy array's, say), put from and into without
 * staging where the kernel lets ranks reach it. It must not be freed before `unused` was called
 * with `context`: once, on any thread, when the tensor was freed and no peer can touch the memory
 * any more. `unused` may be NULL for memory that is never freed. */
weft_code weft_tensor_adopt(weft_world* world, void* data, weft_dtype dtype, const int64_t* dims,
                            size_t ndims, void (*unused)(void* context), void* context,
                            weft_tensor** tensor);
weft_code weft_tensor_data(const weft_tensor* tensor, void** data);
weft_code weft_tensor_bytes(const weft_tensor* tensor, size_t* bytes);
weft_code weft_tensor_free(weft_tensor* tensor);

/* Offers a slot that one other rank (or this one) may put into. */
weft_code weft_slot_expose(weft_world* world, const weft_slot_spec* spec, weft_slot** slot);
/* The same with its buffers in a tensor that weft_tensor_adopt or weft_tensor_allocate made, of the
 * slot's dtype and depth times its elements. The tensor may be freed: the slot keeps the memory. */
weft_code weft_slot_expose_in(weft_world* world, const weft_slot_spec* spec,
                              const weft_tensor* memory, weft_slot** slot);
/* Becomes the writer of a slot of `owner`, waiting for it to be exposed. WEFT_CODE_MISMATCH when
 * the two specs differ: the text holds both sides' values, and the owner learns of it too. */
weft_code weft_slot_attach(weft_world* world, int owner, const weft_slot_spec* spec,
                           double timeout_seconds, weft_remote_slot** remote);
/* Refused while an arrival of the slot is held. */
weft_code weft_slot_close(weft_slot* slot);
weft_code weft_remote_slot_close(weft_remote_slot* remote);

/* Moves the tensor into the slot's next buffer and notifies the owner; on success the tensor may
 * be written again. A put that finds no free buffer within the timeout is withdrawn: after
 * WEFT_CODE_TIMEOUT nothing was sent. */
weft_code weft_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds);

/* The next tensor, in the order of the puts. */
weft_code weft_slot_wait(weft_slot* slot, double timeout_seconds, weft_arrival** arrival);
/* The slot's own memory, readable until the arrival is released. */
weft_code weft_arrival_data(const weft_arrival* arrival, const void** data);
weft_code weft_arrival_bytes(const weft_arrival* arrival, size_t* bytes);
/* Counts from 1 with the slot's first tensor. */
weft_code weft_arrival_sequence(const weft_arrival* arrival, uint64_t* sequence);
/* Gives the buffer back to the writer. */
weft_code weft_arrival_release(weft_arrival* arrival);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif /* WEFT_H */
