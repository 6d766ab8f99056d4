/* Tensors: allocated, wrapped or adopted, by DLPack from and to other libraries; and a queue that
 * tells which foreign memory weft no longer needs. */
#ifndef WEFT_C_TENSOR_H
#define WEFT_C_TENSOR_H

#include "weft/c/base.h"

WEFT_C_BEGIN

/* Memory that a tensor's elements lie in. */
typedef enum weft_memory WEFT_C_ENUM {
  WEFT_MEMORY_WRAPPED = 0, /* foreign, unknown to weft: what is put from it is staged (copied) */
  WEFT_MEMORY_ADOPTED = 1, /* foreign, put from without staging */
  WEFT_MEMORY_ARENA = 2    /* the rank's arena, which peers reach without a copy */
} weft_memory;

/* All that weft knows of a tensor. */
typedef struct weft_tensor_info {
  size_t struct_size;
  void* data;    /* the first element */
  size_t bytes;  /* of all elements, which is what a transfer moves */
  size_t extent; /* bytes from the start of the first element to the end of the last */
  weft_dtype dtype;
  weft_memory memory;
  int dense;     /* 1: the elements are contiguous in row-major order */
  int read_only; /* 1: the elements must not be written (DLPack's flag) */
  size_t ndims;
  int64_t dims[WEFT_MAX_DIMS];    /* outermost first */
  int64_t strides[WEFT_MAX_DIMS]; /* between neighbours, in elements */
} weft_tensor_info;

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
 * Memory of a GPU makes a tensor there (weft_tensor_get_place), which goes through host memory. */
weft_code weft_tensor_adopt(weft_world* world, void* data, weft_dtype dtype, const int64_t* dims,
                            size_t ndims, void (*unused)(void* context), void* context,
                            weft_tensor** tensor);
/* The tensor's first element. Valid until the tensor is freed. */
weft_code weft_tensor_data(const weft_tensor* tensor, void** data);
/* The size of all elements in bytes. */
weft_code weft_tensor_bytes(const weft_tensor* tensor, size_t* bytes);
/* Frees the tensor. A slot exposed in its memory (weft_slot_expose_in) keeps that memory. */
weft_code weft_tensor_free(weft_tensor* tensor);

/* As weft_tensor_wrap, with `ndims` strides: for each dimension the distance between neighbours, in
 * elements, not negative. */
weft_code weft_tensor_wrap_strided(void* data, weft_dtype dtype, const int64_t* dims,
                                   const int64_t* strides, size_t ndims, weft_tensor** tensor);
/* Another handle of the same elements; it shares the memory's ownership. */
weft_code weft_tensor_share(const weft_tensor* tensor, weft_tensor** other);
/* The elements from `first` on (row-major) as a tensor of these dimensions over the same memory.
 * WEFT_CODE_BAD_ARGUMENT if they don't lie within the tensor or it is not dense. */
weft_code weft_tensor_part(const weft_tensor* tensor, int64_t first, const int64_t* dims,
                           size_t ndims, weft_tensor** part);
/* All elements of a dense tensor as one of these dimensions, over the same memory.
 * WEFT_CODE_BAD_ARGUMENT if they are of another number of elements. */
weft_code weft_tensor_reshape(const weft_tensor* tensor, const int64_t* dims, size_t ndims,
                              weft_tensor** reshaped);
/* Indices `first` to `first` + `count` - 1 of dimension `dim`, over the same memory: for example
 * columns of a matrix. */
weft_code weft_tensor_slice(const weft_tensor* tensor, size_t dim, int64_t first, int64_t count,
                            weft_tensor** slice);
weft_code weft_tensor_get_info(const weft_tensor* tensor, weft_tensor_info* info);
/* dtype and shape, for example "f32[2, 3]". */
weft_code weft_tensor_text(const weft_tensor* tensor, char** text);

/* Memory with another owner that weft no longer needs, told to whoever asks: a binding then never
 * has to be called from a thread that it does not know. Freed by weft_unused_queue_free. Any thread
 * may ask. */
typedef struct weft_unused_queue weft_unused_queue;

weft_code weft_unused_queue_new(weft_unused_queue** queue);
/* Takes one of the tokens whose memory is unused. `found` is 0 if there is none now. */
weft_code weft_unused_queue_next(weft_unused_queue* queue, void** token, int* found);
/* Frees the queue. Tokens that would still come to it are dropped, so free it last. */
weft_code weft_unused_queue_free(weft_unused_queue* queue);
/* As weft_tensor_adopt: when the memory is unused, `token` comes to `queue`, once. */
weft_code weft_tensor_adopt_queued(weft_world* world, void* data, weft_dtype dtype,
                                   const int64_t* dims, size_t ndims, weft_unused_queue* queue,
                                   void* token, weft_tensor** tensor);
/* As weft_tensor_wrap, but the memory has an owner, who keeps it until `token` comes to `queue`:
 * once, when the tensor was freed and every operation that uses it has ended. `read_only` is 1 for
 * memory that can be put from but not into. Needs no world. */
weft_code weft_tensor_wrap_queued(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                                  int read_only, weft_unused_queue* queue, void* token,
                                  weft_tensor** tensor);

/* DLPack (dlpack.h has the structs): the form of version 1, and the one before it. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;

/* Makes a DLPack tensor that shares the memory's ownership, in host memory or of CUDA's type with
 * its GPU's number; what streams still do to that, the caller orders. Its deleter needs nothing of
 * the caller's and may be called on any thread, also after the world's end. Wrapped memory stays
 * the caller's to keep alive. The second form can't say that memory is read-only, so a read-only
 * tensor is WEFT_CODE_BAD_ARGUMENT there. */
weft_code weft_tensor_to_dlpack(const weft_tensor* tensor,
                                struct DLManagedTensorVersioned** managed);
weft_code weft_tensor_to_dlpack_unversioned(const weft_tensor* tensor,
                                            struct DLManagedTensor** managed);
/* Makes a tensor of a DLPack tensor in the processor's memory or of CUDA's type, and takes that
 * over: if the call succeeds, weft calls its deleter once, on any thread, when the memory is
 * unused, also after the world's end. With `queue` weft never calls it: `managed` comes to the
 * queue as a token, and the caller then calls the deleter. The memory is adopted, or wrapped if
 * `world` is NULL or the tensor has no elements. On a GPU the caller first waits for the streams
 * that still use the memory. The elements must be contiguous. A read-only tensor can be put from
 * but not into: calls that would write it are WEFT_CODE_BAD_ARGUMENT. */
weft_code weft_tensor_from_dlpack(weft_world* world, struct DLManagedTensorVersioned* managed,
                                  weft_unused_queue* queue, weft_tensor** tensor);
weft_code weft_tensor_from_dlpack_unversioned(weft_world* world, struct DLManagedTensor* managed,
                                              weft_unused_queue* queue, weft_tensor** tensor);

WEFT_C_END

#endif /* WEFT_C_TENSOR_H */
