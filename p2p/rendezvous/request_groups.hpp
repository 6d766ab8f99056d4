// The receiver's side: what was asked for and has not been handed to the caller yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "p2p/rendezvous/key_names.hpp"
#include "p2p/rendezvous/wire.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::rendezvous {

/// One tensor asked for. It stays where it is until it is let go, so that a thread may poll it
/// without a lock: `word` and `id` while it holds it, and `ended`.
struct Item {
  RequestId id;
  const std::atomic<std::uint64_t>* word = nullptr;
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  Metadata metadata;        ///< what the sender was told, or told
  Tensor result;            ///< lent to the sender, unless it has no bytes
  bool by_control = false;  ///< its last request went by the control path
  bool waited = false;      ///< a thread waits for it
  bool cancelled = false;
  std::atomic<bool> ended{false};  ///< by a message: `failure`, or a tensor without bytes
  Status failure;

  bool arrived() const noexcept { return word->load(std::memory_order_acquire) == id.generation; }
  bool done() const noexcept { return ended.load(std::memory_order_acquire) || arrived(); }
};

/// Requests to one sender, in groups: those of a group share a message, and have a completion word
/// each, which the sender writes. A group, and with it its words, is used again when all its
/// requests are done and let go. Pure data but for the words. In the steady state it allocates
/// nothing. Thread-safety: the caller's.
class RequestGroups {
 public:
  /// `words`: kGroupBytes for each group.
  RequestGroups(std::byte* words, std::uint32_t groups);

  enum class Known : std::uint8_t { no, being_received, left_behind, received };

  struct Key {
    bool announced = false;  ///< the sender knows its number
    std::optional<Metadata> metadata;
    DoneSteps done;
    std::vector<Item*> items;
  };
  /// Names that are kept; those above are kept as long as a request is about them.
  static constexpr std::size_t kKeptKeys = 4096;
  /// The number of a name, which may have been another's that no request is about.
  std::uint32_t number_of(std::string_view name);
  const KeyNames& keys() const noexcept { return keys_; }
  Key& key(std::uint32_t number);

  /// What is known of a key and step; `item` is set for a request that exists.
  Known known(std::uint32_t key, std::uint64_t step, Item*& item);

  /// Begins a group; false when all are in use.
  bool begin_group() noexcept;
  /// One more item of the group begun; null when it has as many as it can.
  Item* add(std::uint32_t key, std::uint64_t step);
  /// The item last added will not be asked for by this group after all.
  void take_back(Item& item) noexcept;
  /// The group begun: its number and generation.
  RequestId begun() const noexcept { return {open_, groups_[open_].generation, 0}; }
  /// The group is complete. One without items is free again.
  void end_group() noexcept;

  /// The item that a message speaks of; null when there is none, or it has ended.
  Item* find(const RequestId& id) noexcept;
  /// The item is done with: `received` keeps its step from being asked for again.
  void release(Item& item, bool received) noexcept;
  /// Every item that no thread waits for.
  void for_each_left_behind(const std::function<void(Item&)>& act);
  std::size_t live() const noexcept { return live_; }
  std::size_t free_groups() const noexcept { return free_.size(); }

 private:
  struct Group {
    std::uint32_t generation = 0;
    std::uint32_t live = 0;  ///< items not let go
    std::uint32_t used = 0;
    std::vector<std::unique_ptr<Item>> items;
  };

  void forget(Item& item) noexcept;
  std::atomic<std::uint64_t>& word(const RequestId& id) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(words_ + word_offset(id));
  }

  std::byte* const words_;
  KeyNames keys_;
  std::deque<Key> by_key_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> free_;
  std::uint32_t open_ = 0;
  std::size_t live_ = 0;
};

}  // namespace weft::p2p::rendezvous
