// Where an arena's chunks come from: shared memory, private memory, a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/os/fd.hpp"
#include "p2p/memory/segment.hpp"
#include "weft/device.hpp"

namespace weft::p2p {

/// The memory of one chunk, which lasts as long as `owner`.
struct ChunkMemory {
  std::byte* data = nullptr;  ///< on a GPU: an address that the processor must not touch
  os::Fd fd{};                ///< by which other processes map it; empty: they can't
  std::shared_ptr<void> owner{};
  bool huge_pages_advised = false;
};

/// Makes chunks. Calls come from one thread at a time.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;

  /// Chunks are of whole pages of this many bytes.
  virtual std::size_t page() const noexcept = 0;
  /// The reason why `bytes` more can't be had, as far as that is known without trying.
  virtual std::optional<std::string> refusal(std::size_t bytes) const = 0;
  /// Throws Error(exhausted).
  virtual ChunkMemory create(std::size_t bytes) = 0;
  /// Blocks of its chunks begin and end at multiples of this: what other processors and GPUs write
  /// must not share a line of their caches.
  virtual std::size_t granule() const noexcept { return 64; }
  virtual Memory memory() const noexcept { return {}; }
};

/// Memfds with this label, mapped by other processes through `mapper`.
std::unique_ptr<ChunkSource> shared_chunks(PageKind pages, std::string label, Access others,
                                           std::shared_ptr<SegmentMapper> mapper);
/// Memory of this process alone; all its pages exist.
std::unique_ptr<ChunkSource> private_chunks(PageKind pages);
/// The same with pages that are allocated on first touch.
std::unique_ptr<ChunkSource> lazy_chunks();

}  // namespace weft::p2p
