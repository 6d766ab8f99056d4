// Connections that are made when one of the two ends first has something to say.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "p2p/transport/fabric.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/wireup/connector.hpp"

namespace weft::p2p {

/// Which peers of a fabric are connecting or connected. Progress thread only, but for deferred().
class FirstUse {
 public:
  /// All must outlive it. In a job of more than `eager_ranks` ranks (WEFT_MESH_EAGER) ranks connect
  /// on first use.
  FirstUse(LocalRank& local, FabricEvents& events, Connector& connector, int eager_ranks) noexcept
      : local_(local), events_(events), connector_(connector), eager_ranks_(eager_ranks) {}

  void open(std::size_t ranks) { in_use_.resize(ranks); }
  /// Whether ranks connect on first use, not when they join.
  bool deferred() const noexcept { return local_.size > eager_ranks_; }
  bool is_in_use(int rank) const noexcept { return in_use_[static_cast<std::size_t>(rank)]; }
  /// The rank connects when it joins.
  void connect_eagerly(int rank) noexcept { in_use_[static_cast<std::size_t>(rank)] = true; }
  /// Connecting has begun, at either end: says so once.
  void begin(int rank) {
    if (is_in_use(rank)) return;
    connect_eagerly(rank);
    events_.in_use(rank);
  }
  /// This end has something to say: connects to the rank unless that has begun.
  void request(int rank) {
    if (is_in_use(rank)) return;
    begin(rank);
    connector_.call(rank);
  }
  /// Sends the message by the connector, past everything that waits in the channel. False: the rank
  /// has not been met.
  bool send_at_once(int rank, std::span<const std::byte> message) {
    const bool met = connector_.is_met(rank);
    if (met) connector_.send(rank, message);
    return met;
  }
  /// This rank goes: closes the connections in use, except its own and those that `has_ended` says
  /// true for.
  template <typename HasEnded>
  void close_all(const HasEnded& has_ended) {
    for (int rank = 0; rank < static_cast<int>(in_use_.size()); ++rank)
      if (is_in_use(rank) && rank != local_.rank && !has_ended(rank)) connector_.close(rank);
  }

 private:
  LocalRank& local_;
  FabricEvents& events_;
  Connector& connector_;
  const int eager_ranks_;
  std::vector<bool> in_use_;  ///< by rank
};

}  // namespace weft::p2p
