// Which registered stretch of memory an address lies in, found without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::p2p::verbs {

/// Grows, and never shrinks: for memory that stays until the table goes. find() may be called by
/// any thread at any time; add() by one at a time.
class RegionTable {
 public:
  struct Region {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::uint32_t local_key = 0;

    bool contains(const std::byte* data, std::size_t size) const noexcept {
      return data >= begin && size <= bytes &&
             static_cast<std::size_t>(data - begin) <= bytes - size;
    }
  };

  /// Null: the range lies in none of them.
  const Region* find(const std::byte* data, std::size_t bytes) const noexcept {
    auto& hint = hints_[reinterpret_cast<std::uintptr_t>(data) / kWindow % kHints];
    const Node* node = hint.load(std::memory_order_acquire);
    if (node != nullptr && node->region.contains(data, bytes)) return &node->region;
    for (node = newest_.load(std::memory_order_acquire); node != nullptr; node = node->older) {
      if (!node->region.contains(data, bytes)) continue;
      hint.store(node, std::memory_order_release);
      return &node->region;
    }
    return nullptr;
  }

  void add(const Region& region) {
    nodes_.push_back(std::make_unique<Node>(Node{region, newest_.load(std::memory_order_relaxed)}));
    newest_.store(nodes_.back().get(), std::memory_order_release);
  }

 private:
  struct Node {
    Region region;
    const Node* older;
  };
  /// Chunks have at least this size, so that two of them seldom want the same hint.
  static constexpr std::uintptr_t kWindow = 2U << 20U;
  static constexpr std::size_t kHints = 64;

  std::atomic<const Node*> newest_{nullptr};
  mutable std::array<std::atomic<const Node*>, kHints> hints_{};
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace weft::p2p::verbs
