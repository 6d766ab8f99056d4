// Computes norms over all shards of a table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/optimizer/exact_sum.hpp"
#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Each shard publishes its sums and adds all others, in any order: the sums are exact. Has no
/// peers if no norms are needed or there is only one shard. Not thread-safe.
class NormExchange {
 public:
  /// Throws Error as World::expose does.
  NormExchange(World& world, const Description& table, std::size_t sums);
  void attach(World& world, const Description& table, std::span<const int> needs,
              Deadline deadline);

  std::size_t peers() const noexcept { return peers_.size(); }
  PublishedReader& slot(std::size_t peer) noexcept { return peers_[peer].slot; }

  /// Publishes this shard's sums, then adds the peers' sums that have arrived.
  Status tell(std::span<ExactSum> sums, Deadline deadline) noexcept;
  /// Waits for one peer's sums of this round. Call once per peer and round. Before tell() the sums
  /// are kept; after it they are added to `sums`.
  Status take(std::size_t peer, std::span<ExactSum> sums, Deadline deadline) noexcept;
  /// True if all peers' sums of this round are in.
  bool complete() const noexcept { return taken_ == peers_.size(); }
  /// Prepares for the next round.
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
