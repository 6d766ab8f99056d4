#include "p2p/transport/rank_memory.hpp"

#include <utility>

namespace weft::p2p {
namespace {

constexpr std::size_t kControlChunk = 2u << 20;

std::shared_ptr<Arena> make_arena(ArenaSort sort, const LocalRankOptions& options) {
  ArenaLimits limits;
  const bool holds_tensors = sort == ArenaSort::data || sort == ArenaSort::published;
  limits.chunk_bytes =
      holds_tensors ? options.config.size(Setting::arena_chunk).value() : kControlChunk;
  if (holds_tensors) limits.max_bytes = options.config.size(Setting::arena_max).value();
  limits.numa = sort == ArenaSort::staging ? options.placement.staging : options.placement.numa;
  limits.allowed_numa = options.placement.allowed_numa;
  if (options.sleeper != nullptr) {
    limits.exported = false;
    limits.chunk_bytes = options.private_chunk;
  }
  return std::make_shared<Arena>(sort, std::move(limits), options.mapper);
}

}  // namespace

RankMemory::RankMemory(const LocalRankOptions& options)
    : control(make_arena(ArenaSort::control, options)),
      data(make_arena(ArenaSort::data, options)),
      published(make_arena(ArenaSort::published, options)),
      staging(make_arena(ArenaSort::staging, options)),
      adopted(std::make_shared<AdoptedMemory>(control)),
      resource(data) {}

const std::shared_ptr<Arena>& RankMemory::arena_of(std::uint32_t chunk) const noexcept {
  switch (sort_of_chunk(chunk)) {
    case ArenaSort::control:
      return control;
    case ArenaSort::published:
      return published;
    default:
      return data;
  }
}

std::optional<MemoryRef> RankMemory::locate(const Tensor& tensor) const noexcept {
  for (const auto* arena : {&data, &published})
    if (const auto at = (*arena)->locate(tensor.data(), tensor.extent()))
      return MemoryRef{at->chunk, at->offset, tensor.extent()};
  if (const auto at = adopted->locate(tensor))
    return MemoryRef{at->chunk, at->offset, tensor.extent()};
  return std::nullopt;
}

bool RankMemory::has_chunk(std::uint32_t chunk) const noexcept {
  if (sort_of_chunk(chunk) == ArenaSort::adopted) return adopted->region(chunk).has_value();
  return arena_of(chunk)->has_chunk(chunk);
}

bool RankMemory::reachable(const std::byte* address, std::size_t bytes) const noexcept {
  return data->contains(address, bytes) || published->contains(address, bytes) ||
         control->contains(address, bytes) || staging->contains(address, bytes);
}

}  // namespace weft::p2p
