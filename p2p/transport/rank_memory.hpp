// This rank's arenas, and what of the process's memory peers may know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "p2p/memory/adopted_memory.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/memory/arena_resource.hpp"
#include "p2p/transport/local_rank_options.hpp"
#include "p2p/transport/put_work.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

class RankMemory {
 public:
  explicit RankMemory(const LocalRankOptions& options);

  const std::shared_ptr<Arena> control;
  const std::shared_ptr<Arena> data;
  const std::shared_ptr<Arena> published;
  const std::shared_ptr<Arena> staging;
  const std::shared_ptr<AdoptedMemory> adopted;
  ArenaResource resource;  ///< the data arena's

  /// The arena that a chunk of this sort belongs to; Arena::has_chunk() says if it has this one.
  const std::shared_ptr<Arena>& arena_of(std::uint32_t chunk) const noexcept;
  /// Where peers find the tensor's bytes; nullopt for memory that is not theirs to reach.
  std::optional<MemoryRef> locate(const Tensor& tensor) const noexcept;
  /// Whether the number names memory of this rank that peers may know: what travelled is not
  /// trusted.
  bool has_chunk(std::uint32_t chunk) const noexcept;
  /// Whether the range lies in one of the arenas, all of which the fabrics know.
  bool reachable(const std::byte* data, std::size_t bytes) const noexcept;
};

}  // namespace weft::p2p
