// cuMemCreate and its like: memory and addresses apart; and what other processes and NICs get of
// it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/cuda/driver/memory.hpp"

using namespace weft::stand_in;

namespace weft::p2p::cuda {
namespace {

bool is_whole(unsigned long long number) { return number != 0 && number % kGranularity == 0; }

bool is_valid(const AllocationProperties* properties) {
  return properties != nullptr && properties->kind == AllocationKind::pinned &&
         properties->location.kind == LocationKind::device &&
         machine().is_device(properties->location.id);
}

/// The content of an IPC handle. The memfd is opened again by the exporter's own descriptor.
struct IpcContent {
  std::uint64_t mark;
  pid_t pid;
  int fd;
  std::size_t offset, bytes;
};
constexpr std::uint64_t kMark = 0x574546545f495043;
static_assert(sizeof(IpcContent) <= sizeof(IpcHandle));

}  // namespace

extern "C" {

DriverStatus cuMemGetAllocationGranularity(std::size_t* bytes,
                                           const AllocationProperties* properties, Granularity) {
  STAND_IN_CALL(cuMemGetAllocationGranularity, false, plain);
  if (!is_valid(properties)) return kInvalid;
  *bytes = kGranularity;
  return kOk;
}

DriverStatus cuMemAddressReserve(DevicePointer* pointer, std::size_t bytes, std::size_t alignment,
                                 DevicePointer, unsigned long long flags) {
  STAND_IN_CALL(cuMemAddressReserve, false, plain);
  if (!is_whole(bytes) || flags != 0 || (alignment & (alignment - 1)) != 0) return kInvalid;
  const std::size_t border = std::max(alignment, kGranularity);
  void* got = ::mmap(nullptr, bytes + border, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return DriverStatus::out_of_memory;
  const auto start = reinterpret_cast<DevicePointer>(got);
  *pointer = (start + border - 1) / border * border;
  if (*pointer > start) hide(start, *pointer - start, false);
  if (const auto end = *pointer + bytes; end < start + bytes + border)
    hide(end, start + bytes + border - end, false);
  memory().reservations[*pointer] = bytes;
  return kOk;
}

DriverStatus cuMemAddressFree(DevicePointer pointer, std::size_t bytes) {
  STAND_IN_CALL(cuMemAddressFree, false, waits);
  const auto found = memory().reservations.find(pointer);
  if (found == memory().reservations.end() || found->second != bytes) return kInvalid;
  const auto mapping = memory().mappings.lower_bound(pointer);
  if (mapping != memory().mappings.end() && mapping->first < pointer + bytes) return kInvalid;
  hide(pointer, bytes, false);
  memory().reservations.erase(found);
  return kOk;
}

DriverStatus cuMemCreate(AllocationHandle* handle, std::size_t bytes,
                         const AllocationProperties* properties, unsigned long long flags) {
  STAND_IN_CALL(cuMemCreate, false, waits);
  if (!is_whole(bytes) || !is_valid(properties) || flags != 0) return kInvalid;
  const auto fault = machine().gpus[static_cast<std::size_t>(properties->location.id)].fault;
  if (fault != kOk) return fault;
  auto physical = Physical::create(properties->location.id, bytes);
  if (physical == nullptr) return DriverStatus::out_of_memory;
  physical->exportable = properties->handles == HandleKind::descriptor;
  physical->gpudirect = properties->flags.gpudirect != 0;
  *handle = memory().next_id++;
  memory().handles[*handle] = {std::move(physical)};
  return kOk;
}

DriverStatus cuMemRelease(AllocationHandle handle) {
  STAND_IN_CALL(cuMemRelease, false, waits);
  const auto found = memory().handles.find(handle);
  if (found == memory().handles.end()) return kInvalid;
  if (--found->second.references == 0) memory().handles.erase(found);
  return kOk;
}

DriverStatus cuMemMap(DevicePointer pointer, std::size_t bytes, std::size_t offset,
                      AllocationHandle handle, unsigned long long flags) {
  STAND_IN_CALL(cuMemMap, false, waits);
  const auto held = memory().handles.find(handle);
  auto room = memory().reservations.upper_bound(pointer);
  if (held == memory().handles.end() || room == memory().reservations.begin() || flags != 0 ||
      offset != 0 || !is_whole(bytes) || bytes > held->second.memory->bytes())
    return kInvalid;
  --room;
  if (pointer % kGranularity != 0 || pointer + bytes > room->first + room->second) return kInvalid;
  const auto next = memory().mappings.lower_bound(pointer);
  if (find_mapping(pointer) != memory().mappings.end() ||
      (next != memory().mappings.end() && next->first < pointer + bytes))
    return kInvalid;
  if (show(*held->second.memory, 0, bytes, pointer) == 0) return DriverStatus::out_of_memory;
  memory().mappings[pointer] = {.sort = Mapping::Sort::mapped,
                                .memory = held->second.memory,
                                .bytes = bytes,
                                .id = memory().next_id++};
  return kOk;
}

DriverStatus cuMemUnmap(DevicePointer pointer, std::size_t bytes) {
  STAND_IN_CALL(cuMemUnmap, false, waits);
  const auto found = memory().mappings.find(pointer);
  if (found == memory().mappings.end() || found->second.sort != Mapping::Sort::mapped ||
      found->second.bytes != bytes)
    return kInvalid;
  hide(pointer, bytes, true);
  memory().mappings.erase(found);
  return kOk;
}

DriverStatus cuMemSetAccess(DevicePointer pointer, std::size_t bytes,
                            const AccessDescription* accesses, std::size_t count) {
  STAND_IN_CALL(cuMemSetAccess, false, waits);
  const auto found = memory().mappings.find(pointer);
  if (found == memory().mappings.end() || found->second.sort != Mapping::Sort::mapped ||
      found->second.bytes != bytes)
    return kInvalid;
  const int owner = found->second.memory->device();
  for (std::size_t i = 0; i < count; ++i) {
    const Location& location = accesses[i].location;
    if (location.kind != LocationKind::device || !machine().is_device(location.id)) return kInvalid;
    if (location.id != owner && !machine().options.peer_access) return DriverStatus::invalid_device;
  }
  for (std::size_t i = 0; i < count; ++i)
    found->second.access[accesses[i].location.id] = accesses[i].access;
  return kOk;
}

DriverStatus cuMemExportToShareableHandle(void* shareable, AllocationHandle handle, HandleKind kind,
                                          unsigned long long flags) {
  STAND_IN_CALL(cuMemExportToShareableHandle, false, plain);
  const auto held = memory().handles.find(handle);
  if (held == memory().handles.end() || kind != HandleKind::descriptor || flags != 0 ||
      !held->second.memory->exportable)
    return kInvalid;
  const int fd = ::fcntl(held->second.memory->fd(), F_DUPFD_CLOEXEC, 0);
  std::memcpy(shareable, &fd, sizeof fd);
  return fd < 0 ? DriverStatus::unknown : kOk;
}

DriverStatus cuMemImportFromShareableHandle(AllocationHandle* handle, void* shareable,
                                            HandleKind kind) {
  STAND_IN_CALL(cuMemImportFromShareableHandle, false, waits);
  if (kind != HandleKind::descriptor) return kInvalid;
  auto physical = Physical::import(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
  if (physical == nullptr) return DriverStatus::invalid_device;
  *handle = memory().next_id++;
  memory().handles[*handle] = {std::move(physical)};
  return kOk;
}

DriverStatus cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  STAND_IN_CALL(cuMemRetainAllocationHandle, false, plain);
  const auto found = find_mapping(reinterpret_cast<DevicePointer>(address));
  if (found == memory().mappings.end() || found->second.sort != Mapping::Sort::mapped)
    return kInvalid;
  for (auto& [id, held] : memory().handles)
    if (held.memory == found->second.memory) {
      ++held.references;
      *handle = id;
      return kOk;
    }
  *handle = memory().next_id++;
  memory().handles[*handle] = {found->second.memory};
  return kOk;
}

DriverStatus cuMemGetHandleForAddressRange(void* handle, DevicePointer pointer, std::size_t bytes,
                                           RangeHandle kind, unsigned long long flags) {
  STAND_IN_CALL(cuMemGetHandleForAddressRange, false, plain);
  constexpr std::size_t kPage = 4096;
  const auto found = find_mapping(pointer);
  if (flags != 0) machine().complain("cuMemGetHandleForAddressRange: a mapping by PCIe alone");
  if (found == memory().mappings.end() || kind != RangeHandle::dma_buf || flags != 0 ||
      pointer % kPage != 0 || bytes % kPage != 0 ||
      pointer + bytes > found->first + found->second.bytes)
    return kInvalid;
  if (!found->second.memory->gpudirect) return DriverStatus::not_supported;
  const int fd = ::fcntl(found->second.memory->fd(), F_DUPFD_CLOEXEC, 0);
  std::memcpy(handle, &fd, sizeof fd);
  return fd < 0 ? DriverStatus::unknown : kOk;
}

DriverStatus cuIpcGetMemHandle(IpcHandle* handle, DevicePointer pointer) {
  STAND_IN_CALL(cuIpcGetMemHandle, false, plain);
  const auto found = find_mapping(pointer);
  if (found == memory().mappings.end() || found->second.sort != Mapping::Sort::allocated)
    return kInvalid;
  const Mapping& mapping = found->second;
  const IpcContent content{kMark, ::getpid(), mapping.memory->fd(), mapping.offset, mapping.bytes};
  *handle = {};
  std::memcpy(handle, &content, sizeof content);
  return kOk;
}

DriverStatus cuIpcOpenMemHandle_v2(DevicePointer* pointer, IpcHandle handle, unsigned flags) {
  STAND_IN_CALL(cuIpcOpenMemHandle_v2, true, waits);
  IpcContent content{};
  std::memcpy(&content, &handle, sizeof content);
  if (content.mark != kMark || flags != kIpcLazyPeerAccess) return kInvalid;
  if (content.pid == ::getpid()) return DriverStatus::invalid_context;
  const std::string link =
      "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd);
  const int fd = ::open(link.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalid;
  const auto physical = Physical::import(fd);
  ::close(fd);
  if (physical == nullptr || content.offset + content.bytes > physical->bytes()) return kInvalid;
  for (auto& [start, mapping] : memory().mappings)
    if (mapping.sort == Mapping::Sort::opened && mapping.memory == physical) {
      ++mapping.opens;
      *pointer = start;
      return kOk;
    }
  const DevicePointer page = show(*physical, 0, physical->bytes(), 0);
  if (page == 0) return DriverStatus::out_of_memory;
  *pointer = page + content.offset;
  memory().mappings[*pointer] = {.sort = Mapping::Sort::opened,
                                 .memory = physical,
                                 .offset = content.offset,
                                 .bytes = content.bytes,
                                 .id = memory().next_id++,
                                 .opens = 1};
  return kOk;
}

DriverStatus cuIpcCloseMemHandle(DevicePointer pointer) {
  STAND_IN_CALL(cuIpcCloseMemHandle, false, waits);
  const auto found = memory().mappings.find(pointer);
  if (found == memory().mappings.end() || found->second.sort != Mapping::Sort::opened)
    return kInvalid;
  if (--found->second.opens > 0) return kOk;
  hide(pointer - found->second.offset, found->second.memory->bytes(), true);
  memory().freed[pointer] = found->second.bytes;
  memory().mappings.erase(found);
  return kOk;
}

}  // extern "C"
}  // namespace weft::p2p::cuda
