// Numbers distinct ids in the order of first occurrence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::pslib {

/// Reused from batch to batch: a batch no larger than earlier ones allocates nothing. Not
/// thread-safe.
class UniqueIds {
 public:
  /// Clears the set and makes room for `most` ids. Throws std::bad_alloc.
  void begin(std::size_t most);
  /// The number of `id`; size() before the call if `id` is new.
  std::uint32_t add(std::uint64_t id) noexcept;

  std::size_t size() const noexcept { return ids_.size(); }
  std::span<const std::uint64_t> ids() const noexcept { return ids_; }

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::uint32_t batch = 0;  // entries of other batches are free
    std::uint32_t number = 0;
  };

  std::vector<Entry> entries_;  // a power of two, at most half used
  std::vector<std::uint64_t> ids_;
  std::uint32_t batch_ = 0;
};

}  // namespace weft::pslib
