// A fabric is a way of reaching ranks: the interface that each implements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "p2p/transport/address/rank_address.hpp"
#include "p2p/transport/capabilities.hpp"
#include "p2p/transport/channel.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// Resources of this rank that one connected peer takes.
struct PeerCost {
  std::uint64_t registered_bytes = 0;  ///< of memory that is registered with a NIC for it alone
  std::uint64_t queue_bytes = 0;       ///< of a NIC's queues; an estimate, drivers differ
  std::uint32_t completions = 0;       ///< entries of completion queues set aside for it
};

/// Events of a fabric for the mesh, on the progress thread (LocalRank::progress): from open() on,
/// also from within connect() and fence(). Those of one rank come in this order: connected() or
/// reachable(), its messages, lost(). lost() may come alone.
class FabricEvents {
 public:
  virtual ~FabricEvents() = default;
  /// The path to a rank is up; once per rank. The fabric may refer to the channel as long as it
  /// lives itself.
  virtual void connected(int rank, std::unique_ptr<Channel> channel) = 0;
  /// In place of connected(): the path is made when it is first used, by either end. Until
  /// in_use() its channel only keeps what is to be sent.
  virtual void reachable(int rank, std::unique_ptr<Channel> channel) = 0;
  /// A path that was said to be reachable is being made, or has been.
  virtual void in_use(int rank) = 0;
  /// A control message that `rank` sent by its channel.
  virtual void message(int rank, std::span<const std::byte> bytes) = 0;
  /// The rank is dead, or its path lost for good. Its earlier messages were delivered; from now
  /// on nothing of it reaches this rank's memory. No effect for a rank that has left in order: its
  /// last message has told the mesh.
  /// `why`: ok, it is its process that ended; otherwise peer_failed, path_failed, or system for a
  /// defect.
  virtual void lost(int rank, const Status& why = {}) = 0;
  /// The path does not work any more, but the rank may still write: unless it has left in order, it
  /// is dying or to be fenced.
  virtual void broken(int rank) = 0;
  /// This rank itself lacks what it needs to connect (descriptors, memory).
  virtual void short_of(const Error& error) = 0;
};

/// Whether two ranks can meet by a fabric.
struct Reach {
  bool possible = false;
  std::string reason;  ///< either way
};

/// One way of reaching ranks. Order of use: listen() for this rank's address, open() with
/// everybody's, connect() for each rank that is reached by this fabric. Every rank has listened
/// before any rank opens. A rank that opens first may connect to one that has not opened yet. The
/// mesh owns its channels, which go before it. Progress has stopped when it goes; its peers must
/// then get lost() unless this rank has left in order.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual FabricKind kind() const noexcept = 0;

  /// Whether two ranks can meet by this fabric, with the reason either way.
  virtual Reach reaches(const RankAddress& own, const RankAddress& peer) const = 0;
  /// Gets ready to be connected to and adds to the rank's address what others need for it. Throws
  /// Error(system).
  virtual void listen(RankAddress& own) = 0;
  /// Progress thread: from now on ranks of the job are let in. `job` is by rank.
  virtual void open(const std::vector<RankAddress>& job) = 0;
  /// Progress thread: connects to a rank, this one included, and watches over it. Both ranks of a
  /// path call this: one may begin, and the other expect it. Ends in connected(), reachable(),
  /// lost() or short_of(), perhaps at once.
  virtual void connect(int rank) = 0;
  /// Progress thread: the rank was declared dead. Makes sure that no byte of it arrives any more,
  /// and says lost() once that is so. False when that can't be done.
  virtual bool fence(int rank) = 0;
  /// Whether this host has the devices that the fabric needs; asked after listen().
  virtual bool is_equipped() const noexcept { return true; }
  /// Once a rank is connected.
  virtual PeerCost peer_cost() const noexcept { return {}; }
  /// The rank goes, and progress has stopped: returns once what its channels sent has arrived, or
  /// soon.
  virtual void drain() noexcept {}
};

class LocalRank;
/// The fabrics of a rank, the best first. They refer to both arguments as long as they live: the
/// rank's settings, memory, doorbell and progress (local_rank.hpp), and the mesh.
using MakeFabrics = std::function<std::vector<std::unique_ptr<Fabric>>(LocalRank&, FabricEvents&)>;

}  // namespace weft::p2p
