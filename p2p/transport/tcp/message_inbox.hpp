// Control messages that have come, until the progress thread takes them.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace weft::p2p::tcp {

/// Thread-safe.
class MessageInbox {
 public:
  /// Throws std::bad_alloc.
  void add(std::span<const std::byte> message) {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(message.begin(), message.end());
  }
  /// Hands over the messages that are there now, in order; later ones wait, so that a peer that
  /// never stops does not keep the caller here. `handle` may call take() again.
  template <typename Handle>
  void take(const Handle& handle) {
    std::size_t most = 0;
    {
      const std::lock_guard lock(mutex_);
      most = messages_.size();
    }
    for (std::size_t i = 0; i < most; ++i) {
      std::vector<std::byte> message;
      {
        const std::lock_guard lock(mutex_);
        if (messages_.empty()) return;
        message = std::move(messages_.front());
        messages_.pop_front();
      }
      handle(message);
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::vector<std::byte>> messages_;
};

}  // namespace weft::p2p::tcp
