// Where other ranks' connections come in, and what becomes of those that are no rank's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "p2p/progress/watched_fd.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/auth/exact_read.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/auth/pending_connections.hpp"
#include "p2p/transport/auth/rejected_connections.hpp"
#include "p2p/transport/wireup/congestion.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// Listens at the addresses that are announced and at no others. A connection is an unauthenticated
/// client until it has proved which rank it is: a fixed record, a deadline, and a place among the
/// PendingConnections, which it loses where too many others come. Such clients are never the
/// reason to accept no rank. Progress thread only, but for the constructor and listen().
class Acceptor {
 public:
  /// Unauthenticated clients that have sent no handshake that may be a rank's; likewise, besides
  /// one for each rank, those that have.
  static constexpr std::size_t kMaxPendingConnections = 256;

  struct Events {
    /// The socket of a proven rank, with the handshakes of both ends; an empty string takes it in,
    /// else it is why not.
    std::function<std::string(const Handshake& client, const Handshake& own, os::Fd& socket)> came;
    /// This rank lacks descriptors or memory, and unauthenticated clients are not the reason. Those
    /// who call wait until it has some.
    std::function<void(const Error&)> short_of;
    /// tick() is needed from now on.
    std::function<void()> wants_ticks;
  };

  /// Arguments by reference must outlive it.
  Acceptor(ProgressThread& progress, Log& log, RejectedConnections& rejected_connections,
           std::chrono::nanoseconds patience, Events events, CongestionControl congestion = {});

  /// One socket per place, all with the port that is returned: `port`, or one that is free. Throws
  /// Error(system).
  std::uint16_t listen(const std::vector<IpAddress>& ips, std::uint16_t port = 0);
  /// From now on who calls is let in.
  void open(const Identity& identity);
  /// Sends those away who take too long. Returns whether it is needed again.
  bool tick();

 private:
  struct PendingConnection {
    Watched socket;
    IpAddress from{};
    Handshake handshake;
    Answer answer;
    bool speaks_ours = false;  ///< this version of the protocol
    bool answered = false;
    ExactRead in;
  };

  using Id = PendingConnections::Id;

  bool try_listen(const std::vector<IpAddress>& ips, std::uint16_t wanted);
  void admit(int listener);
  bool make_room(int error);
  void take_in(os::Fd socket, const IpAddress& from);
  void keep_within_limits(int newest);
  void on_bytes(Id id);
  void on_protocol(Id id, PendingConnection& pending);
  void on_handshake(Id id, PendingConnection& pending);
  void on_proof(Id id, PendingConnection& pending);
  void reject(Id id, const std::string& reason);
  /// `is_scarce`: this process lacks descriptors, so that the connection may well be a rank's.
  void crowd_out(Id id, bool is_scarce);
  void release(Id id);
  void pause();
  void resume();

  ProgressThread& progress_;
  Log& log_;
  RejectedConnections& rejected_connections_;
  const CongestionControl congestion_;
  const std::chrono::nanoseconds patience_;  ///< how long an unauthenticated client may take
  const Events events_;
  Identity identity_;
  std::uint16_t port_ = 0;
  std::vector<os::Fd> unopened_;
  std::vector<Watched> listeners_;
  PendingConnections pending_;
  std::map<Id, PendingConnection> pending_connections_;  ///< those in pending_
  bool paused_ = false;                                  ///< this process lacks descriptors
  Clock::time_point resume_at_;
};

}  // namespace weft::p2p
