// All rendezvous of this rank.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/rendezvous/rendezvous_state.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p {

class RendezvousTable {
 public:
  RendezvousTable(LocalRank& local, Mesh& mesh, SlotTable& slots)
      : local_(local), mesh_(mesh), slots_(slots) {}

  // Application threads.
  std::shared_ptr<detail::RendezvousState> open(const RendezvousSpec& spec, std::string_view suffix,
                                                std::span<const int> members, Deadline deadline);
  void close(detail::RendezvousState& state) noexcept;
  /// Call before this rank announces its leave.
  void stop() noexcept;
  void report(std::vector<EdgeReport>& edges) const;

  // Progress thread.
  void on_message(Peer& peer, std::span<const std::byte> bytes);
  /// True if the doorbell must be armed: a peer may ask while no application thread answers.
  bool wants_bell() const noexcept;
  void serve() noexcept;

 private:
  std::vector<std::shared_ptr<detail::RendezvousState>> all() const;
  void serve_all();

  LocalRank& local_;
  Mesh& mesh_;
  SlotTable& slots_;
  std::atomic<int> count_{0};
  mutable std::mutex mutex_;  ///< guards the lists; nothing else is done while it is held
  std::vector<std::shared_ptr<detail::RendezvousState>> open_;
  std::vector<std::shared_ptr<detail::RendezvousState>> closing_;
};

}  // namespace weft::p2p
