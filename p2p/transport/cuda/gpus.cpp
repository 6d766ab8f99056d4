#include "p2p/transport/cuda/gpus.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/gpu_chunks.hpp"

namespace weft::p2p::cuda {
namespace {

/// Memory of the application's on a GPU.
class AdoptedOnGpu final : public Storage {
 public:
  AdoptedOnGpu(std::shared_ptr<void> memory, std::size_t bytes, Memory where)
      : Storage(static_cast<std::byte*>(memory.get()), bytes, nullptr, where),
        memory_(std::move(memory)) {}

 private:
  const std::shared_ptr<void> memory_;
};

}  // namespace

Gpus::Gpus(GpuWish wish, std::shared_ptr<SegmentMapper> mapper, std::size_t chunk_bytes,
           std::shared_ptr<Log> log)
    : quarantine(log),
      wish_(std::move(wish)),
      mapper_(std::move(mapper)),
      chunk_bytes_(chunk_bytes),
      log_(std::move(log)) {}

const Driver& Gpus::driver(const char* operation) {
  if (driver_ == nullptr) {
    const auto loaded = load_driver();
    if (!loaded.ok()) {
      ErrorDetail detail = loaded.status().detail();
      detail.operation = operation;
      throw Error(std::move(detail));
    }
    driver_ = *loaded;
    in_use_.store(true, std::memory_order_relaxed);
  }
  return *driver_;
}

int Gpus::own_gpu(const char* operation) {
  if (own_) return *own_;
  const OwnGpu own = choose_own_gpu(driver(operation), wish_, operation);
  if (log_ != nullptr)
    log_->info(Subsystem::arena, "this rank's GPU is {}: {}", own.ordinal, own.reason);
  return *(own_ = own.ordinal);
}

std::shared_ptr<Gpu> Gpus::gpu(const char* operation, Memory memory) {
  const Driver& loaded = driver(operation);
  const int ordinal = memory.is_own_gpu() ? own_gpu(operation) : memory.ordinal();
  auto& slot = gpus_[ordinal];
  if (slot != nullptr) return slot;
  int count = 0;
  if (loaded.device_count(&count) == DriverStatus::success && ordinal >= count)
    throw_error(Code::bad_argument, operation,
                fmt::format("there is no GPU {}: this process sees {}", ordinal, count),
                "GPUs are counted from 0, without those that CUDA_VISIBLE_DEVICES hides");
  return slot = Gpu::open(loaded, ordinal);
}

std::shared_ptr<Arena> Gpus::arena(Memory memory) {
  const std::lock_guard lock(mutex_);
  auto opened = gpu("allocate", memory);
  auto& slot = arenas_[opened->ordinal()];
  if (slot == nullptr) {
    ArenaLimits limits;
    limits.chunk_bytes = chunk_bytes_;
    slot = std::make_shared<Arena>(ArenaSort::device, std::move(limits), mapper_,
                                   gpu_chunks(std::move(opened)));
  }
  return slot;
}

std::vector<std::shared_ptr<Gpu>> Gpus::in_use(const char* operation) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Gpu>> list{gpu(operation, Memory::gpu())};
  for (const auto& [ordinal, opened] : gpus_)
    if (opened != nullptr && opened != list.front()) list.push_back(opened);
  return list;
}

std::shared_ptr<Arena> Gpus::arena_with(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, arena] : arenas_)
    if (arena->has_chunk(chunk)) return arena;
  return nullptr;
}

std::optional<ExportedChunk> Gpus::exported(std::uint32_t chunk) {
  const auto arena = arena_with(chunk);
  if (arena == nullptr || !arena->chunk_fd(chunk)) return std::nullopt;
  const auto memory = MappedMemory::find(arena->chunk_data(chunk));
  Uuid uuid{};
  const int ordinal = arena->memory().ordinal();
  if (memory == nullptr || driver_->device_uuid(&uuid, ordinal) != DriverStatus::success)
    return std::nullopt;
  return ExportedChunk{memory->id(), uuid.bytes, memory->bytes()};
}

std::optional<GpuChunk> Gpus::chunk(std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, arena] : arenas_)
    if (arena->has_chunk(number)) return GpuChunk{arena, gpus_.at(ordinal), number, 0};
  return std::nullopt;
}

std::optional<GpuChunk> Gpus::chunk_at(const std::byte* data, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, arena] : arenas_)
    if (const auto at = arena->locate(data, bytes))
      return GpuChunk{arena, gpus_.at(ordinal), at->chunk, at->offset};
  return std::nullopt;
}

int Gpus::descriptor_of(std::uint32_t chunk) const {
  return arena_with(chunk)->chunk_fd(chunk).get();
}

Memory Gpus::memory_of(const void* address) const {
  const Driver* const loaded = driver_in_use();
  const auto at = reinterpret_cast<DevicePointer>(address);
  unsigned kind = 0;
  int ordinal = 0;
  if (loaded == nullptr ||
      loaded->pointer_attribute(&kind, PointerAttribute::memory_kind, at) !=
          DriverStatus::success ||
      kind != static_cast<unsigned>(MemoryKind::device) ||
      loaded->pointer_attribute(&ordinal, PointerAttribute::device_ordinal, at) !=
          DriverStatus::success)
    return {};
  return Memory::gpu(ordinal);
}

Tensor Gpus::adopt(std::shared_ptr<void> memory, DType dtype, const Shape& shape, Memory where) {
  const Tensor described = Tensor::wrap(memory.get(), dtype, shape, where);
  check_parts("adopt", std::span(&described, 1));
  return {std::make_shared<AdoptedOnGpu>(std::move(memory), described.bytes(), where), 0, dtype,
          shape};
}

void Gpus::check_host(const char* operation, const Tensor& tensor) const {
  if (!is_misplaced(tensor)) return;
  throw_error(Code::bad_argument, operation,
              fmt::format("the tensor {} at {} lies on {}, and was given as host memory",
                          tensor.text(), fmt::ptr(tensor.data()), memory_of(tensor.data()).text()),
              "wrap it with Memory::gpu(n), or adopt it");
}

std::vector<ArenaReport> Gpus::reports() const {
  const std::lock_guard lock(mutex_);
  std::vector<ArenaReport> list;
  for (const auto& [ordinal, arena] : arenas_) list.push_back(arena->report());
  return list;
}

}  // namespace weft::p2p::cuda
