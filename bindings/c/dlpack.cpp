// Tensors from and to other libraries by DLPack.
#include "bindings/c/dlpack.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "bindings/c/adoption.hpp"

namespace weft::c {
namespace {

struct TypePair {
  DType dtype;
  std::uint8_t code;
  std::uint8_t bits;
};
constexpr std::array<TypePair, 9> kTypes{{{DType::f64, 2, 64},
                                          {DType::f32, 2, 32},
                                          {DType::f16, 2, 16},
                                          {DType::bf16, 4, 16},
                                          {DType::i64, 0, 64},
                                          {DType::i32, 0, 32},
                                          {DType::i8, 0, 8},
                                          {DType::u8, 1, 8},
                                          {DType::boolean, 6, 8}}};

template <typename Managed>
constexpr bool kVersioned = std::is_same_v<Managed, DLManagedTensorVersioned>;

/// A DLPack tensor and all that it points to.
template <typename Managed>
struct Exported {
  Managed managed{};
  Tensor tensor;
  std::array<std::int64_t, Shape::kMaxDims> dims{};
  std::array<std::int64_t, Shape::kMaxDims> strides{};
};

template <typename Managed>
Managed* exported(const weft_tensor& from) {
  auto out = std::make_unique<Exported<Managed>>();
  out->tensor = from.tensor;
  const Shape& shape = from.tensor.shape();
  for (std::size_t i = 0; i < shape.dims(); ++i) {
    out->dims[i] = shape[i];
    out->strides[i] = from.tensor.stride(i);
  }
  DLTensor& to = out->managed.dl_tensor;
  to.data = from.tensor.data();
  const Memory memory = from.tensor.memory();
  to.device = memory.is_host() ? DLDevice{kDlpackCpu, 0} : DLDevice{kDlpackCuda, memory.ordinal()};
  to.ndim = static_cast<std::int32_t>(shape.dims());
  for (const TypePair& type : kTypes)
    if (type.dtype == from.tensor.dtype()) to.dtype = {type.code, type.bits, 1};
  to.shape = out->dims.data();
  to.strides = out->strides.data();
  if constexpr (kVersioned<Managed>) {
    out->managed.version = {kDlpackMajor, 0};
    out->managed.flags = from.read_only ? kDlpackReadOnly : 0;
  }
  out->managed.manager_ctx = out.get();
  out->managed.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  return &out.release()->managed;
}

[[noreturn]] void refuse_import(std::string message, std::string hint) {
  throw_error(Code::bad_argument, "from_dlpack", std::move(message), std::move(hint));
}

DType imported_dtype(const DLDataType& from) {
  for (const TypePair& type : kTypes)
    if (type.code == from.code && type.bits == from.bits && from.lanes == 1) return type.dtype;
  refuse_import("elements of DLPack's code " + std::to_string(from.code) + ", " +
                    std::to_string(from.bits) + " bits, " + std::to_string(from.lanes) + " lanes",
                "give f64, f32, f16, bf16, i64, i32, i8, u8 or booleans");
}

Shape imported_shape(const DLTensor& from) {
  if (from.ndim < 0) refuse_import("its number of dimensions is below 0", "");
  const auto dims =
      given("from_dlpack", "dl_tensor.shape", from.shape, static_cast<std::size_t>(from.ndim));
  return Shape(std::span<const std::int64_t>(dims));
}

Memory imported_memory(const DLDevice& device) {
  if (device.device_type == kDlpackCpu) return Memory::host();
  if (device.device_type == kDlpackCuda) return Memory::gpu(device.device_id);
  refuse_import("it lies on a device of DLPack's type " + std::to_string(device.device_type),
                "copy it to the processor's memory or a CUDA GPU's first");
}

void check_contiguous(const DLTensor& from, const Shape& shape) {
  if (from.strides == nullptr || shape.elements() == 0) return;
  std::int64_t dense = 1;
  for (std::size_t i = shape.dims(); i-- > 0; dense *= shape[i])
    if (shape[i] != 1 && from.strides[i] != dense)
      refuse_import("its elements are not contiguous in row-major order", "give a contiguous copy");
}

template <typename Managed>
weft_tensor* imported(weft_world* world, Managed& managed, weft_unused_queue* queue) {
  bool read_only = false;
  if constexpr (kVersioned<Managed>) {
    if (managed.version.major != kDlpackMajor)
      refuse_import("it is of DLPack " + std::to_string(managed.version.major),
                    "this weft speaks DLPack 1");
    read_only = (managed.flags & kDlpackReadOnly) != 0;
  }
  const DLTensor& from = managed.dl_tensor;
  const Memory where = imported_memory(from.device);
  const DType dtype = imported_dtype(from.dtype);
  const Shape shape = imported_shape(from);
  check_contiguous(from, shape);
  if (from.data == nullptr && shape.elements() > 0) refuse_import("it has no memory", "");
  auto* const data = static_cast<std::byte*>(from.data) + from.byte_offset;
  if (queue != nullptr)
    return own_foreign(world, data, dtype, shape, where, read_only, *queue, &managed);
  return own_foreign(world, data, dtype, shape, where, read_only, [&managed] {
    if (managed.deleter != nullptr) managed.deleter(&managed);
  });
}

template <typename Managed>
weft_code import_into(weft_world* world, Managed* managed, weft_unused_queue* queue,
                      weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("from_dlpack", "tensor", tensor);
    if (world != nullptr) check_not_forked("from_dlpack", world->world);
    out = imported(world, given("from_dlpack", "managed", managed), queue);
    return WEFT_CODE_OK;
  });
}

}  // namespace
}  // namespace weft::c

using namespace weft::c;

weft_code weft_tensor_to_dlpack(const weft_tensor* tensor,
                                struct DLManagedTensorVersioned** managed) {
  return guarded([&] {
    auto& out = given("to_dlpack", "managed", managed);
    out = exported<DLManagedTensorVersioned>(given("to_dlpack", "tensor", tensor));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_to_dlpack_unversioned(const weft_tensor* tensor,
                                            struct DLManagedTensor** managed) {
  return guarded([&] {
    auto& out = given("to_dlpack", "managed", managed);
    const auto& from = given("to_dlpack", "tensor", tensor);
    if (from.read_only)
      weft::throw_error(weft::Code::bad_argument, "to_dlpack", "the tensor is read-only",
                        "take the form of DLPack 1, which can say so");
    out = exported<DLManagedTensor>(from);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_from_dlpack(weft_world* world, struct DLManagedTensorVersioned* managed,
                                  weft_unused_queue* queue, weft_tensor** tensor) {
  return import_into(world, managed, queue, tensor);
}

weft_code weft_tensor_from_dlpack_unversioned(weft_world* world, struct DLManagedTensor* managed,
                                              weft_unused_queue* queue, weft_tensor** tensor) {
  return import_into(world, managed, queue, tensor);
}
