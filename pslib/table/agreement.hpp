// Checks, before a table is created, that all ranks describe the same table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/world.hpp"

namespace weft::pslib {

/// Each rank publishes its contract and reads those of the other members. Lives as long as the
/// table: a rank that only serves watches the other ranks through it. Not thread-safe.
class Agreement {
 public:
  /// Collective over `members`, in ascending order and including this rank. Throws Error(mismatch)
  /// on every rank, with the first line that differs as both ranks have it, and what expose and
  /// attach throw.
  Agreement(World& world, std::span<const int> members, const std::string& name,
            const std::string& contract, Deadline deadline);

  /// Collective, in the same order on every rank: returns each member's word, in the order of
  /// members().
  using Word = std::array<std::uint64_t, 2>;
  std::vector<Word> exchange(const Word& mine, Deadline deadline);
  std::span<const int> members() const noexcept { return members_; }
  /// This rank's index in members().
  std::size_t place() const noexcept { return place_; }
  /// Waits until the others have read this rank's word, or have gone. Call before this rank gives
  /// up the table because of an exchanged word, as every rank does.
  void part(Deadline deadline) noexcept;

  /// The other members' contracts. No new version appears once the table is created, so they only
  /// tell that their owner lives.
  std::vector<PublishedReader>& others() noexcept { return others_; }

 private:
  /// Published after the contract. No rank is more than one round ahead of another.
  struct Said {
    std::uint64_t round = 0;
    Word now{};
    Word before{};  ///< of the round before
  };
  void publish(Deadline deadline);

  const std::vector<int> members_;
  const std::size_t place_;
  const std::string contract_;
  PublishedSlot mine_;
  Said said_;
  std::vector<Said> heard_;  // in the order of others_
  std::vector<PublishedReader> others_;
};

}  // namespace weft::pslib
