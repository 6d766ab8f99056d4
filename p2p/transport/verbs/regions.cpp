#include "p2p/transport/verbs/regions.hpp"
#include "base/formatted.hpp"

#include <new>

#include "base/fail.hpp"

namespace weft::p2p::verbs {
namespace {

int access_of(ArenaSort sort) noexcept {
  switch (sort) {
    case ArenaSort::staging:
      return IBV_ACCESS_LOCAL_WRITE;
    case ArenaSort::published:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    default:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  }
}

/// The result of `make`, or its exception, as a Result.
template <typename T, typename Make>
Result<T> guarded(Make make) noexcept {
  try {
    return make();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = Code::exhausted});
  }
}

}  // namespace

Regions::Regions(Device& device, Memory memory, AdoptedRegions::Limits limits)
    : device_(device),
      memory_(std::move(memory)),
      adopted_(device, memory_.adopted, counts_, limits) {
  if (memory_.gpus != nullptr)
    gpu_ = std::make_unique<GpuRegions>(device, *this, memory_.staging, memory_.gpus);
}

Result<RegisteredChunk> Regions::of_chunk(std::uint32_t chunk) noexcept {
  if (gpu_ != nullptr && sort_of_chunk(chunk) == ArenaSort::device) return gpu_->of_chunk(chunk);
  return guarded<RegisteredChunk>([&] {
    if (sort_of_chunk(chunk) == ArenaSort::adopted) return adopted_.for_peers(chunk);
    const Arena* arena = arena_of(chunk);
    if (arena == nullptr || sort_of_chunk(chunk) == ArenaSort::staging)
      throw_error(Code::bad_argument, "register",
                  fmt::format("chunk {:#x} is none that peers may know", chunk));
    return chunk_of(*arena, chunk);
  });
}

Result<Regions::Lease> Regions::lend(std::uint32_t adopted_chunk) noexcept {
  return guarded<Lease>([&] { return adopted_.lend(adopted_chunk); });
}

Result<std::uint32_t> Regions::register_around(const std::byte* data, std::size_t bytes) noexcept {
  if (gpu_ != nullptr)
    if (const std::uint32_t* const key = gpu_->known_key(data, bytes)) return *key;
  return guarded<std::uint32_t>([&]() -> Result<std::uint32_t> {
    for (const auto* arena :
         {&memory_.data, &memory_.published, &memory_.control, &memory_.staging})
      if (const auto block = (*arena)->locate(data, bytes))
        return chunk_of(**arena, block->chunk).local_key;
    if (gpu_ != nullptr) return gpu_->local_key(data, bytes);
    throw_error(Code::bad_argument, "register",
                fmt::format("{} bytes lie in no arena of this rank", bytes));
  });
}

RegisteredChunk Regions::chunk_of(const Arena& arena, std::uint32_t chunk) {
  const std::lock_guard lock(mutex_);
  if (const auto found = chunks_.find(chunk); found != chunks_.end()) return found->second;
  RegisteredChunk made{arena.chunk_data(chunk), arena.chunk_bytes(chunk), 0, 0};
  MemoryRegion region =
      device_.register_memory(made.data, made.bytes, access_of(sort_of_chunk(chunk)));
  made.local_key = region->lkey;
  made.remote_key = region->rkey;
  handles_.push_back(std::move(region));
  table_.add({made.data, made.bytes, made.local_key});
  chunks_.emplace(chunk, made);
  ++counts_.registrations;
  counts_.bytes += made.bytes;
  return made;
}

const Arena* Regions::arena_of(std::uint32_t chunk) const noexcept {
  for (const auto* arena : {&memory_.control, &memory_.data, &memory_.published, &memory_.staging})
    if ((*arena)->has_chunk(chunk)) return arena->get();
  return nullptr;
}

}  // namespace weft::p2p::verbs
