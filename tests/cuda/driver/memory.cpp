#include "tests/cuda/driver/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

namespace weft::stand_in {
namespace {

const std::string kName = "weft-stand-in-gpu";

// One Physical for each memfd, so that ranks of one process share the hidden mapping, and
// ThreadSanitizer sees their accesses as accesses to the same memory.
std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Physical>>& known() {
  static auto* const all = new std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Physical>>;
  return *all;
}

std::byte* map_hidden(int fd, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

/// The device in the name of a memfd that the stand-in made, as this process counts, or -1.
int device_behind(int fd) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target - 1);
  if (length < 0) return -1;
  target[length] = '\0';
  const char* name = std::strstr(target, kName.c_str());
  int device = -1;
  return name != nullptr && std::sscanf(name + kName.size(), "%d", &device) == 1
             ? device - machine().options.first_gpu
             : -1;
}

bool lies_in(const std::map<DevicePointer, std::size_t>& ranges, DevicePointer pointer,
             std::size_t bytes) {
  auto next = ranges.upper_bound(pointer);
  if (next == ranges.begin()) return false;
  const auto& [start, length] = *std::prev(next);
  return pointer - start <= length && bytes <= length - (pointer - start);
}

bool allows(const Mapping& mapping, int device, Reach mode) {
  const int owner = mapping.memory->device();
  if (mapping.sort != Mapping::Sort::mapped)
    return owner == device || machine().options.peer_access;
  const auto access = mapping.access.find(device);
  if (access == mapping.access.end()) return false;
  return access->second == p2p::cuda::DeviceAccess::write ||
         (mode == Reach::read && access->second == p2p::cuda::DeviceAccess::read);
}

}  // namespace

Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

std::shared_ptr<Physical> Physical::create(int device, std::size_t bytes) {
  Gpu& gpu = machine().gpus[static_cast<std::size_t>(device)];
  if (bytes > gpu.options.bytes - gpu.used) return nullptr;
  const int number = machine().options.first_gpu + device;
  const int fd = ::memfd_create((kName + std::to_string(number)).c_str(), MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  std::byte* hidden =
      ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? map_hidden(fd, bytes) : nullptr;
  if (hidden == nullptr) {
    ::close(fd);
    return nullptr;
  }
  gpu.used += bytes;
  std::shared_ptr<Physical> made(new Physical(fd, device, bytes, hidden, true));
  struct stat file {};
  ::fstat(fd, &file);
  known()[{file.st_dev, file.st_ino}] = made;
  return made;
}

std::shared_ptr<Physical> Physical::import(int fd) {
  struct stat file {};
  const int device = device_behind(fd);
  if (!machine().is_device(device) || ::fstat(fd, &file) != 0) return nullptr;
  auto& slot = known()[{file.st_dev, file.st_ino}];
  if (auto present = slot.lock()) return present;
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const auto bytes = static_cast<std::size_t>(file.st_size);
  std::byte* hidden = copy < 0 ? nullptr : map_hidden(copy, bytes);
  if (hidden == nullptr) {
    if (copy >= 0) ::close(copy);
    return nullptr;
  }
  std::shared_ptr<Physical> made(new Physical(copy, device, bytes, hidden, false));
  made->exportable = true;
  slot = made;
  return made;
}

Physical::~Physical() {
  ::munmap(hidden_, bytes_);
  ::close(fd_);
  if (own_ && machine().is_device(device_))
    machine().gpus[static_cast<std::size_t>(device_)].used -= bytes_;
}

DevicePointer show(const Physical& physical, std::size_t offset, std::size_t bytes,
                   DevicePointer at) {
  void* got = ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
                     MAP_SHARED | MAP_NORESERVE | (at != 0 ? MAP_FIXED : 0), physical.fd(),
                     static_cast<off_t>(offset));
  return got == MAP_FAILED ? 0 : reinterpret_cast<DevicePointer>(got);
}

void hide(DevicePointer at, std::size_t bytes, bool keep) {
  void* start = reinterpret_cast<void*>(at);
  if (keep)
    ::mmap(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  else
    ::munmap(start, bytes);
}

bool is_registered(DevicePointer pointer, std::size_t bytes) {
  return lies_in(memory().registered, pointer, bytes);
}

std::map<DevicePointer, Mapping>::iterator find_mapping(DevicePointer pointer) {
  auto& all = memory().mappings;
  auto next = all.upper_bound(pointer);
  if (next == all.begin()) return all.end();
  const auto found = std::prev(next);
  return pointer - found->first < found->second.bytes ? found : all.end();
}

Reached reach_memory(DevicePointer pointer, std::size_t bytes, int device, Reach mode) {
  if (const auto found = find_mapping(pointer); found != memory().mappings.end()) {
    const auto& [start, mapping] = *found;
    const std::size_t within = pointer - start;
    if (bytes > mapping.bytes - within || !allows(mapping, device, mode))
      return {.status = DriverStatus::invalid_value};
    const bool goes_astray =
        machine().options.peer_writes_astray && mapping.memory->device() != device;
    std::byte* const all = goes_astray ? mapping.memory->astray() : mapping.memory->hidden();
    return {.data = all + mapping.offset + within, .memory = mapping.memory};
  }
  if (lies_in(memory().freed, pointer, 1)) {
    machine().complain("an operation touches freed GPU memory");
    return {.status = DriverStatus::illegal_address};
  }
  if (pointer == 0 || lies_in(memory().reservations, pointer, 1))
    return {.status = DriverStatus::invalid_value};
  return {.data = reinterpret_cast<std::byte*>(pointer), .pinned = is_registered(pointer, bytes)};
}

NicReach reach_by_nic(DevicePointer pointer, std::size_t bytes) {
  const auto found = find_mapping(pointer);
  if (found == memory().mappings.end()) return {};
  const auto& [start, mapping] = *found;
  const std::size_t within = pointer - start;
  if (bytes > mapping.bytes - within || !mapping.memory->gpudirect) return {};
  return {mapping.memory, mapping.offset + within};
}

void write_by_nic(const NicReach& at, const std::byte* from, std::size_t bytes) {
  if (machine().options.nic_writes_unseen)
    memory().unseen.push_back({at.memory, at.offset, {from, from + bytes}});
  else
    std::memcpy(at.memory->hidden() + at.offset, from, bytes);
}

void flush_nic_writes(int device) {
  auto& all = memory().unseen;
  std::erase_if(all, [device](const UnseenWrite& write) {
    if (write.memory->device() != device) return false;
    std::memcpy(write.memory->hidden() + write.offset, write.bytes.data(), write.bytes.size());
    return true;
  });
}

void add_memory_leftovers(std::map<std::string, int>& kinds) {
  for (const auto& [start, mapping] : memory().mappings)
    ++kinds[mapping.sort == Mapping::Sort::allocated ? "allocations"
            : mapping.sort == Mapping::Sort::mapped  ? "mappings"
                                                     : "opened IPC handles"];
  const auto add = [&](const char* kind, std::size_t count) {
    if (count > 0) kinds[kind] = static_cast<int>(count);
  };
  add("reserved address ranges", memory().reservations.size());
  add("registered host ranges", memory().registered.size());
  add("handles of memory", memory().handles.size());
}

void forget_freed_memory() {
  for (const auto& [start, bytes] : memory().freed) {
    constexpr DevicePointer kPage = 4096;
    const DevicePointer page = start / kPage * kPage;
    hide(page, (start + bytes + kPage - 1) / kPage * kPage - page, false);
  }
  memory().freed.clear();
  memory().unseen.clear();
}

}  // namespace weft::stand_in
