// How large puts of each stream are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "base/kernels/copy_policy.hpp"

namespace weft::p2p {

/// One CopyChoice per stream of puts (PutWork::stream). Keeps the `kMost` streams that put last; a
/// stream that returns later learns anew. Thread-safe; one stream is used by one thread at a time.
class CopyChoices {
 public:
  static constexpr std::size_t kMost = 64;

  struct Choice {
    bool streams = false;     ///< past the cache
    bool wants_time = false;  ///< done() uses the time that the copy takes
  };
  /// `depth`: buffers that the stream uses in turn.
  Choice of(std::uint64_t stream, std::uint32_t depth) noexcept {
    const std::lock_guard lock(mutex_);
    const Entry* entry = entry_of(stream, depth);
    if (entry == nullptr) return {};
    return {entry->choice.streams(), entry->choice.wants_time()};
  }
  /// After each copy that of() was asked for; `ticks` counts only if `wants_time`.
  void done(std::uint64_t stream, std::uint32_t depth, std::uint64_t ticks) noexcept {
    const std::lock_guard lock(mutex_);
    if (Entry* entry = entry_of(stream, depth)) entry->choice.done(ticks);
  }

 private:
  struct Entry {
    std::uint64_t stream = 0;
    std::uint32_t depth = 0;
    std::uint64_t last_use = 0;
    CopyChoice choice;
  };
  /// Null: there is no memory for a new entry.
  Entry* entry_of(std::uint64_t stream, std::uint32_t depth) noexcept {
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (entry.stream == stream && entry.depth == depth) {
        entry.last_use = ++uses_;
        return &entry;
      }
      if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
    }
    if (entries_.size() == kMost) {
      *oldest = {stream, depth, ++uses_, CopyChoice(depth)};
      return oldest;
    }
    try {
      return &entries_.emplace_back(Entry{stream, depth, ++uses_, CopyChoice(depth)});
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  std::mutex mutex_;
  std::uint64_t uses_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace weft::p2p
