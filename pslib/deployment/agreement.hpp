// Makes sure, before a table exists, that all ranks mean the same table.
#pragma once

#include <string>
#include <vector>

#include "weft/world.hpp"

namespace weft::pslib {

/// Each rank publishes its contract and reads everybody's. Kept as long as the table: a rank that
/// only serves watches the other ranks through it.
/// Thread-safety: one thread at a time.
class Agreement {
 public:
  /// Collective over the world. Throws Error: mismatch, on every rank, with the first line that
  /// differs as both sides have it; and what expose and attach throw.
  Agreement(World& world, const std::string& name, const std::string& contract, Deadline deadline);

  /// The others' contracts, which never see another version: they only tell that the owner lives.
  std::vector<RemoteSlot>& others() noexcept { return others_; }

 private:
  Slot mine_;
  std::vector<RemoteSlot> others_;
};

}  // namespace weft::pslib
