#include "bindings/c/adoption.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "runtime/world/world_state.hpp"

namespace weft::c {
namespace {

/// Wrapped memory whose owner is told of its end.
class WrappedStorage final : public Storage {
 public:
  WrappedStorage(void* data, std::size_t bytes, Memory where)
      : Storage(static_cast<std::byte*>(data), bytes, nullptr, where) {}
  ~WrappedStorage() override {
    if (unused_) unused_();
  }
  void when_unused(std::function<void()> unused) noexcept { unused_ = std::move(unused); }

 private:
  std::function<void()> unused_;
};

/// Refuses memory that is not on the GPU that it is said to be on, before it is taken over.
void check_gpu(World& world, const void* data, Memory where) {
  p2p::cuda::Gpus& gpus = WorldAccess::state(world).gpus;
  (void)gpus.resolve("from_dlpack", where);  // loads the driver
  if (const Memory found = gpus.memory_of(data); !(found == where))
    throw_error(Code::bad_argument, "from_dlpack",
                where.text() + " is given as its device, but the memory is " +
                    (found.is_host() ? "the host's" : found.text() + "'s"),
                "give the device that the memory is on");
}

}  // namespace

void UnusedQueue::promise() {
  const std::lock_guard lock(mutex_);
  if (tokens_.size() + promised_ == tokens_.capacity()) tokens_.reserve(2 * tokens_.capacity() + 8);
  ++promised_;
}

void UnusedQueue::withdraw() noexcept {
  const std::lock_guard lock(mutex_);
  --promised_;
}

void UnusedQueue::push(void* token) noexcept {
  const std::lock_guard lock(mutex_);
  --promised_;
  tokens_.push_back(token);
}

bool UnusedQueue::next(void*& token) noexcept {
  const std::lock_guard lock(mutex_);
  if (tokens_.empty()) return false;
  token = tokens_.back();
  tokens_.pop_back();
  return true;
}

weft_memory memory_of(const weft_world& world, const Tensor& tensor) noexcept {
  const p2p::LocalRank& local = WorldAccess::state(const_cast<World&>(world.world)).local;
  if (tensor.arena() == local.adopted.get()) return WEFT_MEMORY_ADOPTED;
  if (tensor.memory().is_gpu())
    return tensor.arena() == nullptr ? WEFT_MEMORY_WRAPPED : WEFT_MEMORY_ARENA;
  return local.reachable(tensor.data(), tensor.extent()) ? WEFT_MEMORY_ARENA : WEFT_MEMORY_WRAPPED;
}

weft_tensor* own_foreign(weft_world* world, void* data, DType dtype, const Shape& shape,
                         Memory where, bool read_only, std::function<void()> unused) {
  // First, so that nothing can fail once the memory is weft's.
  auto handle = std::make_unique<weft_tensor>();
  handle->read_only = read_only;
  if (world != nullptr && shape.elements() > 0) {
    if (where.is_gpu()) check_gpu(world->world, data, where);
    handle->tensor = world->world.adopt(data, dtype, shape, std::move(unused));
    handle->memory = WEFT_MEMORY_ADOPTED;
    return handle.release();
  }
  const auto bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  const auto storage = std::make_shared<WrappedStorage>(data, bytes, where);
  handle->tensor = Tensor(storage, 0, dtype, shape);
  storage->when_unused(std::move(unused));
  return handle.release();
}

weft_tensor* own_foreign(weft_world* world, void* data, DType dtype, const Shape& shape,
                         Memory where, bool read_only, weft_unused_queue& queue, void* token) {
  const auto tokens = queue.tokens;
  tokens->promise();
  try {
    return own_foreign(world, data, dtype, shape, where, read_only,
                       [tokens, token] { tokens->push(token); });
  } catch (...) {
    tokens->withdraw();
    throw;
  }
}

}  // namespace weft::c

using namespace weft::c;

weft_code weft_unused_queue_new(weft_unused_queue** queue) {
  return guarded([&] {
    given("unused_queue", "queue", queue) = new weft_unused_queue();
    return WEFT_CODE_OK;
  });
}

weft_code weft_unused_queue_next(weft_unused_queue* queue, void** token, int* found) {
  return guarded([&] {
    auto& out = given("unused_queue_next", "token", token);
    auto& is_found = given("unused_queue_next", "found", found);
    is_found = given("unused_queue_next", "queue", queue).tokens->next(out) ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_unused_queue_free(weft_unused_queue* queue) {
  return guarded([&] {
    delete &given("unused_queue_free", "queue", queue);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_adopt_queued(weft_world* world, void* data, weft_dtype dtype,
                                   const int64_t* dims, size_t ndims, weft_unused_queue* queue,
                                   void* token, weft_tensor** tensor) {
  constexpr auto kOperation = "adopt";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    if (data == nullptr) weft::throw_error(weft::Code::bad_argument, kOperation, "data is NULL");
    out = own_foreign(&given(kOperation, "world", world), data, checked_dtype(kOperation, dtype),
                      shape_of(kOperation, dims, ndims), weft::Memory::host(), false,
                      given(kOperation, "queue", queue), token);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_wrap_queued(void* data, weft_dtype dtype, const int64_t* dims, size_t ndims,
                                  int read_only, weft_unused_queue* queue, void* token,
                                  weft_tensor** tensor) {
  constexpr auto kOperation = "wrap";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    if (data == nullptr) weft::throw_error(weft::Code::bad_argument, kOperation, "data is NULL");
    out = own_foreign(nullptr, data, checked_dtype(kOperation, dtype),
                      shape_of(kOperation, dims, ndims), weft::Memory::host(), read_only != 0,
                      given(kOperation, "queue", queue), token);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tensor_wrap_queued_in(void* data, weft_dtype dtype, const int64_t* dims,
                                     size_t ndims, int place, int read_only,
                                     weft_unused_queue* queue, void* token, weft_tensor** tensor) {
  constexpr auto kOperation = "wrap";
  return guarded([&] {
    auto& out = given(kOperation, "tensor", tensor);
    check_data(kOperation, data);
    const weft::Memory where = memory_in(kOperation, place);
    if (where.is_own_gpu())
      weft::throw_error(weft::Code::bad_argument, kOperation,
                        "WEFT_PLACE_OWN_GPU is the number of no GPU",
                        "give the number of the GPU that the memory is on");
    out = own_foreign(nullptr, data, checked_dtype(kOperation, dtype),
                      shape_of(kOperation, dims, ndims), where, read_only != 0,
                      given(kOperation, "queue", queue), token);
    return WEFT_CODE_OK;
  });
}
