// A rank's memory of one sort: large chunks, registered once, from which tensors are allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "p2p/memory/chunk_source.hpp"
#include "p2p/memory/heap.hpp"
#include "p2p/memory/segment.hpp"
#include "weft/report.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

enum class ArenaSort : std::uint8_t {
  control,    ///< sequence, credit and doorbell words
  data,       ///< tensors and slot buffers
  staging,    ///< never exported: bounce buffers
  published,  ///< buffers of published slots: peers can map them for reading only
  adopted,    ///< the application's own memory (AdoptedMemory); belongs to no arena
  device      ///< tensors on a GPU
};

/// Reads the sort from a chunk number: its top byte. Chunk numbers are unique within a rank: below
/// the sort, those of a GPU have a byte for the GPU's number.
inline ArenaSort sort_of_chunk(std::uint32_t chunk) noexcept {
  return static_cast<ArenaSort>(chunk >> 24);
}

inline Access access_to(std::uint32_t chunk) noexcept {
  return sort_of_chunk(chunk) == ArenaSort::published ? Access::read : Access::write;
}

/// A range of an arena. A peer locates the range by `chunk` and `offset`.
struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;
};

struct ArenaLimits {
  /// Size of the first chunk, whose pages exist at once: small, since many ranks need no more.
  static constexpr std::size_t kFirstChunk = 2u << 20;

  /// Largest growth step. Steps double from the first chunk on; larger requests get a chunk of
  /// their own.
  std::size_t chunk_bytes = 16u << 20;
  std::size_t max_bytes = 0;  ///< 0: no limit
  bool huge_pages = true;
  int numa = -1;  ///< preferred NUMA node of the pages; -1: the kernel's choice
  /// All pages come from these NUMA nodes; empty: from any.
  std::vector<int> allowed_numa{};
  /// False where all ranks take turns in one process: chunks are then private memory whose pages
  /// are allocated on first touch.
  bool exported = true;
};

/// Thread-safe. Blocks are 64-byte aligned (on a GPU 256), and their pages exist. Chunks are freed
/// only with the arena, so that a peer's mapping stays valid.
class Arena {
 public:
  /// Memory of the host, of the kind that the sort needs.
  Arena(ArenaSort sort, ArenaLimits limits, std::shared_ptr<SegmentMapper> mapper);
  /// Memory from `source`. The limits' pages and `exported` don't count.
  Arena(ArenaSort sort, ArenaLimits limits, std::shared_ptr<SegmentMapper> mapper,
        std::unique_ptr<ChunkSource> source);

  /// Throws Error(exhausted), whose message gives the bytes requested, reserved and allowed; the
  /// arena is unchanged then.
  Block allocate(std::size_t bytes);
  void release(const Block& block) noexcept;

  /// Where its blocks lie.
  Memory memory() const noexcept { return source_->memory(); }

  // These three require has_chunk(chunk).
  /// The chunk's descriptor and size, by which a peer maps the chunk. Valid as long as the arena.
  const os::Fd& chunk_fd(std::uint32_t chunk) const;
  std::size_t chunk_bytes(std::uint32_t chunk) const;
  /// The chunk's address in this process.
  std::byte* chunk_data(std::uint32_t chunk) const;
  /// True if `chunk` is one of this arena's. For checking numbers received from a peer.
  bool has_chunk(std::uint32_t chunk) const noexcept;
  /// The range as a block; nullopt if no chunk contains the range.
  std::optional<Block> locate(const std::byte* data, std::size_t bytes) const noexcept;
  /// True if a chunk contains the range.
  bool contains(const std::byte* data, std::size_t bytes) const noexcept;

  /// True in a fork of the arena's process: a fork must neither touch nor allocate memory of the
  /// arena, and release() does nothing there.
  bool forked() const noexcept { return mapper_->fork_mark().forked(); }

  /// Adds to the bytes in quarantine: freed by their slot while a peer may still write them.
  void add_quarantine(std::int64_t bytes) noexcept { quarantine_ += bytes; }
  /// A peer may write into the chunk, which must be one of the arena's, from now on, whatever
  /// becomes of it: what is free there, or is released later, is not given out any more, and counts
  /// as quarantined. Never waits for an allocation, which a driver may hold up.
  void seal(std::uint32_t chunk) noexcept;
  /// All chunks.
  void seal() noexcept;
  ArenaReport report() const;
  /// Bytes that its limit leaves; 2^64 - 1 without a limit.
  std::uint64_t left() const;

 private:
  struct Chunk {
    ChunkMemory memory;
    Heap heap;
    std::size_t bytes;
  };
  bool is_sealed(std::size_t index) const noexcept;
  Chunk& grow(std::size_t bytes);
  /// Size of a new chunk for a request of `bytes`, in whole pages of `page` bytes.
  std::size_t next_chunk(std::size_t bytes, std::size_t page) noexcept;
  Chunk& add_chunk(ChunkMemory memory, std::size_t bytes);
  /// For texts: "data", or the GPU's name.
  std::string name() const;
  std::size_t index_of(std::uint32_t chunk) const noexcept { return chunk - first_chunk_; }
  [[noreturn]] void refuse(std::size_t bytes, const std::string& why) const;

  const ArenaSort sort_;
  const ArenaLimits limits_;
  const std::shared_ptr<SegmentMapper> mapper_;
  const std::unique_ptr<ChunkSource> source_;
  const std::uint32_t first_chunk_;  ///< its number
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::size_t step_;  ///< of the next growth
  std::size_t reserved_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::uint64_t allocations_ = 0;
  std::atomic<std::int64_t> quarantine_{0};
  mutable std::mutex seals_mutex_;  ///< taken for moments only, also with mutex_ held
  std::vector<bool> sealed_;        ///< for each chunk
};

/// Allocates a block as tensor storage. The last tensor in the block returns it to the arena, even
/// after the world is destroyed.
std::shared_ptr<Storage> make_storage(std::shared_ptr<Arena> arena, std::size_t bytes);

/// A block that returns to its arena on destruction.
class OwnedBlock {
 public:
  OwnedBlock() = default;
  OwnedBlock(std::shared_ptr<Arena> arena, std::size_t bytes)
      : arena_(std::move(arena)), block_(arena_->allocate(bytes)) {}
  OwnedBlock(OwnedBlock&& other) noexcept
      : arena_(std::move(other.arena_)), block_(std::exchange(other.block_, {})) {}
  OwnedBlock& operator=(OwnedBlock&& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(block_, other.block_);
    return *this;
  }
  ~OwnedBlock() {
    if (arena_) arena_->release(block_);
  }

  const Block& block() const noexcept { return block_; }
  std::byte* data() const noexcept { return block_.data; }
  explicit operator bool() const noexcept { return arena_ != nullptr; }
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }

 private:
  std::shared_ptr<Arena> arena_;
  Block block_;
};

}  // namespace weft::p2p
