// What transfers cost, and which way they went: the numbers that weft shows its users.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/api.hpp"

namespace weft {

/// Counted where the work is posted, never by the caller.
struct WEFT_API TransferCounters {
  std::uint64_t transfers = 0;         ///< whole tensors put, received, published, viewed or got
  std::uint64_t bytes_moved = 0;       ///< payload that crossed from one rank to the other
  std::uint64_t bytes_copied = 0;      ///< bytes copied in user space besides: staging, packing
  std::uint64_t work_requests = 0;     ///< payload operations posted to the fabric
  std::uint64_t credit_writes = 0;     ///< 8-byte words that tell the writer what was let go
  std::uint64_t control_messages = 0;  ///< attach, growth, detach: never in the steady state
  std::uint64_t registrations = 0;     ///< memory made reachable: mapped or registered

  TransferCounters& operator+=(const TransferCounters& other) noexcept;
  friend TransferCounters operator-(TransferCounters a, const TransferCounters& b) noexcept {
    a.transfers -= b.transfers;
    a.bytes_moved -= b.bytes_moved;
    a.bytes_copied -= b.bytes_copied;
    a.work_requests -= b.work_requests;
    a.credit_writes -= b.credit_writes;
    a.control_messages -= b.control_messages;
    a.registrations -= b.registrations;
    return a;
  }
};

enum class Role : std::uint8_t { puts, receives, publishes, views };
WEFT_API const char* name(Role role) noexcept;

/// One end of one slot, as this rank sees it.
struct EdgeReport {
  int peer = -1;  ///< the (last) writer; -1: none yet; publishers report -1 (readers are many)
  std::string slot;
  Role role = Role::puts;
  std::string fabric;  ///< "shm"; empty while nobody is attached
  TransferCounters counters;
};

/// Why a fabric was, or was not, taken for a peer.
struct FabricVerdict {
  std::string fabric;
  bool usable = false;
  std::string reason;
};

/// What signs of life a peer gives. A suspect is dead once it has been so for WEFT_DEAD_AFTER.
enum class PeerHealth : std::uint8_t { alive, slow, suspect, dead };
WEFT_API const char* name(PeerHealth health) noexcept;

/// The path to one peer, with the reason for it and against the others.
struct PathReport {
  int peer = -1;
  std::string host;
  int pid = 0;
  std::string fabric;                   ///< the one in use
  std::vector<FabricVerdict> verdicts;  ///< every fabric, the chosen one first
  TransferCounters counters;            ///< control messages and registrations of the path itself
  PeerHealth health = PeerHealth::alive;
  std::string condition;  ///< why it is slow or suspect: "stopped for 2.5 s"
};

/// What the rank's arenas hold.
struct ArenaReport {
  std::string sort;  ///< "control", "data", "private"
  std::uint64_t chunks = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t quarantined_bytes = 0;   ///< closed slots whose writer has not agreed yet
  std::uint64_t largest_free_bytes = 0;  ///< against reserved - used: the fragmentation
  std::uint64_t allocations = 0;         ///< made so far
  std::uint64_t huge_page_bytes = 0;     ///< asked for as huge pages and granted the advice
};

struct Report {
  std::vector<PathReport> paths;
  std::vector<EdgeReport> edges;
  std::vector<ArenaReport> arenas;
  std::uint64_t rejected_connections = 0;  ///< connections that proved to be no rank's of this job
};

}  // namespace weft
