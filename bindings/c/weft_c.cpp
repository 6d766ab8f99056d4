// weft.h on top of the C++ types: one C function per operation, with exceptions turned into codes.
#include "base/fail.hpp"
#include "weft.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "weft/world.hpp"

struct weft_world {
  weft::World world;
  std::atomic<int> open_slots{0};
};

struct weft_tensor {
  weft::Tensor tensor;
};

struct weft_slot {
  weft::Slot slot;
  weft_world* world;
  int held_arrivals = 0;
};

struct weft_remote_slot {
  weft::RemoteSlot remote;
  weft_world* world;
};

struct weft_arrival {
  weft::Arrival arrival;
  weft_slot* slot = nullptr;
};

namespace {

using weft::Code;
using weft::DType;

static_assert(WEFT_CODE_OK == static_cast<int>(Code::ok));
static_assert(WEFT_CODE_TIMEOUT == static_cast<int>(Code::timeout));
static_assert(WEFT_CODE_PEER_FAILED == static_cast<int>(Code::peer_failed));
static_assert(WEFT_CODE_PEER_LEFT == static_cast<int>(Code::peer_left));
static_assert(WEFT_CODE_CLOSED == static_cast<int>(Code::closed));
static_assert(WEFT_CODE_MISMATCH == static_cast<int>(Code::mismatch));
static_assert(WEFT_CODE_DUPLICATE_NAME == static_cast<int>(Code::duplicate_name));
static_assert(WEFT_CODE_WRITER_TAKEN == static_cast<int>(Code::writer_taken));
static_assert(WEFT_CODE_BAD_ARGUMENT == static_cast<int>(Code::bad_argument));
static_assert(WEFT_CODE_BAD_CONFIG == static_cast<int>(Code::bad_config));
static_assert(WEFT_CODE_EXHAUSTED == static_cast<int>(Code::exhausted));
static_assert(WEFT_CODE_UNREACHABLE == static_cast<int>(Code::unreachable));
static_assert(WEFT_CODE_FLOW_OVERRUN == static_cast<int>(Code::flow_overrun));
static_assert(WEFT_CODE_CANCELLED == static_cast<int>(Code::cancelled));
static_assert(WEFT_CODE_BOOTSTRAP == static_cast<int>(Code::bootstrap));
static_assert(WEFT_CODE_SYSTEM == static_cast<int>(Code::system));
static_assert(WEFT_CODE_FORKED == static_cast<int>(Code::forked));
static_assert(WEFT_CODE_PATH_FAILED == static_cast<int>(Code::path_failed));
static_assert(WEFT_CODE_FENCED == static_cast<int>(Code::fenced));
static_assert(WEFT_CODE_PARTITIONED == static_cast<int>(Code::partitioned));

static_assert(WEFT_DTYPE_F64 == static_cast<int>(DType::f64));
static_assert(WEFT_DTYPE_F32 == static_cast<int>(DType::f32));
static_assert(WEFT_DTYPE_F16 == static_cast<int>(DType::f16));
static_assert(WEFT_DTYPE_BF16 == static_cast<int>(DType::bf16));
static_assert(WEFT_DTYPE_I64 == static_cast<int>(DType::i64));
static_assert(WEFT_DTYPE_I32 == static_cast<int>(DType::i32));
static_assert(WEFT_DTYPE_I8 == static_cast<int>(DType::i8));
static_assert(WEFT_DTYPE_U8 == static_cast<int>(DType::u8));
static_assert(WEFT_DTYPE_BOOL == static_cast<int>(DType::boolean));

/// A thread's last failing call. `shown` points into `text`, or at a constant if there was no
/// memory to hold the text.
struct LastError {
  weft_code code = WEFT_CODE_OK;
  std::string text;
  const char* shown = "";
};
thread_local LastError last_error;

template <typename Text>
weft_code remember(weft_code code, Text&& text) noexcept {
  last_error.code = code;
  try {
    last_error.text = std::forward<Text>(text);
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = "no memory for the error's text";
  }
  return code;
}

weft_code remember(const weft::Status& status) {
  return remember(static_cast<weft_code>(status.code()), status.text());
}

/// Runs `body` and returns its code, or remembers the exception that it throws.
template <typename Body>
weft_code guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const weft::Error& error) {
    return remember(static_cast<weft_code>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return remember(WEFT_CODE_EXHAUSTED, "no memory left on this process' heap");
  } catch (const std::exception& error) {
    return remember(WEFT_CODE_SYSTEM, error.what());
  } catch (...) {
    return remember(WEFT_CODE_SYSTEM, "an exception of unknown type");
  }
}

