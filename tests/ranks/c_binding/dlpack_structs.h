/* DLPack's structs, as a library that is not weft has them. */
#ifndef WEFT_TESTS_DLPACK_STRUCTS_H
#define WEFT_TESTS_DLPACK_STRUCTS_H

#include <stdint.h>

typedef struct {
  void* data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;
typedef struct DLManagedTensor {
  dl_tensor tensor;
  void* context;
  void (*deleter)(struct DLManagedTensor*);
} old_tensor;
typedef struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct DLManagedTensorVersioned*);
  uint64_t flags;
  dl_tensor tensor;
} new_tensor_of_dlpack;

#endif /* WEFT_TESTS_DLPACK_STRUCTS_H */
