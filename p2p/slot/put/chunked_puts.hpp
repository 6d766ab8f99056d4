// A writer's staged tensors, put chunk by chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/staged_chunks.hpp"
#include "p2p/transport/put_work.hpp"

namespace weft::p2p {

/// Which put goes in chunks now, and how far it has come. Guarded by the pending puts' mutex.
struct ChunkedPuts {
  struct Put {
    std::uint64_t ticket = 0;  ///< 0: none
    std::size_t next = 0;      ///< the first chunk that the channel has not taken
    std::size_t done = 0;      ///< PutWork::done of that one
    const std::byte* source = nullptr;
    std::shared_ptr<const OwnedBlock> block{};  ///< the source's; null: it is the tensor's own
    bool is_counted = false;

    /// Whether some of it is in the owner's buffer.
    bool has_begun() const noexcept { return next != 0 || done != 0; }
  };

  bool has_begun(std::uint64_t ticket) const noexcept {
    return put.ticket == ticket && put.has_begun();
  }
  /// Whether all of it was copied to host memory.
  bool waits_for_path(std::uint64_t ticket) const noexcept {
    return put.ticket == ticket && put.is_counted;
  }
  /// The put won't end.
  void drop() noexcept {
    is_torn = is_torn || put.has_begun();
    put = {};
  }
  /// It has.
  void end() noexcept {
    is_torn = false;
    put = {};
  }
  /// Host memory that no copy and no put uses; null: there is none.
  std::shared_ptr<const OwnedBlock> free_stage() const noexcept {
    for (const auto& stage : stages)
      if (stage.use_count() == 1) return stage;
    return nullptr;
  }

  StagedChunks cut;
  RemoteMemory words;
  std::uint32_t notification_id = 0;  ///< of the first word
  bool owner_looks = false;           ///< at the words
  std::vector<std::uint64_t> values;  ///< of the words
  Put put{};
  /// Chunks of a put that failed are in the next buffer, or on their way there.
  bool is_torn = false;
  std::vector<std::shared_ptr<const OwnedBlock>> stages{};
};

}  // namespace weft::p2p
