// A writer's count of what it has put, and of what the owner has let go.
#pragma once

#include <atomic>
#include <cstdint>

#include "p2p/slot/attach/grant.hpp"

namespace weft::p2p {

/// With nothing pending it belongs to the application's thread; while puts are pending, to whoever
/// holds their mutex.
class WriterCredits {
 public:
  /// The owner's grant: `sent` by writers before, of which it has let go `released`.
  void begin(bool kept, std::uint32_t depth, std::uint64_t released, std::uint64_t sent) noexcept {
    kept_ = kept;
    depth_ = depth;
    released_.store(released, std::memory_order_relaxed);
    sent_.store(sent, std::memory_order_relaxed);
    sent_before_ = sent;
  }

  /// Whether a put has a buffer to go to. `word` is where the owner writes credits.
  [[gnu::always_inline]] bool has_credit(const std::atomic<std::uint64_t>& word) noexcept {
    const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
    // The owner writes the word, so reading it may fetch its line: only when what is known is used
    // up.
    if (!kept_ || has_room(sent)) [[likely]]
      return true;
    learn(word);
    return has_room(sent);
  }
  /// Whether the put behind the next one has a buffer too.
  bool has_two(const std::atomic<std::uint64_t>& word) noexcept { return has_behind(1, word); }
  /// Whether the put behind the next `ahead` ones has a buffer too.
  bool has_behind(std::uint64_t ahead, const std::atomic<std::uint64_t>& word) noexcept {
    const std::uint64_t next = sent_.load(std::memory_order_relaxed) + ahead;
    if (kept_ && !has_room(next)) learn(word);
    return depth_ > ahead && (!kept_ || has_room(next));
  }
  /// Reads the credit word.
  void learn(const std::atomic<std::uint64_t>& word) noexcept {
    learn_of(word.load(std::memory_order_seq_cst));
  }
  /// The owner says that it has let go of all up to `credits`.
  void learn_of(std::uint64_t credits) noexcept {
    if (credits > released_.load(std::memory_order_relaxed) && is_credible(credits, sent_.load()))
      released_.store(credits, std::memory_order_relaxed);
  }
  void count_put(std::uint64_t sequence) noexcept {
    sent_.store(sequence, std::memory_order_relaxed);
  }
  /// Whether has_credit() reads the credit word soon after this put.
  bool is_near_the_end(std::uint64_t sequence) const noexcept {
    return kept_ && sequence + 2 >= released_.load(std::memory_order_relaxed) + depth_;
  }

  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_relaxed); }
  /// As far as the credit word was read.
  std::uint64_t released() const noexcept { return released_.load(std::memory_order_relaxed); }
  bool has_put() const noexcept { return sent() != sent_before_; }

 private:
  [[gnu::always_inline]] bool has_room(std::uint64_t sent) const noexcept {
    const std::uint64_t released = released_.load(std::memory_order_relaxed);
    return released >= sent || sent - released < depth_;
  }

  bool kept_ = true;  ///< the flow asks for it, or WEFT_CHECK=flow
  std::uint32_t depth_ = 1;
  std::atomic<std::uint64_t> released_{0};
  std::atomic<std::uint64_t> sent_{0};
  std::uint64_t sent_before_ = 0;
};

}  // namespace weft::p2p
