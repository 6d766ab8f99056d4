// Memory with another owner, who is told when weft no longer needs it.
#pragma once

#include <functional>
#include <memory>

#include "bindings/c/tensor.hpp"
#include "bindings/c/unused_queue.hpp"

struct weft_unused_queue {
  std::shared_ptr<weft::c::UnusedQueue> tokens = std::make_shared<weft::c::UnusedQueue>();
};

namespace weft::c {

/// A tensor of foreign memory. `unused` is called once when the memory is no longer needed, unless
/// the call throws. With a world the memory is adopted, otherwise wrapped. `where` is host memory
/// for an adoption that asks the driver itself.
weft_tensor* own_foreign(weft_world* world, void* data, DType dtype, const Shape& shape,
                         Memory where, bool read_only, std::function<void()> unused);
/// The same; `token` comes to the queue.
weft_tensor* own_foreign(weft_world* world, void* data, DType dtype, const Shape& shape,
                         Memory where, bool read_only, weft_unused_queue& queue, void* token);

}  // namespace weft::c
