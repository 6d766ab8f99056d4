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
  void attach(World& world, const Description& table, std::span<const int> needs,
              Deadline deadline);

  /// Waits for the initial parameters. The first worker publishes them before its first push, so a
  /// server must take them first.
  Status take(Deadline deadline) noexcept;
  /// Makes the next take() return them once more.
  void take_again() noexcept;
  bool has() const noexcept { return static_cast<bool>(arrival_); }
  const std::byte* data() const noexcept { return arrival_.tensor().data(); }
  /// Releases the buffer that holds them.
  void release() noexcept { arrival_ = {}; }
  /// Detaches: this server no longer needs them.
  void drop() noexcept;

 private:
  std::optional<PublishedReader> slot_;
  Arrival arrival_;  // declared after the slot: must be destroyed first
  bool is_due_ = true;
};

}  // namespace weft::pslib
