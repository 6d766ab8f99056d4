// Control messages that have come by queue pairs, until it is their turn.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/message_head.hpp"

namespace weft::p2p::verbs {

/// Thread-safe.
class MessageInbox {
 public:
  /// Throws std::bad_alloc.
  void add(const MessageHead& head, std::span<const std::byte> body) {
    const std::lock_guard lock(mutex_);
    messages_.push_back({head, {body.begin(), body.end()}});
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }
  enum class Turn { none, not_yet, taken };
  /// Takes the first message into `body` if `has_come(head)`: what was sent before it is here.
  template <typename HasCome>
  Turn take_first(std::vector<std::byte>& body, const HasCome& has_come) {
    const std::lock_guard lock(mutex_);
    if (messages_.empty()) return Turn::none;
    if (!has_come(messages_.front().head)) return Turn::not_yet;
    body = std::move(messages_.front().bytes);
    messages_.pop_front();
    return Turn::taken;
  }

 private:
  struct Message {
    MessageHead head;
    std::vector<std::byte> bytes;
  };

  mutable std::mutex mutex_;
  std::deque<Message> messages_;
};

}  // namespace weft::p2p::verbs