template <typename T>
T& given(const char* operation, const char* what, T* pointer) {
  if (pointer == nullptr)
    throw_error(Code::bad_argument, operation, std::string(what) + " is NULL");
  return *pointer;
}

const weft::World& world_of(const weft_world& handle) { return handle.world; }
const weft::World& world_of(const weft_slot& handle) { return handle.world->world; }
const weft::World& world_of(const weft_remote_slot& handle) { return handle.world->world; }
const weft::World& world_of(const weft_arrival& handle) { return world_of(*handle.slot); }

/// As given(), but throws Error(forked) in a fork of the rank's process.
template <typename T>
T& in_rank(const char* operation, const char* what, T* pointer) {
  T& handle = given(operation, what, pointer);
  const weft::Status status = world_of(handle).alive({});
  if (status.code() != Code::forked) return handle;
  weft::ErrorDetail detail = status.detail();
  detail.operation = operation;
  throw weft::Error(std::move(detail));
}

weft::Deadline deadline(const char* operation, double seconds) {
  if (std::isnan(seconds))
    throw_error(Code::bad_argument, operation, "the timeout is not a number");
  if (seconds < 0) return {};
  constexpr double kLongest = 1e8;  // three years; larger values could overflow the clock
  return weft::Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::min(seconds, kLongest))));
}

DType checked_dtype(const char* operation, weft_dtype dtype) {
  const auto value = static_cast<int>(dtype);
  if (value < WEFT_DTYPE_F64 || value > WEFT_DTYPE_BOOL)
    throw_error(Code::bad_argument, operation,
                "dtype is " + std::to_string(value) + ", not one of 0 to 8");
  return static_cast<DType>(value);
}

weft::Shape shape_of(const char* operation, const std::int64_t* dims, std::size_t ndims) {
  if (dims == nullptr && ndims > 0)
    throw_error(Code::bad_argument, operation, "dims is NULL, but ndims is not 0");
  return weft::Shape(std::span(dims, ndims));
}

weft::SlotSpec spec_of(const char* operation, const weft_slot_spec* given_spec) {
  const auto& from = given(operation, "spec", given_spec);
  weft::SlotSpec spec;
  spec.name = &given(operation, "spec->name", from.name);
  spec.dtype = checked_dtype(operation, from.dtype);
  spec.shape = shape_of(operation, from.dims, from.ndims);
  spec.depth = from.depth;
  return spec;
}

weft_tensor* new_tensor(weft::Tensor tensor) { return new weft_tensor{std::move(tensor)}; }

}  // namespace

weft_code weft_error_code(void) { return last_error.code; }

const char* weft_error_text(void) { return last_error.shown; }

weft_code weft_join(weft_world** world) {
  return guarded([&] {
    auto& out = given("join", "world", world);
    out = new weft_world{weft::World::join()};
    return WEFT_CODE_OK;
  });
}

weft_code weft_leave(weft_world* world, double timeout_seconds) {
  return guarded([&] {
    auto& leaving = in_rank("leave", "world", world);
    const auto until = deadline("leave", timeout_seconds);
    if (const int open = leaving.open_slots; open > 0)
      throw_error(Code::bad_argument, "leave",
                  std::to_string(open) + " slots are still open; close them first");
    const auto status = leaving.world.leave(until);
    delete world;
    return status.ok() ? WEFT_CODE_OK : remember(status);
  });
}

