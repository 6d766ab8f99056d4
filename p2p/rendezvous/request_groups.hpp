// The receiver's side: requests whose result has not been handed to the caller.
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
#include "p2p/transport/cuda/device_copy.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::rendezvous {

/// The last part of a tensor's way to a GPU, from the memory that its sender wrote.
struct ToGpu {
  Tensor tensor{};  ///< on the GPU; empty: not begun
  std::optional<cuda::DeviceCopy> copy{};
  std::optional<Status> outcome{};  ///< how it ended
};

/// One requested tensor. Its address is stable until it is released, so that a thread may poll
/// `word`, `id` and `ended` without a lock while it owns the request.
struct Item {
  RequestId id;
  const std::atomic<std::uint64_t>* word = nullptr;
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  Metadata metadata;        ///< as sent to the sender, or as received from it
  Tensor result;            ///< the sender writes it; empty if there are no bytes
  bool by_control = false;  ///< the last request for it went on the control channel
  bool waited = false;      ///< a thread waits for it
  bool cancelled = false;
  std::atomic<bool> ended{false};  ///< ended by a message: `failure`, or a tensor without bytes
  Status failure;
  ToGpu to_gpu;  ///< of a tensor that goes on to a GPU, once it has arrived

  bool arrived() const noexcept { return word->load(std::memory_order_acquire) == id.generation; }
  bool done() const noexcept { return ended.load(std::memory_order_acquire) || arrived(); }
};

/// The requests to one sender, in groups. The requests of a group share a message, or a few where
/// no group is free; each has a completion word of its own, which the sender writes. A group and
/// its words are reused when all its requests are done and released. Plain data but for the words.
/// Allocates nothing in the steady state. Not thread-safe.
class RequestGroups {
 public:
  /// `words` has kGroupBytes for each group.
  RequestGroups(std::byte* words, std::uint32_t groups);

  enum class Known : std::uint8_t { no, being_received, left_behind, received };

  struct Key {
    bool announced = false;  ///< the sender knows its number
    std::optional<Metadata> metadata;
    DoneSteps done;
    std::vector<Item*> items;
  };
  /// Number of names kept for reuse; further names are kept only while a request refers to them.
  static constexpr std::size_t kKeptKeys = 4096;
  /// The number of `name`. The number may have belonged to a name that no request refers to.
  std::uint32_t number_of(std::string_view name);
  const KeyNames& keys() const noexcept { return keys_; }
  Key& key(std::uint32_t number);

  /// The state of a key and step. Sets `item` if a request exists.
  Known known(std::uint32_t key, std::uint64_t step, Item*& item);

  /// Starts a group, or goes on with one that has room if all are in use; false if none has.
  bool begin_group() noexcept;
  /// Adds an item to the started group; null if the group is full.
  Item* add(std::uint32_t key, std::uint64_t step);
  /// Removes the item added last from the group.
  void take_back(Item& item) noexcept;
  /// Number and generation of the started group.
  RequestId begun() const noexcept { return {open_, groups_[open_].generation, 0}; }
  /// Completes the group. Frees it if it has no items.
  void end_group() noexcept;

  /// The item that a message refers to; null if there is none or it has ended.
  Item* find(const RequestId& id) noexcept;
  /// Frees the item. `received` records its step, so that the step can't be requested again. Throws
  /// std::bad_alloc.
  void release(Item& item, bool received);
  /// Calls `act` for every item that no thread waits for.
  void for_each_left_behind(const std::function<void(Item&)>& act);
  std::size_t live() const noexcept { return live_; }
  std::size_t free_groups() const noexcept { return free_.size(); }

 private:
  struct Group {
    std::uint32_t generation = 0;
    std::uint32_t live = 0;  ///< items not released
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
