// Streams, events, and what is put on streams.
#include <atomic>
#include <cstring>
#include <memory>

#include "tests/cuda/driver/capture.hpp"
#include "tests/cuda/driver/late_write.hpp"
#include "tests/cuda/driver/memory.hpp"
#include "tests/cuda/driver/streams.hpp"

using namespace weft::stand_in;

namespace weft::p2p::cuda {
namespace {

bool is_event(Event event) { return is_live(event, "events"); }

DriverStatus fault_of(int device) { return machine().gpus[static_cast<std::size_t>(device)].fault; }

/// An address that was checked when the operation was put on its stream, and is looked up again
/// when the operation runs. Memory that went meanwhile is an error.
struct Target {
  DevicePointer pointer;
  std::size_t bytes;
  int device;
  Reach mode;
  bool was_gpu = false;
  bool pinned = false;

  DriverStatus check() {
    const Reached reached = reach_memory(pointer, bytes, device, mode);
    was_gpu = reached.memory != nullptr;
    pinned = reached.pinned;
    return reached.status;
  }
  Reached now() const {
    const Lock lock(machine().mutex);
    Reached reached = reach_memory(pointer, bytes, device, mode);
    if (reached.status == kOk && was_gpu && reached.memory == nullptr) {
      machine().complain("an operation touches freed GPU memory");
      reached.status = DriverStatus::illegal_address;
    }
    if (reached.status != kOk) reached.status = DriverStatus::illegal_address;
    return reached;
  }
};

bool is_lost(const Reached& to, int device) {
  return machine().options.peer_writes_lost && to.memory != nullptr &&
         to.memory->device() != device;
}

/// Under MPS, for memory of another process: what goes on if this process is killed; else null.
std::shared_ptr<LateWrite> late_write(const Target& from, const Target& to) {
  if (!machine().options.mps) return nullptr;
  const Reached read = reach_memory(from.pointer, from.bytes, from.device, from.mode);
  const Reached write = reach_memory(to.pointer, to.bytes, to.device, to.mode);
  if (write.memory == nullptr || !write.memory->is_imported()) return nullptr;
  return std::make_shared<LateWrite>(write.data, read.data, to.bytes);
}

DriverStatus put_on(StreamHandle handle, Operation operation) {
  Stream* stream = find_stream(handle);
  return stream == nullptr ? DriverStatus::invalid_handle : enqueue(*stream, std::move(operation));
}

using Word = std::uint32_t;

bool satisfies(Word word, Word value, unsigned flags) {
  return flags == kWaitValueEqual ? word == value : static_cast<std::int32_t>(word - value) >= 0;
}

}  // namespace

extern "C" {

DriverStatus cuStreamCreate(StreamHandle* handle, unsigned flags) {
  STAND_IN_CALL(cuStreamCreate, true, plain);
  if (flags > kStreamNonBlocking) return kInvalid;
  Stream* stream = make_stream(machine().current()->device, flags != kStreamNonBlocking);
  *handle = reinterpret_cast<StreamHandle>(remember(stream, "streams"));
  return kOk;
}

DriverStatus cuStreamDestroy_v2(StreamHandle handle) {
  STAND_IN_CALL(cuStreamDestroy_v2, false, plain);
  Stream* stream = handle == nullptr ? nullptr : find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  // A real driver returns at once and lets the stream end by itself.
  forget(stream);
  end_stream(call.lock, stream);
  return kOk;
}

DriverStatus cuStreamQuery(StreamHandle handle) {
  STAND_IN_CALL(cuStreamQuery, false, queries);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  if (const auto refused = refusal_by_capture_of(*stream); refused != kOk) return refused;
  const int device = stream->device;
  const bool done = query(call.lock, stream->last);
  if (fault_of(device) != kOk) return fault_of(device);
  return done ? kOk : DriverStatus::not_ready;
}

DriverStatus cuStreamSynchronize(StreamHandle handle) {
  STAND_IN_CALL(cuStreamSynchronize, false, waits);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  if (const auto refused = refusal_by_capture_of(*stream); refused != kOk) return refused;
  const int device = stream->device;
  wait_for(call.lock, stream->last);
  return fault_of(device);
}

DriverStatus cuStreamGetCtx(StreamHandle handle, Context* context) {
  STAND_IN_CALL(cuStreamGetCtx, false, plain);
  const Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  *context = &machine().gpus[static_cast<std::size_t>(stream->device)].context;
  return kOk;
}

DriverStatus cuStreamWaitEvent(StreamHandle handle, Event event, unsigned) {
  STAND_IN_CALL(cuStreamWaitEvent, false, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr || !is_event(event)) return DriverStatus::invalid_handle;
  if (machine().forgotten_waits > 0) {
    --machine().forgotten_waits;
    return kOk;
  }
  if (event->capture != nullptr) return join_capture(*stream, *event);
  if (event->recorded == nullptr) return kOk;
  if (const auto refused = refusal_by_capture_of(*stream); refused != kOk)
    return DriverStatus::capture_unsupported;
  return enqueue(*stream, {.kind = "wait for an event", .after = {event->recorded}});
}

DriverStatus cuEventCreate(Event* event, unsigned) {
  STAND_IN_CALL(cuEventCreate, true, plain);
  *event = remember(new CUevent_st{.device = machine().current()->device}, "events");
  return kOk;
}

DriverStatus cuEventDestroy_v2(Event event) {
  STAND_IN_CALL(cuEventDestroy_v2, false, plain);
  if (!is_event(event)) return DriverStatus::invalid_handle;
  forget(event);
  delete event;
  return kOk;
}

DriverStatus cuEventRecord(Event event, StreamHandle handle) {
  STAND_IN_CALL(cuEventRecord, false, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr || !is_event(event)) return DriverStatus::invalid_handle;
  if (stream->device != event->device) return DriverStatus::invalid_handle;
  if (stream->capture != nullptr) {
    event->capture = stream->capture;
    event->capture_nodes = stream->capture_nodes;
    return kOk;
  }
  Operation operation{.kind = "event"};
  event->capture = nullptr;
  event->recorded = operation.done;
  return enqueue(*stream, std::move(operation));
}

DriverStatus cuEventQuery(Event event) {
  STAND_IN_CALL(cuEventQuery, false, queries);
  if (!is_event(event)) return DriverStatus::invalid_handle;
  if (event->capture != nullptr) return DriverStatus::captured_event;
  if (machine().claimed_ends > 0) {
    --machine().claimed_ends;
    return kOk;
  }
  const CompletionPtr recorded = event->recorded;
  const int device = event->device;
  const bool done = query(call.lock, recorded);
  if (fault_of(device) != kOk) return fault_of(device);
  return done ? kOk : DriverStatus::not_ready;
}

DriverStatus cuEventSynchronize(Event event) {
  STAND_IN_CALL(cuEventSynchronize, false, waits);
  if (!is_event(event)) return DriverStatus::invalid_handle;
  if (event->capture != nullptr) return DriverStatus::captured_event;
  const CompletionPtr recorded = event->recorded;
  const int device = event->device;
  wait_for(call.lock, recorded);
  return fault_of(device);
}

DriverStatus cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes,
                           StreamHandle handle) {
  STAND_IN_CALL(cuMemcpyAsync, true, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  Target source{from, bytes, stream->device, Reach::read};
  Target target{to, bytes, stream->device, Reach::read_write};
  for (Target* end : {&source, &target})
    if (const auto status = end->check(); status != kOk) return status;
  const auto late = late_write(source, target);
  Operation copy{.kind = "copy",
                 .run =
                     [source, target, late] {
                       const Reached read = source.now();
                       const Reached write = target.now();
                       if (read.status != kOk) return read.status;
                       if (write.status != kOk) return write.status;
                       if (!is_lost(write, target.device))
                         std::memmove(write.data, read.data, target.bytes);
                       if (late != nullptr) late->forget();
                       return kOk;
                     },
                 .bytes = bytes};
  // Memory that is not pinned goes through the driver's own, while the caller waits.
  const bool waits = (!source.was_gpu && !source.pinned) || (!target.was_gpu && !target.pinned);
  const bool is_captured = stream->capture != nullptr;
  const CompletionPtr done = copy.done;
  if (waits && !is_captured) {
    ++machine().counts["copies of pageable memory"];
    if (!Machine::thread().for_application && a_stream_waits_on_a_word())
      machine().complain("cuMemcpyAsync: pageable memory while a stream waits on a word");
  }
  const int device = stream->device;
  const DriverStatus status = enqueue(*stream, std::move(copy));
  if (status != kOk || !waits || is_captured) return status;
  wait_for(call.lock, done);
  return fault_of(device);
}

DriverStatus cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t bytes,
                             StreamHandle handle) {
  STAND_IN_CALL(cuMemsetD8Async, true, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  Target target{to, bytes, stream->device, Reach::read_write};
  if (const auto status = target.check(); status != kOk) return status;
  if (!target.was_gpu && !target.pinned) return kInvalid;
  return enqueue(*stream, {.kind = "fill", .run = [target, value] {
                             const Reached write = target.now();
                             if (write.status == kOk && !is_lost(write, target.device))
                               std::memset(write.data, value, target.bytes);
                             return write.status;
                           }});
}

DriverStatus cuStreamWaitValue32_v2(StreamHandle handle, DevicePointer pointer, Word value,
                                    unsigned flags) {
  STAND_IN_CALL(cuStreamWaitValue32_v2, false, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  const Reached reached = reach_memory(pointer, sizeof(Word), stream->device, Reach::read);
  if (reached.status != kOk || (reached.memory == nullptr && !reached.pinned) ||
      pointer % sizeof(Word) != 0 || flags > kWaitValueEqual)
    return kInvalid;
  if (machine().forgotten_words > 0) {
    --machine().forgotten_words;
    return kOk;
  }
  return enqueue(*stream,
                 {.kind = "wait for a word", .ready = [reached, value, flags] {
                    const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(reached.data));
                    return satisfies(word.load(std::memory_order_acquire), value, flags);
                  }});
}

DriverStatus cuStreamWriteValue32_v2(StreamHandle handle, DevicePointer pointer, Word value,
                                     unsigned flags) {
  STAND_IN_CALL(cuStreamWriteValue32_v2, false, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  Target target{pointer, sizeof(Word), stream->device, Reach::read_write};
  if (target.check() != kOk || (!target.was_gpu && !target.pinned) || pointer % sizeof(Word) != 0 ||
      flags != kWriteValueDefault)
    return kInvalid;
  return enqueue(*stream, {.kind = "write a word", .run = [target, value] {
                             const Reached write = target.now();
                             if (write.status == kOk && !is_lost(write, target.device))
                               std::atomic_ref<Word>(*reinterpret_cast<Word*>(write.data))
                                   .store(value, std::memory_order_release);
                             return write.status;
                           }});
}

DriverStatus cuLaunchHostFunc(StreamHandle handle, HostFunction function, void* user) {
  STAND_IN_CALL(cuLaunchHostFunc, false, plain);
  return put_on(handle, {.kind = "host function", .run = [function, user] {
                           Machine::thread().in_host_function = true;
                           function(user);
                           Machine::thread().in_host_function = false;
                           return kOk;
                         }});
}

}  // extern "C"
}  // namespace weft::p2p::cuda
