// How the shards of a table learn norms that go over all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/optimizer/exact_sum.hpp"
#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Each shard publishes its sums and adds everybody's, in any order: they are exact. Has no peers
/// where no norms are needed or there is one shard alone. Thread-safety: one thread at a time.
class NormExchange {
 public:
  /// Throws Error as World::expose does.
  NormExchange(World& world, const Description& table, std::size_t sums);
  void attach(World& world, const Description& table, std::span<const int> needs,
              Deadline deadline);

  std::size_t peers() const noexcept { return peers_.size(); }
  PublishedReader& slot(std::size_t peer) noexcept { return peers_[peer].slot; }

  /// Publishes this shard's sums, and adds to them the peers' that have come before.
  Status tell(std::span<ExactSum> sums, Deadline deadline) noexcept;
  /// Waits for a peer's sums of this round, once. They may come before this shard's own are told:
  /// then they are kept, else added.
  Status take(std::size_t peer, std::span<ExactSum> sums, Deadline deadline) noexcept;
  /// Whether all peers' sums of this round are in.
  bool complete() const noexcept { return taken_ == peers_.size(); }
  /// Ends the round.
  void end_round() noexcept;
  bool has(std::size_t peer) const noexcept { return peers_[peer].is_in; }

 private:
  struct Peer {
    PublishedReader slot;
    bool is_in = false;
    std::vector<ExactSum> sums{};  ///< of this round
  };

  std::size_t sums_ = 0;
  PublishedSlot mine_;
  std::vector<Peer> peers_;
  std::size_t taken_ = 0;
  bool is_told_ = false;
};

}  // namespace weft::pslib
