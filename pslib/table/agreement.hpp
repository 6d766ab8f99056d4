// Makes sure, before a table exists, that all ranks mean the same table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/world.hpp"

namespace weft::pslib {

/// Each rank publishes its contract and reads everybody's. Kept as long as the table: a rank that
/// only serves watches the other ranks through it.
/// Thread-safety: one thread at a time.
class Agreement {
 public:
  /// Collective over `members`, ascending, this rank among them. Throws Error: mismatch, on every
  /// rank, with the first line that differs as both sides have it; and what expose and attach
  /// throw.
  Agreement(World& world, std::span<const int> members, const std::string& name,
            const std::string& contract, Deadline deadline);

  /// Collective, in the same order on every rank: what each has said, by its place among them.
  using Word = std::array<std::uint64_t, 2>;
  std::vector<Word> exchange(const Word& mine, Deadline deadline);
  std::span<const int> members() const noexcept { return members_; }
  /// This rank's.
  std::size_t place() const noexcept { return place_; }
  /// Before a rank gives the table up because of what was exchanged, as all do: waits until the
  /// others have read it, or have gone.
  void part(Deadline deadline) noexcept;

  /// The others' contracts, which see no other version once the table is made: they only tell that
  /// the owner lives.
  std::vector<PublishedReader>& others() noexcept { return others_; }

 private:
  /// What is published behind the contract. A rank is never more than one round ahead of another.
  struct Said {
    std::uint64_t round = 0;
    Word now{};
    Word before{};  ///< of the last round
  };
  void publish(Deadline deadline);

  const std::vector<int> members_;
  const std::size_t place_;
  const std::string contract_;
  PublishedSlot mine_;
  Said said_;
  std::vector<Said> heard_;  // by the order of others_
  std::vector<PublishedReader> others_;
};

}  // namespace weft::pslib
