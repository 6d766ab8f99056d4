// Lets handles that hold a bare pointer see whether its object is still there.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

/// A member of an object that handles point to without owning it. Handles keep word() and mark():
/// as long as the word equals the mark the object is there. The word's own memory is never given
/// back to the system, and its next user has another mark. Making and ending it: any thread.
class Life {
 public:
  /// Throws std::bad_alloc.
  Life();
  ~Life() { end(); }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  const std::atomic<std::uint64_t>* word() const noexcept { return word_; }
  std::uint64_t mark() const noexcept { return mark_; }
  /// From now on the object is not there for any handle.
  void end() noexcept;

 private:
  std::atomic<std::uint64_t>* word_;
  const std::uint64_t mark_;
};

/// `word` may be null.
inline bool is_alive(const std::atomic<std::uint64_t>* word, std::uint64_t mark) noexcept {
  return word != nullptr && word->load(std::memory_order_acquire) == mark;
}

}  // namespace weft
