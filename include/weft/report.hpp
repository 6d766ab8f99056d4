// Reports: the paths, slots and memory of a rank, and what its transfers cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/api.hpp"

namespace weft {

/// Counters of transfers, updated where the work is posted.
struct WEFT_API TransferCounters {
  std::uint64_t transfers = 0;         ///< whole tensors put, received, published, viewed or got
  std::uint64_t bytes_moved = 0;       ///< payload moved from one rank to another
  std::uint64_t bytes_copied = 0;      ///< further bytes copied in user space: staging, packing
  std::uint64_t work_requests = 0;     ///< payload operations posted to the fabric
  std::uint64_t credit_writes = 0;     ///< 8-byte words that return credits to a writer
  std::uint64_t control_messages = 0;  ///< attach, growth, detach; none in the steady state
  std::uint64_t registrations = 0;     ///< chunks of memory mapped or registered
  std::uint64_t staged_bytes = 0;   ///< bytes that went through host memory on their way from or to
                                    ///< a GPU at this end
  std::uint64_t device_copies = 0;  ///< copies between host memory and a GPU that this took
  std::uint64_t gpu_flushes = 0;    ///< flushes of a NIC's writes into a GPU's memory

  TransferCounters& operator+=(const TransferCounters& other) noexcept;
  friend TransferCounters operator-(TransferCounters a, const TransferCounters& b) noexcept {
    a.transfers -= b.transfers;
    a.bytes_moved -= b.bytes_moved;
    a.bytes_copied -= b.bytes_copied;
    a.work_requests -= b.work_requests;
    a.credit_writes -= b.credit_writes;
    a.control_messages -= b.control_messages;
    a.registrations -= b.registrations;
    a.staged_bytes -= b.staged_bytes;
    a.device_copies -= b.device_copies;
    a.gpu_flushes -= b.gpu_flushes;
    return a;
  }
};

/// This rank's part at its end of a slot.
enum class Role : std::uint8_t { puts, receives, publishes, views };
/// The role's name, e.g. "puts".
WEFT_API const char* name(Role role) noexcept;

/// One end of one slot, as this rank sees it.
struct EdgeReport {
  int peer = -1;  ///< the latest writer; -1: none yet, or a publisher's slot (many readers)
  std::string slot;
  Role role = Role::puts;
  std::string fabric;  ///< for example "shm"; empty while no rank is attached
  TransferCounters counters;
  /// "direct": tensors are moved from and to where they lie. "staged": some went by way of other
  /// memory of this rank first. "mapped": the writer's GPU copies them into the owner's.
  /// "gpudirect": a NIC reads or writes the memory of this rank's GPU by itself.
  std::string way = "direct";
  std::string reason{};  ///< for that, unless it is "direct"
};

/// Whether a fabric can reach a peer, and why it was chosen or not.
struct FabricVerdict {
  std::string fabric;
  bool usable = false;
  std::string reason;
};

/// A peer's health by its signs of life. A suspect that stays so for WEFT_DEAD_AFTER becomes dead.
enum class PeerHealth : std::uint8_t { alive, slow, suspect, dead };
/// The health's name, e.g. "suspect".
WEFT_API const char* name(PeerHealth health) noexcept;

/// One of the ports by which a path goes: over TCP a connection for data, over RDMA a port of each
/// end.
struct RailReport {
  std::string own;   ///< this rank's address, or its port: "mlx5_0:1"
  std::string peer;  ///< the peer's
  bool up = true;  ///< it is connected; false: it has failed, and is connected again once it works
};

/// The path to one peer, with the reasons for and against each fabric.
struct PathReport {
  int peer = -1;
  std::string host;
  int pid = 0;
  std::string fabric;                   ///< the fabric in use
  std::vector<FabricVerdict> verdicts;  ///< every fabric, the one in use first
  TransferCounters counters;            ///< control messages and registrations of the path itself
  PeerHealth health = PeerHealth::alive;
  std::string condition;  ///< why the peer is slow or suspect: "stopped for 2.5 s"
  /// The first is used first; those that are not connected for the first time yet are left out.
  /// If the peer has left or failed: as they were then. Empty: the path has no ports of its own.
  std::vector<RailReport> rails;
  std::uint64_t rails_lost = 0;  ///< times that a rail failed and the others took its work
  std::uint64_t rails_back = 0;  ///< times that one came back
};

/// One of the rank's arenas. Sizes are bytes.
struct ArenaReport {
  std::string sort;  ///< "control", "data", "published", "private" (staging); "GPU 0" and so on
  std::uint64_t chunks = 0;              ///< chunks of memory, each registered once
  std::uint64_t reserved_bytes = 0;      ///< size of all chunks
  std::uint64_t used_bytes = 0;          ///< allocated now
  std::uint64_t peak_bytes = 0;          ///< largest used_bytes so far
  std::uint64_t quarantined_bytes = 0;   ///< free, but a peer may still write them
  std::uint64_t largest_free_bytes = 0;  ///< less than reserved - used if memory is fragmented
  std::uint64_t allocations = 0;         ///< number of allocations so far
  std::uint64_t huge_page_bytes = 0;     ///< in chunks for which madvise accepted huge pages
};

/// All that World::report() tells of a rank.
struct Report {
  std::vector<PathReport> paths;
  std::vector<EdgeReport> edges;
  std::vector<ArenaReport> arenas;
  std::uint64_t rejected_connections =
      0;  ///< connections that did not come from a rank of this job
};

}  // namespace weft
