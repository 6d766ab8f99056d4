// The initial parameters of a table whose pushes have no room for them, as its servers see them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Nothing where pushes are not compressed: then the first worker's first push has them.
/// Thread-safety: one thread at a time.
class InitialParameters {
 public:
  void attach(World& world, const Description& table, std::span<const int> needs,
              Deadline deadline);

  /// Waits for them. The first worker shows them before its first push, so who takes them first
  /// takes that push with all that it stands for.
  Status take(Deadline deadline) noexcept;
  /// The next take() takes them once more.
  void take_again() noexcept;
  bool has() const noexcept { return static_cast<bool>(arrival_); }
  const std::byte* data() const noexcept { return arrival_.tensor().data(); }
  /// Gives their memory back.
  void release() noexcept { arrival_ = {}; }
  /// Nobody here needs them any more.
  void drop() noexcept;

 private:
  std::optional<PublishedReader> slot_;
  Arrival arrival_;  // below the slot, as it must go first
  bool is_due_ = true;
};

}  // namespace weft::pslib
