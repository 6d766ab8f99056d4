// Numbers different ids in the order in which they first come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::pslib {

/// Kept from batch to batch: one that is no larger than those before allocates nothing.
/// Thread-safety: one thread at a time.
class UniqueIds {
 public:
  /// Forgets all, and makes room for `most`. Throws std::bad_alloc.
  void begin(std::size_t most);
  /// The number of `id`: size() before the call if it is new.
  std::uint32_t add(std::uint64_t id) noexcept;

  std::size_t size() const noexcept { return ids_.size(); }
  std::span<const std::uint64_t> ids() const noexcept { return ids_; }

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::uint32_t batch = 0;  // an entry of another batch is free
    std::uint32_t number = 0;
  };

  std::vector<Entry> entries_;  // a power of two, at most half of them taken
  std::vector<std::uint64_t> ids_;
  std::uint32_t batch_ = 0;
};

}  // namespace weft::pslib
