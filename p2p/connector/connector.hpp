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
#include "p2p/address.hpp"
#include "p2p/local_rank.hpp"
#include "p2p/progress/progress_thread.hpp"

namespace weft::p2p {

/// What the connector tells its fabric, on the progress thread; never from within a call to the
/// connector. Its handlers may call it.
class ConnectorEvents {
 public:
  virtual ~ConnectorEvents() = default;
  /// Both ends have proved that they know the job's secret and are who they say; once per rank.
  virtual void met(int rank) = 0;
  /// A message of the rank, whole and in order.
  virtual void said(int rank, std::span<const std::byte> message) = 0;
  /// The connection has ended or could not be made; `why` in words. After goodbye(), or after the
  /// other end's, `orderly` is true. Nothing of the rank follows.
  virtual void ended(int rank, bool orderly, const std::string& why) = 0;
  /// This rank itself lacks what it needs (descriptors).
  virtual void short_of(const Error& error) = 0;
};

/// One TCP connection per peer; of a pair that connect() each other the higher rank calls. Mutual
/// challenge with a keyed MAC over job, ranks, protocol version and nonces, within a deadline and a
/// byte limit; strangers get no memory beyond that and one rate-limited line. Once met, each end
/// sends a heartbeat when it has nothing else to say; silence for WEFT_DEAD_AFTER ends the
/// connection. Progress thread only, but for the constructor and listen().
class Connector {
 public:
  static constexpr std::size_t kMaxMessage = 1024;

  /// All but `config` must outlive it. `progress` is the thread that `local` posts to.
  Connector(LocalRank& local, ProgressThread& progress, ConnectorEvents& events,
            const Config& config);
  /// The progress thread must have stopped.
  ~Connector();

  /// Listens, on the interfaces that peers may come by, and adds where to the rank's address.
  /// Throws Error(system | bad_config).
  void listen(RankAddress& own);
  /// From now on ranks of the job are let in. All others of this class but listen() come after it.
  /// Throws Error(system).
  void open(const std::vector<RankAddress>& job);
  /// Calls the rank, or expects its call. Ends in met() or ended(), within WEFT_INIT_TIMEOUT. Not
  /// for this rank itself.
  void connect(int rank);
  /// As connect(), where the other end may not know of it: this rank calls, even if it is the lower
  /// one. Two that call each other meet once.
  void call(int rank);
  /// Queued, never dropped while the connection lives; 1 to kMaxMessage bytes. Without effect
  /// unless the rank is met.
  void send(int rank, std::span<const std::byte> message);
  /// The last message to the rank: what follows is an orderly end. A rank not met yet is given up.
  void goodbye(int rank);
  /// Ends the connection at once; no event follows.
  void drop(int rank) noexcept;
  bool is_met(int rank) const noexcept;
  /// How many connections proved to be no rank's, or took too long to say.
  std::uint64_t turned_away() const noexcept;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace weft::p2p
