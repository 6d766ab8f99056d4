// Connections between ranks of different hosts, for what must be said before a fabric works, and to
// notice when the other end goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/address/shared_networks.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/wireup/congestion.hpp"

namespace weft::p2p {

/// A connection of a fabric's own between two ranks that have met, proven as their first one was.
struct DataConnection {
  os::Fd socket;  ///< non-blocking
  int rail = 0;
  bool was_called = false;  ///< by the other end
  ConnectionKeys keys;
};

/// Events of the connector for its fabric, on the progress thread; never from within a call to the
/// connector. Its handlers may call it.
class ConnectorEvents {
 public:
  virtual ~ConnectorEvents() = default;
  /// Both ends have proved that they know the job's secret and are who they say; once per rank.
  virtual void met(int rank) = 0;
  /// A message of the rank, whole and in order.
  virtual void said(int rank, std::span<const std::byte> message) = 0;
  /// The connection has ended or could not be made; `why` in words. After close(), or after the
  /// other end's, `orderly` is true. Nothing of the rank follows.
  virtual void ended(int rank, bool orderly, const std::string& why) = 0;
  /// As ended() without order, by this end's own verdict: the rank was silent for too long. It is
  /// told so, and may go on: what else connects it to this rank must end at once.
  virtual void silent(int rank, const std::string& why) { ended(rank, false, why); }
  /// A connection for data is there, which this end or the other has called for. Once per rail.
  virtual void brought(int rank, DataConnection connection) {
    (void)rank;
    (void)connection;
  }
  /// No connection for data has come by this network within WEFT_INIT_TIMEOUT, and others have: it
  /// is called no more. `why` in words.
  virtual void unanswered(int rank, int rail, const std::string& why) {
    (void)rank;
    (void)rail;
    (void)why;
  }
  /// Whether anything of the rank has come by connections for data since this was last asked: it
  /// lives, whatever is in the way of its signs of life.
  virtual bool heard_otherwise(int rank) {
    (void)rank;
    return false;
  }
  /// This rank itself lacks what it needs (descriptors).
  virtual void short_of(const Error& error) = 0;
};

/// One TCP connection per peer; of a pair that connect() each other the higher rank calls. Mutual
/// challenge with a keyed MAC over job, ranks, protocol version and nonces, within a deadline and a
/// byte limit; unauthenticated clients get no memory beyond that and one rate-limited line. Once
/// met, each end sends a heartbeat when it has nothing else to say; silence for WEFT_DEAD_AFTER
/// ends the connection. Progress thread only, but for the constructor and listen().
class Connector {
 public:
  static constexpr std::size_t kMaxMessage = 1024;

  /// All but `config` must outlive it. `progress` is the thread that `local` posts to.
  Connector(LocalRank& local, ProgressThread& progress, ConnectorEvents& events,
            const Config& config);
  /// The progress thread must have stopped.
  ~Connector();

  /// Listens, on the interfaces that peers may come by. Returns the address at which the other
  /// ranks' connectors of this kind find this one. Throws Error(system | bad_config).
  ConnectorAddress listen();
  /// From now on ranks of the job are let in; `job` is by rank. All other methods but listen() come
  /// after it. Throws Error(system).
  void open(std::span<const ConnectorAddress> job, const JobSecret& secret);
  /// Calls the rank, or expects its call. Ends in met() or ended(), within WEFT_INIT_TIMEOUT. Not
  /// for this rank itself.
  void connect(int rank);
  /// As connect(), where the other end may not know of it: this rank calls, even if it is the lower
  /// one. Two that call each other meet once.
  void call(int rank);
  /// Facts of the addresses that listen() returned, in their order.
  const NetworkAddresses& networks() const noexcept;
  /// The congestion control that connections are made with.
  const CongestionControl& congestion() const noexcept;
  /// Where that rank listens.
  const ConnectorAddress& address(int rank) const noexcept;
  /// Calls a rank that was met for a connection for data, one more for each rail. Ends in brought()
  /// at both ends, or in ended().
  void call_for_data(int rank, int rail);
  /// The same, once for all rails: one for each of these networks, at the rank's addresses on it.
  /// The first is also called at the rank's addresses on none of them, since none of these networks
  /// may lead there. One that comes suffices: the others may come later, or end in unanswered()
  /// after WEFT_INIT_TIMEOUT.
  void call_for_data_by(int rank, const std::vector<std::vector<IpAddress>>& shared);
  /// As that, for a rail that was lost, at the address that it was at; again and again, with
  /// pauses, until it is back or the rank is gone. Ends in brought() alone.
  void call_again_for_data(int rank, int rail, const IpAddress& ip);
  /// Data goes by several rails: nothing but silence by all of them ends the rank that was met,
  /// even if this connection's network is cut.
  void go_by_rails(int rank);
  /// Queued, never dropped while the connection lives; 1 to kMaxMessage bytes. Without effect
  /// unless the rank is met.
  void send(int rank, std::span<const std::byte> message);
  /// The last message to the rank: what follows is an orderly end. A rank not met yet is given up.
  void close(int rank);
  /// Gives the rank up and tells it why, in case that it lives; no event follows.
  void drop(int rank, const std::string& why);
  bool is_met(int rank) const noexcept;
  /// Where call_for_data() calls first. That rank has an address.
  IpAddress address_for_data(int rank, int rail) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace weft::p2p
