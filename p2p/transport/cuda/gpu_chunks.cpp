#include "p2p/transport/cuda/gpu_chunks.hpp"

#include <fmt/format.h>

#include <utility>

#include "p2p/transport/cuda/mapped_memory.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kOperation = "allocate";

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
    const ScopedRelaxation relaxed(gpu_->driver());
    auto made = MappedMemory::create(gpu_, bytes, properties_);
    ChunkMemory chunk{.data = made->data()};
    if (properties_.handles == HandleKind::descriptor) chunk.fd = made->export_descriptor();
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
