// cuMemAlloc and its like: memory as the CUDA runtime allocates it, and pinned host memory.
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "tests/cuda/driver/memory.hpp"

using namespace weft::stand_in;

namespace weft::p2p::cuda {
namespace {

constexpr std::size_t kPage = 4096;
// Small allocations of a real driver lie anywhere within a page, so those of the stand-in never
// begin one.
constexpr std::size_t kShift = 512;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Whether a processor could read the byte, as pinning would find out.
bool is_readable(const void* at) {
  char byte = 0;
  iovec here{&byte, 1};
  iovec there{const_cast<void*>(at), 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace

extern "C" {

DriverStatus cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  STAND_IN_CALL(cuMemGetInfo_v2, true, plain);
  *total = call.gpu().options.bytes;
  *free = *total - call.gpu().used;
  return kOk;
}

DriverStatus cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  STAND_IN_CALL(cuMemAlloc_v2, true, waits);
  if (bytes == 0) return kInvalid;
  const std::size_t shift = bytes < kGranularity ? kShift : 0;
  const auto physical = Physical::create(machine().current()->device, whole_pages(bytes + shift));
  if (physical == nullptr) return DriverStatus::out_of_memory;
  physical->gpudirect = true;
  const DevicePointer page = show(*physical, 0, physical->bytes(), 0);
  if (page == 0) return DriverStatus::out_of_memory;
  *pointer = page + shift;
  memory().mappings[*pointer] = {.sort = Mapping::Sort::allocated,
                                 .memory = physical,
                                 .offset = shift,
                                 .bytes = bytes,
                                 .id = memory().next_id++};
  return kOk;
}

DriverStatus cuMemFree_v2(DevicePointer pointer) {
  STAND_IN_CALL(cuMemFree_v2, true, waits);
  const auto found = memory().mappings.find(pointer);
  if (found == memory().mappings.end() || found->second.sort != Mapping::Sort::allocated)
    return kInvalid;
  const Mapping& mapping = found->second;
  hide(pointer - mapping.offset, mapping.memory->bytes(), true);
  memory().freed[pointer] = mapping.bytes;
  memory().mappings.erase(found);
  return kOk;
}

DriverStatus cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* bytes,
                                     DevicePointer pointer) {
  STAND_IN_CALL(cuMemGetAddressRange_v2, false, plain);
  const auto found = find_mapping(pointer);
  if (found == memory().mappings.end()) return DriverStatus::not_found;
  if (base != nullptr) *base = found->first;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return kOk;
}

DriverStatus cuMemHostRegister_v2(void* host, std::size_t bytes, unsigned) {
  STAND_IN_CALL(cuMemHostRegister_v2, true, waits);
  const auto start = reinterpret_cast<DevicePointer>(host);
  if (host == nullptr || bytes == 0 || !is_readable(host) ||
      !is_readable(static_cast<std::byte*>(host) + bytes - 1))
    return kInvalid;
  for (const auto& [other, length] : memory().registered)
    if (start < other + length && other < start + bytes) return DriverStatus::already_registered;
  memory().registered[start] = bytes;
  return kOk;
}

DriverStatus cuMemHostUnregister(void* host) {
  STAND_IN_CALL(cuMemHostUnregister, true, waits);
  return memory().registered.erase(reinterpret_cast<DevicePointer>(host)) == 1
             ? kOk
             : DriverStatus::not_registered;
}

DriverStatus cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* host, unsigned flags) {
  STAND_IN_CALL(cuMemHostGetDevicePointer_v2, true, plain);
  const auto at = reinterpret_cast<DevicePointer>(host);
  if (flags != 0 || !is_registered(at, 1)) return kInvalid;
  *pointer = at;
  return kOk;
}

DriverStatus cuPointerGetAttribute(void* data, PointerAttribute attribute, DevicePointer pointer) {
  STAND_IN_CALL(cuPointerGetAttribute, false, plain);
  const auto answer = [&](auto value) {
    std::memcpy(data, &value, sizeof value);
    return kOk;
  };
  const auto found = find_mapping(pointer);
  if (found == memory().mappings.end()) {
    if (!is_registered(pointer, 1)) return kInvalid;
    if (attribute == PointerAttribute::memory_kind)
      return answer(static_cast<unsigned>(MemoryKind::host));
    return attribute == PointerAttribute::device_pointer ? answer(pointer) : kInvalid;
  }
  const Mapping& mapping = found->second;
  const int device = mapping.memory->device();
  switch (attribute) {
    case PointerAttribute::context:
      return answer(mapping.sort == Mapping::Sort::mapped
                        ? Context{nullptr}
                        : &machine().gpus[static_cast<std::size_t>(device)].context);
    case PointerAttribute::memory_kind:
      return answer(static_cast<unsigned>(MemoryKind::device));
    case PointerAttribute::device_pointer:
      return answer(pointer);
    case PointerAttribute::buffer_id:
      return answer(static_cast<unsigned long long>(mapping.id));
    case PointerAttribute::is_managed:
      return answer(0U);
    case PointerAttribute::device_ordinal:
      return answer(device);
    case PointerAttribute::ipc_capable:
      return answer(mapping.sort == Mapping::Sort::allocated ? 1U : 0U);
    case PointerAttribute::range_start:
      return answer(found->first);
    case PointerAttribute::range_bytes:
      return answer(mapping.bytes);
    case PointerAttribute::mapped:
      return answer(1U);
    case PointerAttribute::allowed_handles:
      return answer(static_cast<unsigned long long>(mapping.sort == Mapping::Sort::mapped &&
                                                            mapping.memory->exportable
                                                        ? HandleKind::descriptor
                                                        : HandleKind::none));
    case PointerAttribute::gpudirect_capable:
      return answer(mapping.memory->gpudirect ? 1U : 0U);
    case PointerAttribute::sync_memops:
      break;
  }
  return kInvalid;
}

DriverStatus cuPointerSetAttribute(const void* value, PointerAttribute attribute,
                                   DevicePointer pointer) {
  STAND_IN_CALL(cuPointerSetAttribute, false, plain);
  const bool settable = attribute == PointerAttribute::sync_memops && value != nullptr &&
                        find_mapping(pointer) != memory().mappings.end();
  return settable ? kOk : kInvalid;
}

}  // extern "C"
}  // namespace weft::p2p::cuda
