#include "p2p/transport/cuda/mapped_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kAllocate = "allocate";
constexpr const char* kMap = "map";

/// All chunks that this process has mapped, of all its ranks.
struct KnownChunks {
  std::mutex mutex;
  std::map<ChunkId, std::weak_ptr<MappedMemory>> all;
};

KnownChunks& known_chunks() {
  static auto* const known = new KnownChunks;
  return *known;
}

ChunkId next_id() {
  static std::atomic<std::uint64_t> count{0};
  return {.process = ::getpid(), .number = ++count};
}

}  // namespace

std::shared_ptr<MappedMemory> MappedMemory::create(std::shared_ptr<Gpu> gpu, std::size_t bytes,
                                                   const AllocationProperties& properties) {
  const std::shared_ptr<MappedMemory> made(new MappedMemory(gpu, next_id(), bytes));
  gpu->check(gpu->driver().create_memory(&made->handle_, bytes, &properties, 0), kAllocate,
             "cuMemCreate");
  made->has_handle_ = true;
  made->map(kAllocate);
  made->allow(gpu, kAllocate);
  KnownChunks& known = known_chunks();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.all, [](const auto& entry) { return entry.second.expired(); });
  known.all[made->id_] = made;
  return made;
}

std::shared_ptr<MappedMemory> MappedMemory::import(std::shared_ptr<Gpu> by, const ChunkId& id,
                                                   const os::Fd& descriptor, std::size_t bytes) {
  KnownChunks& known = known_chunks();
  const std::lock_guard lock(known.mutex);
  if (const auto found = known.all.find(id); found != known.all.end())
    if (auto present = found->second.lock(); present && present->bytes_ == bytes) return present;
  const std::shared_ptr<MappedMemory> made(new MappedMemory(by, id, bytes));
  const auto shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  by->check(by->driver().import_memory(&made->handle_, shareable, HandleKind::descriptor), kMap,
            "cuMemImportFromShareableHandle");
  made->has_handle_ = true;
  made->map(kMap);
  known.all[id] = made;
  return made;
}

std::shared_ptr<MappedMemory> MappedMemory::find(const std::byte* data) {
  KnownChunks& known = known_chunks();
  const std::lock_guard lock(known.mutex);
  for (const auto& [id, chunk] : known.all)
    if (auto present = chunk.lock(); present && present->data() == data) return present;
  return nullptr;
}

void MappedMemory::map(const char* operation) {
  const Driver& driver = gpu_->driver();
  gpu_->check(driver.reserve_address(&at_, bytes_, 0, 0, 0), operation, "cuMemAddressReserve");
  gpu_->check(driver.map_memory(at_, bytes_, 0, handle_, 0), operation, "cuMemMap");
  is_mapped_ = true;
}

void MappedMemory::allow(const std::shared_ptr<Gpu>& gpu, const char* operation) {
  const std::lock_guard lock(mutex_);
  if (allowed_.contains(gpu->ordinal())) return;
  const AccessDescription access{{LocationKind::device, gpu->ordinal()}, DeviceAccess::write};
  gpu->check(gpu->driver().set_access(at_, bytes_, &access, 1), operation, "cuMemSetAccess");
  allowed_.emplace(gpu->ordinal(), gpu);
}

os::Fd MappedMemory::export_descriptor() const noexcept {
  int fd = -1;
  const DriverStatus status = gpu_->driver().export_memory(&fd, handle_, HandleKind::descriptor, 0);
  return status == DriverStatus::success ? os::Fd(fd) : os::Fd();
}

MappedMemory::~MappedMemory() {
  if (gpu_->forked()) return;
  const Driver& driver = gpu_->driver();
  const ScopedRelaxation relaxed(driver);
  if (is_mapped_) (void)driver.unmap_memory(at_, bytes_);
  if (at_ != 0) (void)driver.free_address(at_, bytes_);
  if (has_handle_) (void)driver.release_memory(handle_);
}

}  // namespace weft::p2p::cuda
