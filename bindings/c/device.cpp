// Tensors in the memory of GPUs.
#include "weft/device.hpp"

#include <string>

#include "bindings/c/tensor.hpp"

using namespace weft::c;

namespace weft::c {

Memory memory_in(const char* operation, int place) {
  if (place == WEFT_PLACE_HOST) return Memory::host();
  if (place == WEFT_PLACE_OWN_GPU) return Memory::gpu();
  if (place < 0)
    throw_error(Code::bad_argument, operation,
                "the place is " + std::to_string(place) +
                    ", neither a GPU's number nor one of WEFT_PLACE_*");
  return Memory::gpu(place);
}

}  // namespace weft::c

weft_code weft_tensor_allocate_in(weft_world* world, weft_dtype dtype, const int64_t* dims,
                                  size_t ndims, int place, weft_tensor** tensor) {
  constexpr auto kOperation = "allocate";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    out = new_tensor(
        given(kOperation, "world", world)
            .world.allocate(checked_dtype(kOperation, dtype), shape_of(kOperation, dims, ndims),
                            memory_in(kOperation, place)),
        WEFT_MEMORY_ARENA);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_wrap_in(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                              int place, weft_tensor** tensor) {
  constexpr auto kOperation = "wrap";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    check_data(kOperation, data);
    out = new_tensor(
        weft::Tensor::wrap(data, checked_dtype(kOperation, dtype),
                           shape_of(kOperation, dims, ndims), memory_in(kOperation, place)),
        WEFT_MEMORY_WRAPPED);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_get_place(const weft_tensor* tensor, int* place) {
  constexpr auto kOperation = "get_place";
  return guarded([&] {
    auto& out = given(kOperation, "place", place);
    const weft::Memory memory = given(kOperation, "tensor", tensor).tensor.memory();
    out = memory.is_host() ? static_cast<int>(WEFT_PLACE_HOST) : memory.ordinal();
    return WEFT_CODE_OK;
  });
}

weft_code weft_place_text(int place, char** text) {
  constexpr auto kOperation = "place_text";
  return guarded([&] {
    auto& out = given(kOperation, "text", text);
    out = new_text(memory_in(kOperation, place).text());
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_copy(weft_world* world, const weft_tensor* from, const weft_tensor* to,
                          void* const* stream, double timeout_seconds) {
  constexpr auto kOperation = "copy";
  return guarded([&] {
    const weft_tensor& target = given(kOperation, "to", to);
    check_writable(kOperation, target);
    given(kOperation, "world", world)
        .world.copy(given(kOperation, "from", from).tensor, target.tensor, stream_in(stream),
                    deadline(kOperation, timeout_seconds));
    return WEFT_CODE_OK;
  });
}
