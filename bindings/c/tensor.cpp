// Tensors: allocated, wrapped or adopted, and parts of others.
#include "bindings/c/tensor.hpp"

#include <string>
#include <utility>

#include "bindings/c/sized.hpp"

namespace weft::c {

weft_tensor* new_tensor(Tensor tensor, weft_memory memory, bool read_only) {
  return new weft_tensor{std::move(tensor), memory, read_only};
}

void check_data(const char* operation, const void* data) {
  if (data == nullptr) throw_error(Code::bad_argument, operation, "data is NULL");
}

}  // namespace weft::c

using namespace weft::c;

namespace {

/// A handle of `tensor`, which lies in `from`.
weft_tensor* new_view(const weft_tensor& from, weft::Tensor tensor) {
  return new_tensor(std::move(tensor), from.memory, from.read_only);
}

}  // namespace

weft_code weft_tensor_allocate(weft_world* world, weft_dtype dtype, const int64_t* dims,
                               size_t ndims, weft_tensor** tensor) {
  constexpr auto kOperation = "allocate";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    out = new_tensor(
        given(kOperation, "world", world)
            .world.allocate(checked_dtype(kOperation, dtype), shape_of(kOperation, dims, ndims)),
        WEFT_MEMORY_ARENA);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_wrap(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                           weft_tensor** tensor) {
  constexpr auto kOperation = "wrap";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    check_data(kOperation, data);
    out = new_tensor(weft::Tensor::wrap(data, checked_dtype(kOperation, dtype),
                                        shape_of(kOperation, dims, ndims)),
                     WEFT_MEMORY_WRAPPED);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_wrap_strided(void* data, weft_dtype dtype, const int64_t* dims,
                                   const int64_t* strides, size_t ndims, weft_tensor** tensor) {
  constexpr auto kOperation = "wrap";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    check_data(kOperation, data);
    out = new_tensor(weft::Tensor::wrap(data, checked_dtype(kOperation, dtype),
                                        shape_of(kOperation, dims, ndims),
                                        given(kOperation, "strides", strides, ndims)),
                     WEFT_MEMORY_WRAPPED);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_adopt(weft_world* world, void* data, weft_dtype dtype, const int64_t* dims,
                            size_t ndims, void (*unused)(void* context), void* context,
                            weft_tensor** tensor) {
  constexpr auto kOperation = "adopt";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    check_data(kOperation, data);
    out = new_tensor(
        given(kOperation, "world", world)
            .world.adopt(data, checked_dtype(kOperation, dtype), shape_of(kOperation, dims, ndims),
                         [unused, context] {
                           if (unused != nullptr) unused(context);
                         }),
        WEFT_MEMORY_ADOPTED);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_share(const weft_tensor* tensor, weft_tensor** other) {
  return guarded([&] {
    auto& out = given("share", "other", other);
    const auto& from = given("share", "tensor", tensor);
    out = new_view(from, from.tensor);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_part(const weft_tensor* tensor, int64_t first, const int64_t* dims,
                           size_t ndims, weft_tensor** part) {
  return guarded([&] {
    auto& out = given("part", "part", part);
    const auto& from = given("part", "tensor", tensor);
    out = new_view(from, from.tensor.part(first, shape_of("part", dims, ndims)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_reshape(const weft_tensor* tensor, const int64_t* dims, size_t ndims,
                              weft_tensor** reshaped) {
  return guarded([&] {
    auto& out = given("reshape", "reshaped", reshaped);
    const auto& from = given("reshape", "tensor", tensor);
    out = new_view(from, from.tensor.reshape(shape_of("reshape", dims, ndims)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_slice(const weft_tensor* tensor, size_t dim, int64_t first, int64_t count,
                            weft_tensor** slice) {
  return guarded([&] {
    auto& out = given("slice", "slice", slice);
    const auto& from = given("slice", "tensor", tensor);
    out = new_view(from, from.tensor.slice(dim, first, count));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_data(const weft_tensor* tensor, void** data) {
  return guarded([&] {
    given("tensor_data", "data", data) = given("tensor_data", "tensor", tensor).tensor.data();
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_bytes(const weft_tensor* tensor, size_t* bytes) {
  return guarded([&] {
    given("tensor_bytes", "bytes", bytes) = given("tensor_bytes", "tensor", tensor).tensor.bytes();
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_get_info(const weft_tensor* tensor, weft_tensor_info* info) {
  return guarded([&] {
    const auto& handle = given("tensor_info", "tensor", tensor);
    const weft::Tensor& from = handle.tensor;
    weft_tensor_info known{};
    known.data = from.data();
    known.bytes = from.bytes();
    known.extent = from.extent();
    known.dtype = static_cast<weft_dtype>(from.dtype());
    known.memory = handle.memory;
    known.dense = from.dense() ? 1 : 0;
    known.read_only = handle.read_only ? 1 : 0;
    known.ndims = from.shape().dims();
    for (std::size_t i = 0; i < known.ndims; ++i) {
      known.dims[i] = from.shape()[i];
      known.strides[i] = from.stride(i);
    }
    write_sized("tensor_info", "info", info, known);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_text(const weft_tensor* tensor, char** text) {
  return guarded([&] {
    auto& out = given("tensor_text", "text", text);
    out = new_text(given("tensor_text", "tensor", tensor).tensor.text());
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_free(weft_tensor* tensor) {
  return guarded([&] {
    delete &given("tensor_free", "tensor", tensor);
    return WEFT_CODE_OK;
  });
}
