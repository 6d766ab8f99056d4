// Tensors: allocated, wrapped or adopted.
#include <utility>

#include "bindings/c/call.hpp"

using namespace weft::c;

namespace {

weft_tensor* new_tensor(weft::Tensor tensor) { return new weft_tensor{std::move(tensor)}; }

}  // namespace

weft_code weft_tensor_allocate(weft_world* world, weft_dtype dtype, const int64_t* dims,
                               size_t ndims, weft_tensor** tensor) {
  constexpr auto kOperation = "allocate";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    out = new_tensor(
        given(kOperation, "world", world)
            .world.allocate(checked_dtype(kOperation, dtype), shape_of(kOperation, dims, ndims)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_wrap(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                           weft_tensor** tensor) {
  constexpr auto kOperation = "wrap";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    if (data == nullptr) weft::throw_error(weft::Code::bad_argument, kOperation, "data is NULL");
    out = new_tensor(weft::Tensor::wrap(data, checked_dtype(kOperation, dtype),
                                        shape_of(kOperation, dims, ndims)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_adopt(weft_world* world, void* data, weft_dtype dtype, const int64_t* dims,
                            size_t ndims, void (*unused)(void* context), void* context,
                            weft_tensor** tensor) {
  constexpr auto kOperation = "adopt";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    if (data == nullptr) weft::throw_error(weft::Code::bad_argument, kOperation, "data is NULL");
    out = new_tensor(given(kOperation, "world", world)
                         .world.adopt(data, checked_dtype(kOperation, dtype),
                                      shape_of(kOperation, dims, ndims), [unused, context] {
                                        if (unused != nullptr) unused(context);
                                      }));
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

weft_code weft_tensor_free(weft_tensor* tensor) {
  return guarded([&] {
    delete &given("tensor_free", "tensor", tensor);
    return WEFT_CODE_OK;
  });
}
