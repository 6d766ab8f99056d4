// How large puts of each stream are copied.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

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
    const CopyChoice& choice = *entry_of(stream, depth).choice;
    return {choice.streams(), choice.wants_time()};
  }
  /// After each copy that of() was asked for; `ticks` counts only if `wants_time`.
  void done(std::uint64_t stream, std::uint32_t depth, std::uint64_t ticks) noexcept {
    const std::lock_guard lock(mutex_);
    entry_of(stream, depth).choice->done(ticks);
  }

 private:
  struct Entry {
    std::uint64_t stream = 0;
    std::uint32_t depth = 0;
    std::uint64_t last_use = 0;  ///< 0: the entry is free
    std::optional<CopyChoice> choice;
  };
  Entry& entry_of(std::uint64_t stream, std::uint32_t depth) noexcept {
    Entry* oldest = &entries_.front();
    for (Entry& entry : entries_) {
      if (entry.choice && entry.stream == stream && entry.depth == depth) {
        entry.last_use = ++uses_;
        return entry;
      }
      if (entry.last_use < oldest->last_use) oldest = &entry;
    }
    oldest->stream = stream;
    oldest->depth = depth;
    oldest->last_use = ++uses_;
    oldest->choice.emplace(depth);
    return *oldest;
  }

  std::mutex mutex_;
  std::uint64_t uses_ = 0;
  std::array<Entry, kMost> entries_;
};

}  // namespace weft::p2p
