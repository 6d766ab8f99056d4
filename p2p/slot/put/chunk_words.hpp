// The owner's words for the chunks of tensors that are staged.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/staged_chunks.hpp"
#include "p2p/transport/put_work.hpp"

namespace weft::p2p {

/// A word's number only rises, for all writers: so no chunk passes for another one. Granting is the
/// progress thread's.
class ChunkWords {
 public:
  /// No writer puts as many chunks.
  static constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 62;

  /// `control`: the rank's arena for them. Throws Error(exhausted).
  ChunkWords(const std::shared_ptr<Arena>& control, const StagedChunks& cut)
      : cut_(cut), block_(control, cut.words() * sizeof(Word)) {
    for (std::size_t i = 0; i < cut_.words(); ++i) new (&word(i)) Word(0);
  }

  const StagedChunks& cut() const noexcept { return cut_; }
  std::byte* data() const noexcept { return block_.data(); }
  MemoryRef ref() const noexcept {
    return {block_.block().chunk, block_.block().offset, cut_.words() * sizeof(Word)};
  }
  /// The number that the last put of that chunk into that buffer has set. Any thread.
  std::uint64_t at(std::uint64_t buffer, std::size_t chunk) const noexcept {
    return word(cut_.word(buffer, chunk)).load(std::memory_order_acquire);
  }
  /// Gives all words one number above all that they had, and returns it. A new writer's are above
  /// that. nullopt: an earlier writer has set a number that none comes to, and there is none above.
  std::optional<std::uint64_t> begin_writer() noexcept {
    std::uint64_t highest = 0;
    for (std::size_t i = 0; i < cut_.words(); ++i)
      highest = std::max(highest, word(i).load(std::memory_order_acquire));
    if (highest >= kMostChunks) return std::nullopt;
    for (std::size_t i = 0; i < cut_.words(); ++i)
      word(i).store(highest + 1, std::memory_order_release);
    return highest + 1;
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  Word& word(std::size_t i) const noexcept { return reinterpret_cast<Word*>(block_.data())[i]; }

  const StagedChunks cut_;
  const OwnedBlock block_;
};

}  // namespace weft::p2p
