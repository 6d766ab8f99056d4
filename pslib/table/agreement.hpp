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

/// A word of each rank, of which all learn the least and the greatest.
using AgreementWord = std::array<std::uint64_t, 2>;

/// The least and the greatest word of several ranks, each with the first place that has it.
/// Trivially copyable: it lies in a slot.
struct AgreementRange {
  AgreementWord least{};
  AgreementWord most{};
  std::uint64_t least_place = 0;
  std::uint64_t most_place = 0;

  void merge(const AgreementRange& other) noexcept;
};

/// Each rank publishes its contract and a digest of all contracts that it knows of. By
/// dissemination it reads those of log2 N other members (rounded up) only: in round k, member n
/// reads that of member n - 2^k, which has then merged 2^k of them. A contract itself is read only
/// if the digests differ. Lives as long as the table: a rank that only serves watches other servers
/// through it. Not thread-safe.
class Agreement {
 public:
  using Word = AgreementWord;
  using Range = AgreementRange;

  /// Collective over `members`, in ascending order and including this rank. `watched`: members
  /// whose end this rank wants to know of, through watched(). Throws Error(mismatch) on every rank,
  /// with the first line that differs as both ranks have it, and what expose and attach throw.
  Agreement(World& world, std::span<const int> members, const std::string& name,
            const std::string& contract, Deadline deadline, std::span<const int> watched = {});

  /// Collective, in the same order on every rank: returns the range of the members' words.
  Range exchange(const Word& mine, Deadline deadline);
  std::span<const int> members() const noexcept { return members_; }
  /// This rank's index in members().
  std::size_t place() const noexcept { return place_; }
  /// Waits until the others have read this rank's word, or have gone. Call before this rank gives
  /// up the table because of an exchanged word, as every rank does.
  void part(Deadline deadline) noexcept;

  /// The contracts of the watched members, except this rank. No new version appears once the table
  /// is created, so they only tell that their owner lives.
  std::vector<PublishedReader>& watched() noexcept { return watched_; }

 private:
  /// Published in front of the contract. A member is at most one exchange ahead of another: it
  /// needs a word of each.
  struct Said {
    std::uint64_t exchange = 0;
    std::uint64_t rounds = 0;  ///< of this exchange
    Range now{};               ///< of the members merged so far
    Range before{};            ///< of all members, in the exchange before
  };
  struct Heard {
    PublishedReader reader;
    Said said{};
  };
  void publish(Deadline deadline);
  static void read(Heard& from, Deadline deadline);
  [[noreturn]] void differ(World& world, int peer, const std::string& name, Deadline deadline);

  const std::vector<int> members_;
  const std::size_t place_;
  const std::string contract_;
  PublishedSlot mine_;
  Said said_;
  std::vector<Heard> heard_;  ///< by round
  std::vector<PublishedReader> watched_;
};

}  // namespace weft::pslib
