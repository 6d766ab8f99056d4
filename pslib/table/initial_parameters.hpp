// The servers' view of the initial parameters of a table whose pushes have no room for them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Does nothing if pushes are not compressed: the first worker's first push then contains the
/// parameters. Not thread-safe.
class InitialParameters {
 public:
  /// For the shards of `homes`.
  void attach(World& world, const Description& table, std::span<const int> homes,
              std::span<const int> needs, Deadline deadline);

  /// Waits for the initial parameters. The first worker publishes them before its first push, so a
  /// server must take them first.
  Status take(Deadline deadline) noexcept;
  /// Makes the next take() return them once more.
  void take_again() noexcept;
  bool has() const noexcept { return static_cast<bool>(arrival_); }
  /// A piece of one of the shards, from element `first` of the flat parameters on.
  const std::byte* data(std::int64_t first) const noexcept;
  /// Releases the buffer that holds them.
  void release() noexcept { arrival_ = {}; }
  /// Detaches: this server no longer needs them.
  void drop() noexcept;

 private:
  std::optional<PublishedReader> slot_;
  std::optional<SlotCut> cut_;
  Arrival arrival_;  // declared after the slot: must be destroyed first
  bool is_due_ = true;
};

}  // namespace weft::pslib
