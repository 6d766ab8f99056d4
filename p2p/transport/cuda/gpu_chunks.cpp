#include "p2p/transport/cuda/gpu_chunks.hpp"

#include <fmt/format.h>

#include <utility>

namespace weft::p2p::cuda {
namespace {

constexpr const char* kOperation = "allocate";

/// Memory of a GPU and its addresses, in the order in which they are made.
class MappedMemory {
 public:
  MappedMemory(std::shared_ptr<Gpu> gpu, std::size_t bytes, const AllocationProperties& properties)
      : gpu_(std::move(gpu)), bytes_(bytes) {
    try {
      make(properties);
    } catch (...) {
      undo();
      throw;
    }
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() { undo(); }

  std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(at_); }
  os::Fd descriptor() const {
    int fd = -1;
    gpu_->check(gpu_->driver().export_memory(&fd, handle_, HandleKind::descriptor, 0), kOperation,
                "cuMemExportToShareableHandle");
    return os::Fd(fd);
  }

 private:
  void make(const AllocationProperties& properties) {
    const Driver& driver = gpu_->driver();
    gpu_->check(driver.create_memory(&handle_, bytes_, &properties, 0), kOperation, "cuMemCreate");
    has_handle_ = true;
    gpu_->check(driver.reserve_address(&at_, bytes_, 0, 0, 0), kOperation, "cuMemAddressReserve");
    gpu_->check(driver.map_memory(at_, bytes_, 0, handle_, 0), kOperation, "cuMemMap");
    is_mapped_ = true;
    const AccessDescription access{{LocationKind::device, gpu_->ordinal()}, DeviceAccess::write};
    gpu_->check(driver.set_access(at_, bytes_, &access, 1), kOperation, "cuMemSetAccess");
  }
  void undo() noexcept {
    if (gpu_->forked()) return;
    const Driver& driver = gpu_->driver();
    if (is_mapped_) (void)driver.unmap_memory(at_, bytes_);
    if (at_ != 0) (void)driver.free_address(at_, bytes_);
    if (has_handle_) (void)driver.release_memory(handle_);
  }

  const std::shared_ptr<Gpu> gpu_;
  const std::size_t bytes_;
  AllocationHandle handle_ = 0;
  bool has_handle_ = false;
  DevicePointer at_ = 0;
  bool is_mapped_ = false;
};

class GpuChunks final : public ChunkSource {
 public:
  explicit GpuChunks(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {
    properties_.kind = AllocationKind::pinned;
    properties_.location = {LocationKind::device, gpu_->ordinal()};
    if (has(DeviceAttribute::export_by_descriptor)) properties_.handles = HandleKind::descriptor;
    properties_.flags.gpudirect = has(DeviceAttribute::gpudirect_of_virtual_memory) ? 1 : 0;
    gpu_->check(gpu_->driver().granularity(&page_, &properties_, Granularity::minimum), kOperation,
                "cuMemGetAllocationGranularity");
  }

  std::size_t page() const noexcept override { return page_; }
  std::size_t granule() const noexcept override { return 256; }
  Memory memory() const noexcept override { return memory_; }
  std::optional<std::string> refusal(std::size_t bytes) const override {
    const Gpu::Current current(*gpu_);
    std::size_t free = 0;
    std::size_t total = 0;
    gpu_->check(gpu_->driver().memory_info(&free, &total), kOperation, "cuMemGetInfo");
    if (bytes <= free) return std::nullopt;
    return fmt::format("{} more are needed, and {} of its {} are free", bytes, free, total);
  }
  ChunkMemory create(std::size_t bytes) override {
    const Gpu::Current current(*gpu_);
    auto made = std::make_shared<MappedMemory>(gpu_, bytes, properties_);
    ChunkMemory chunk{.data = made->data()};
    if (properties_.handles == HandleKind::descriptor) chunk.fd = made->descriptor();
    chunk.owner = std::move(made);
    return chunk;
  }

 private:
  bool has(DeviceAttribute attribute) const {
    int value = 0;
    return gpu_->driver().device_attribute(&value, attribute, gpu_->ordinal()) ==
               DriverStatus::success &&
           value != 0;
  }

  const std::shared_ptr<Gpu> gpu_;
  const Memory memory_ = gpu_->memory();
  AllocationProperties properties_{};
  std::size_t page_ = 0;
};

}  // namespace

std::unique_ptr<ChunkSource> gpu_chunks(std::shared_ptr<Gpu> gpu) {
  return std::make_unique<GpuChunks>(std::move(gpu));
}

}  // namespace weft::p2p::cuda
