// Messages that their receiver reads from this rank's memory.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "p2p/message/operation.hpp"
#include "p2p/message/ring.hpp"

namespace weft::p2p::message {

/// Each message has a word of its own, in which the receiver acknowledges that it has read the
/// message. `acks` are these words.
class OfferedMessages {
 public:
  bool empty() const noexcept { return count_ == 0; }
  /// Index of a word that no message has; SenderWords::kOffers if there is none.
  std::uint32_t free_word() const noexcept {
    return static_cast<std::uint32_t>(std::find(by_word_.begin(), by_word_.end(), nullptr) -
                                      by_word_.begin());
  }
  /// `operation.awaited` is the value that acknowledges the message.
  void add(std::uint32_t word, Operation& operation) noexcept {
    by_word_[word] = &operation;
    ++count_;
  }

  /// Removes the messages that the receiver has read, and calls `ended` with each.
  template <typename Ended>
  void take_acknowledged(const std::atomic<std::uint64_t>* acks, const Ended& ended) noexcept {
    if (count_ == 0) return;
    for (std::uint32_t i = 0; i < SenderWords::kOffers; ++i) {
      Operation* const operation = by_word_[i];
      if (operation == nullptr || acks[i].load(std::memory_order_acquire) < operation->awaited)
        continue;
      by_word_[i] = nullptr;
      --count_;
      ended(*operation);
    }
  }
  /// Removes all messages, and calls `ended` with each.
  template <typename Ended>
  void take_all(const Ended& ended) noexcept {
    for (Operation*& offered : by_word_)
      if (Operation* const operation = std::exchange(offered, nullptr)) ended(*operation);
    count_ = 0;
  }

 private:
  std::array<Operation*, SenderWords::kOffers> by_word_{};
  std::uint32_t count_ = 0;
};

}  // namespace weft::p2p::message
