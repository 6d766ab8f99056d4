/* Tensors in the memory of GPUs, and copies from and to them. */
#ifndef WEFT_C_DEVICE_H
#define WEFT_C_DEVICE_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

/* Where a tensor's elements lie: a GPU's number from 0 on, as CUDA counts those that the process
 * sees, or one of these. */
enum {
  WEFT_PLACE_HOST = -1,   /* host memory */
  WEFT_PLACE_OWN_GPU = -2 /* this rank's GPU (WEFT_GPU); a tensor's place names it by its number */
};

/* As weft_tensor_allocate, in `place`. The first tensor on a GPU loads the CUDA driver. */
weft_code weft_tensor_allocate_in(weft_world* world, weft_dtype dtype, const int64_t* dims,
                                  size_t ndims, int place, weft_tensor** tensor);
/* As weft_tensor_wrap, of memory in `place`, a GPU by its number or WEFT_PLACE_HOST. */
weft_code weft_tensor_wrap_in(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                              int place, weft_tensor** tensor);
/* As weft_tensor_wrap_queued (weft/c/tensor.h), of memory in `place`, as above. */
weft_code weft_tensor_wrap_queued_in(void* data, weft_dtype dtype, const int64_t* dims,
                                     size_t ndims, int place, int read_only,
                                     weft_unused_queue* queue, void* token, weft_tensor** tensor);
/* Where the tensor's elements lie: WEFT_PLACE_HOST or a GPU's number. The processor must not touch
 * what weft_tensor_data tells of a tensor on a GPU. */
weft_code weft_tensor_get_place(const weft_tensor* tensor, int* place);
/* The place in words, for example "GPU 2". */
weft_code weft_place_text(int place, char** text);

/* Copies the elements of `from` to `to`, dense tensors of one dtype and shape, each in host memory
 * or on a GPU, both on the same one if both are. `stream` points to a cudaStream_t or CUstream: the
 * call returns once the copy is on the stream, and both tensors' memory must stay until it is done.
 * NULL is no stream: the call returns when they are copied. At the timeout the copy is still under
 * way, and weft keeps the memory of both tensors until it has ended, unless the caller's was
 * wrapped. */
weft_code weft_world_copy(weft_world* world, const weft_tensor* from, const weft_tensor* to,
                          void* const* stream, double timeout_seconds);

WEFT_C_END

#endif /* WEFT_C_DEVICE_H */
