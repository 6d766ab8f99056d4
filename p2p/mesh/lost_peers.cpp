// Peers whose process or connection has ended, or that are declared dead.
#include <utility>

#include "base/fail.hpp"
#include "p2p/mesh/mesh.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {

void Mesh::lost(int rank, const Status& why) {
  Peer& peer = this->peer(rank);
  if (!peer.gone()) peer.disconnect_status = why;
  if (why.ok()) peer.ended = true;
  if (peer.state.load() != PeerState::left) quarantine(rank, false);
  peer.silent.store(true);  // before the state, so that a thread that sees it gone sees it silent
  end(peer, peer.exits && peer.ended ? PeerState::left : PeerState::failed,
      peer.ended ? peer.end_cause : Cause{});
  release(peer);
}

/// Before the rank's memory is given to others, which `silent` allows.
void Mesh::quarantine(int rank, bool has_left) noexcept {
  const auto end = has_left ? cuda::RankEnd::left : cuda::RankEnd::died;
  if (local_.gpus != nullptr && local_.gpus->quarantine.begin(rank, end))
    local_.control->seal();  // words that streams write
}

void Mesh::broken(int rank) {
  Peer& peer = this->peer(rank);
  if (peer.gone() || peer.fabric == nullptr) return;
  // A peer that gave up joining knows none of this rank's memory but the doorbell: there is nothing
  // to fence.
  if (peer.state.load() == PeerState::joining) return lost(rank, {});
  if (!peer.fabric->fence(rank)) fail_and_fence(peer, "its connection broke");
}

void Mesh::declare_dead(int rank, std::string why) {
  check_ranks(std::span(&rank, 1), "declare_dead");
  if (rank == local_.rank)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "declare_dead",
                            .message = "a rank can't declare itself dead",
                            .hint = "leave the job instead"});
  local_.progress.post([this, rank, why = std::move(why)] { fail_and_fence(peer(rank), why); });
}

void Mesh::fail_and_fence(Peer& peer, std::string why) {
  if (peer.gone()) return;
  peer.declared_dead = std::move(why);
  end(peer, PeerState::failed);
  if (peer.fabric == nullptr || peer.fabric->fence(peer.rank)) return;
  peer.unfenced = true;
  if (local_.liveness != nullptr) local_.liveness->peer_status_known(peer.rank);
}

void Mesh::fail(int rank, const Status& why) {
  Peer& failed = peer(rank);
  if (failed.gone()) return;
  failed.disconnect_status = why;
  end(failed, PeerState::failed);
}

void Mesh::exclude(const Status& why) {
  excluded_ = true;
  // One line for the whole event: the rank that told of it may have had its own.
  const int teller = why.detail().peer;
  if (teller < 0 || !peer(teller).gone()) local_.log->error(Subsystem::path, "{}", why.text());
  for (const auto& peer : peers_)
    if (peer->rank != local_.rank) fail(peer->rank, why);
}

void Mesh::release(Peer& peer) {
  if (std::exchange(peer.released, true)) return;
  on_gone_(peer);
  if (local_.liveness != nullptr) local_.liveness->peer_status_known(peer.rank);
  local_.ring();
}

}  // namespace weft::p2p