weft_code weft_rank(const weft_world* world, int* rank) {
  return guarded([&] {
    given("rank", "rank", rank) = in_rank("rank", "world", world).world.rank();
    return WEFT_CODE_OK;
  });
}

weft_code weft_size(const weft_world* world, int* size) {
  return guarded([&] {
    given("size", "size", size) = in_rank("size", "world", world).world.size();
    return WEFT_CODE_OK;
  });
}

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
    if (data == nullptr) throw_error(Code::bad_argument, kOperation, "data is NULL");
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
    if (data == nullptr) throw_error(Code::bad_argument, kOperation, "data is NULL");
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

weft_code weft_slot_expose(weft_world* world, const weft_slot_spec* spec, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    out = new weft_slot{owner.world.expose(spec_of("expose", spec)), world};
    ++owner.open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_expose_in(weft_world* world, const weft_slot_spec* spec,
                              const weft_tensor* memory, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    out = new weft_slot{
        owner.world.expose(spec_of("expose", spec), given("expose", "memory", memory).tensor),
        world};
    ++owner.open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_attach(weft_world* world, int owner, const weft_slot_spec* spec,
                           double timeout_seconds, weft_remote_slot** remote) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "remote", remote);
    out = new weft_remote_slot{
        self.world.attach(owner, spec_of("attach", spec), deadline("attach", timeout_seconds)),
        world};
    ++self.open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_close(weft_slot* slot) {
  return guarded([&] {
    auto& closing = in_rank("slot_close", "slot", slot);
    if (closing.held_arrivals > 0)
      throw_error(
          Code::bad_argument, "slot_close",
          std::to_string(closing.held_arrivals) + " arrivals are still held; release them first");
    auto* world = closing.world;
    delete slot;
    --world->open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_close(weft_remote_slot* remote) {
  return guarded([&] {
    auto* world = in_rank("remote_slot_close", "remote", remote).world;
    delete remote;
    --world->open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds) {
  return guarded([&] {
    auto& to = given("put", "remote", remote).remote;
    const auto& from = given("put", "tensor", tensor).tensor;
    const auto until = deadline("put", timeout_seconds);
    auto request = to.put(from);
    const auto status = request.wait(until);
    if (status.code() != Code::timeout) return status.ok() ? WEFT_CODE_OK : remember(status);
    // The caller gets no request to wait for later, so nothing may stay pending.
    (void)request.cancel();
    const auto withdrawn = request.wait();
    if (withdrawn.ok()) return WEFT_CODE_OK;
    return remember(withdrawn.code() == Code::cancelled ? status : withdrawn);
  });
}

weft_code weft_slot_wait(weft_slot* slot, double timeout_seconds, weft_arrival** arrival) {
  return guarded([&] {
    auto& from = given("wait", "slot", slot);
    auto& out = given("wait", "arrival", arrival);
    auto held =
        std::make_unique<weft_arrival>();  // first, so that a failed allocation loses no tensor
    auto result = from.slot.wait(deadline("wait", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    held->arrival = std::move(*result);
    held->slot = slot;
    ++from.held_arrivals;
    out = held.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_data(const weft_arrival* arrival, const void** data) {
  return guarded([&] {
    given("arrival_data", "data", data) =
        in_rank("arrival_data", "arrival", arrival).arrival.tensor().data();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_bytes(const weft_arrival* arrival, size_t* bytes) {
  return guarded([&] {
    given("arrival_bytes", "bytes", bytes) =
        in_rank("arrival_bytes", "arrival", arrival).arrival.tensor().bytes();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_sequence(const weft_arrival* arrival, uint64_t* sequence) {
  return guarded([&] {
    given("arrival_sequence", "sequence", sequence) =
        in_rank("arrival_sequence", "arrival", arrival).arrival.sequence();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_release(weft_arrival* arrival) {
  return guarded([&] {
    auto* slot = in_rank("arrival_release", "arrival", arrival).slot;
    delete arrival;
    --slot->held_arrivals;
    return WEFT_CODE_OK;
  });
}
