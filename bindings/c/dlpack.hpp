// The structs of DLPack, as its header has them (github.com/dmlc/dlpack, version 1): tensors of any
// library in one form. Declared here so that weft needs no header of another project.
#pragma once

#include <cstdint>

extern "C" {

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: contiguous
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

}  // extern "C"

namespace weft::c {

inline constexpr std::uint32_t kDlpackMajor = 1;
inline constexpr std::int32_t kDlpackCpu = 1;
inline constexpr std::int32_t kDlpackCuda = 2;
inline constexpr std::uint64_t kDlpackReadOnly = 1;

}  // namespace weft::c
