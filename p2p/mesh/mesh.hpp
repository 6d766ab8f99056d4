// Everybody this rank is connected to, and who of them still lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "p2p/address.hpp"
#include "p2p/local_rank.hpp"
#include "p2p/peer.hpp"
#include "p2p/slot/messages.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/report.hpp"

namespace weft::p2p {

/// The all-to-all mesh. Order of use: address() for the bootstrap fence, connect() with
/// everybody's, then messages and fates until leave().
class Mesh {
 public:
  using OnMessage = std::function<void(Peer&, Link&, std::span<const std::byte>)>;
  using OnGone = std::function<void(Peer&)>;

  /// `on_message` gets what is not the mesh's own business, `on_gone` every peer that has left or
  /// failed; both on the progress thread.
  Mesh(LocalRank& local, OnMessage on_message, OnGone on_gone);
  /// The progress thread must have stopped.
  ~Mesh();

  /// Binds the socket on which other ranks will connect.
  RankAddress address();
  /// Connects to every rank; returns when all pairs of this rank are up. Throws Error: unreachable
  /// (which ranks, and why), peer_failed, timeout (naming the missing ranks), bootstrap.
  void connect(std::vector<RankAddress> addresses, Deadline deadline);
  /// Tells every peer that this rank leaves.
  void announce_leave();
  /// Waits until every peer is gone; timeout names who is not.
  Status wait_until_alone(Deadline deadline) noexcept;

  Peer& peer(int rank) noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  /// How many peers have left or failed: zero lets a wait skip asking for each.
  std::uint32_t gone_count() const noexcept { return gone_.load(std::memory_order_acquire); }
  /// Throws Error(bad_argument) for a rank that the job does not have.
  void check_ranks(std::span<const int> ranks, const char* operation) const;
  /// ok for a rank that lives; peer_failed or peer_left otherwise. A rank that left because another
  /// had failed is reported as that other's failure.
  Status fate(int rank) const noexcept;
  /// The first of `ranks` that has failed, else the first that has left, else ok.
  Status fate(std::span<const int> ranks) const noexcept;

  /// Progress thread: a message on the peer's own link, or as an answer on the link it came by.
  template <typename Message>
  void send(Peer& peer, const Message& message) {
    if (peer.gone() || peer.links.empty()) return;
    peer.control_messages.fetch_add(1, std::memory_order_relaxed);
    peer.links.front()->send(message);
  }
  template <typename Message>
  void answer(Peer& peer, Link& link, const Message& message) {
    peer.control_messages.fetch_add(1, std::memory_order_relaxed);
    link.send(message);
  }
  /// Progress thread: makes the peer map a chunk of this rank, if it does not yet, before the next
  /// message on that link that refers to it.
  void send_chunk(Peer& peer, Link& link, std::uint32_t chunk);

  std::vector<PathReport> paths() const;

 private:
  void accept_pending();
  void connect_to(Peer& peer);
  void send_hello(Link& link, const Peer& peer, MessageType type);
  void on_message(Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors);
  /// Why a hello or welcome is not to be believed, or an empty string.
  std::string distrust(const HelloMessage& hello, const Link& link, std::size_t descriptors) const;
  void greet(Peer& peer, const HelloMessage& hello, std::vector<os::Fd> descriptors);
  void watch_process(Peer& peer);
  void end(Peer& peer, PeerState state, int because_of);
  void drop_stranger(Link& link);
  void fail_join(const Error& error);
  std::array<std::byte, 32> mac(int from, int to) const;

  LocalRank& local_;
  OnMessage on_message_;
  OnGone on_gone_;
  RankAddress own_;
  os::Fd listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Link>> strangers_;  ///< accepted, not yet introduced
  std::atomic<std::uint32_t> gone_{0};
  std::atomic<int> first_failed_{-1};
  std::atomic<bool> join_failed_{false};
  Status join_error_;  ///< this rank's own shortage; set before join_failed_
};

}  // namespace weft::p2p
