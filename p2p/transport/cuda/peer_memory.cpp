#include "p2p/transport/cuda/peer_memory.hpp"

#include <optional>

#include "p2p/transport/cuda/relaxation.hpp"
#include "weft/error.hpp"

namespace weft::p2p::cuda {
namespace {

/// A peer's memory as this process's GPU reaches it.
class PeerStorage final : public Storage {
 public:
  PeerStorage(std::shared_ptr<MappedMemory> mapping, std::uint64_t offset, std::uint64_t bytes,
              Memory memory)
      : Storage(mapping->data() + offset, bytes, nullptr, memory), mapping_(std::move(mapping)) {}

 private:
  const std::shared_ptr<MappedMemory> mapping_;
};

/// The number under which this process sees a GPU.
std::optional<int> ordinal_of(const Driver& driver, const decltype(ExportedChunk::gpu)& uuid) {
  int count = 0;
  if (driver.device_count(&count) != DriverStatus::success) return std::nullopt;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Uuid seen{};
    if (driver.device_uuid(&seen, ordinal) == DriverStatus::success && seen.bytes == uuid)
      return ordinal;
  }
  return std::nullopt;
}

bool can_access(const Driver& driver, int from, int to) {
  int can = 0;
  return from == to ||
         (driver.can_access_peer(&can, from, to) == DriverStatus::success && can != 0);
}

}  // namespace

void PeerMemory::keep(int rank, std::uint32_t chunk, const ExportedChunk& exported,
                      os::Fd descriptor) {
  const std::lock_guard lock(mutex_);
  // A chunk is never another: the first that is said of one counts.
  if (find(rank, chunk) != nullptr) return;
  if (chunks_.size() >= kMostChunks)
    dropped_.insert(rank);
  else
    chunks_.try_emplace({rank, chunk}, Chunk{exported, std::move(descriptor), nullptr});
}

const PeerMemory::Chunk* PeerMemory::find(int rank, std::uint32_t chunk) const {
  const auto found = chunks_.find({rank, chunk});
  return found == chunks_.end() ? nullptr : &found->second;
}

std::optional<ExportedChunk> PeerMemory::told(int rank, std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  const Chunk* const known = find(rank, chunk);
  if (known == nullptr) return std::nullopt;
  return known->exported;
}

bool PeerMemory::has_dropped(int rank) const {
  const std::lock_guard lock(mutex_);
  return dropped_.contains(rank);
}

PeerMemory::Mapped PeerMemory::map(int rank, const Range& range,
                                   const std::shared_ptr<Gpu>& by) noexcept {
  try {
    return map_range(rank, range, by);
  } catch (...) {
    return {.way = GpuWay::not_mapped, .bytes = {}, .detail = caught_status().detail().message};
  }
}

PeerMemory::Mapped PeerMemory::map_range(int rank, const Range& range,
                                         const std::shared_ptr<Gpu>& by) {
  const std::lock_guard lock(mutex_);
  const auto found = chunks_.find({rank, range.chunk});
  if (found == chunks_.end())
    return {.way = GpuWay::not_mapped, .bytes = {}, .detail = "the chunk is not known here"};
  Chunk& chunk = found->second;
  const std::uint64_t size = chunk.exported.bytes;
  if (range.offset > size || range.bytes > size - range.offset)
    return {.way = GpuWay::not_mapped, .bytes = {}, .detail = "the range lies outside its chunk"};
  const auto owner = ordinal_of(by->driver(), chunk.exported.gpu);
  if (!owner) return {.way = GpuWay::not_visible};
  if (!can_access(by->driver(), by->ordinal(), *owner)) return {.way = GpuWay::no_peer_access};
  const Gpu::Current current(*by);
  const ScopedRelaxation relaxed(by->driver());
  if (chunk.mapping == nullptr) {
    if (!chunk.descriptor)
      return {.way = GpuWay::not_mapped,
              .bytes = {},
              .detail = "no descriptor was left here for it (ulimit -n)"};
    chunk.mapping = MappedMemory::import(by, chunk.exported.id, chunk.descriptor, size);
    chunk.descriptor = {};
  }
  chunk.mapping->allow(by);
  return {.bytes = Tensor(
              std::make_shared<PeerStorage>(chunk.mapping, range.offset, range.bytes, by->memory()),
              0, DType::u8, {static_cast<std::int64_t>(range.bytes)})};
}

GpuWay PeerMemory::proven(int rank, std::uint32_t chunk, int by) const {
  const std::lock_guard lock(mutex_);
  const Chunk* const known = find(rank, chunk);
  if (known == nullptr) return GpuWay::unproven;
  const auto proof = proofs_.find({rank, known->exported.gpu, by});
  return proof == proofs_.end() ? GpuWay::unproven : proof->second;
}

void PeerMemory::prove(int rank, std::uint32_t chunk, int by, GpuWay outcome) {
  const std::lock_guard lock(mutex_);
  if (const Chunk* const known = find(rank, chunk))
    proofs_[{rank, known->exported.gpu, by}] = outcome;
}

void PeerMemory::forget(int rank) {
  // Unmapped when the lock has gone.
  std::map<std::pair<int, std::uint32_t>, Chunk> gone;
  const std::lock_guard lock(mutex_);
  dropped_.erase(rank);
  for (auto at = chunks_.begin(); at != chunks_.end();)
    if (const auto next = std::next(at); at->first.first == rank) {
      gone.insert(chunks_.extract(at));
      at = next;
    } else {
      at = next;
    }
}

}  // namespace weft::p2p::cuda
