// The status of a job, derived from the stats segments on this host.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tool/status/find_jobs.hpp"
#include "runtime/tool/status/wait_graph.hpp"

namespace weft::tool {

enum class RankState : std::uint8_t { joining, alive, slow, suspect, dead, left, unknown };
std::string_view name(RankState state) noexcept;

/// The source of a rank's status.
enum class SeenBy : std::uint8_t {
  itself,  ///< the rank's own stats segment
  keeper,  ///< the rank's own stats segment, kept by a peer: the rank is dead
  peers    ///< the paths of this host's ranks to the rank
};
std::string_view name(SeenBy seen) noexcept;

struct Progress {
  std::uint64_t completed = 0;
  std::uint64_t started = 0;
};
inline constexpr std::size_t kRoles = stats::kRoles;  ///< of weft::Role, and calls of groups

struct EdgeStatus {
  std::string slot;
  Role role = Role::puts;
  int peer = -1;
  Progress progress;
};

struct WaitStatus {
  stats::Operation operation = stats::Operation::none;
  int peer = -1;
  std::string slot{};
  std::uint64_t sequence = 0;
  double seconds = 0;              ///< duration so far
  std::vector<int> peers{};        ///< all ranks that it waits for, as far as they are known
  bool is_one_of_several = false;  ///< one of `peers` suffices
  std::string text{};              ///< the call, or what is awaited
  std::string within{};            ///< the table's call that waits; empty: none
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;  ///< of a message
  std::uint64_t mask = 0;
  // If the operation is a step:
  int executor = 0;  ///< number of the executor's entry; 0: none
  int more = 0;      ///< further edges, ranks or slots that it waits for
};

/// An operation that has failed, and whose outcome the application has not looked at.
struct FailureStatus {
  stats::Operation operation = stats::Operation::none;
  int peer = -1;
  std::string code;
  std::string slot;
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  double seconds = 0;  ///< since the first
  std::string text;
};

/// An executor of a graph.
struct ExecutorStatus {
  int number = 0;  ///< of its entry
  std::string name;
  std::uint64_t begun = 0;  ///< steps
  std::uint64_t ended = 0;
  bool failed = false;
};

/// Rails of one path that failed, and that came back. Only where any has failed.
struct RailsStatus {
  int peer = -1;
  std::uint64_t lost = 0;
  std::uint64_t back = 0;
};

/// A rank's part in a table of a parameter server.
struct TableStatus {
  std::string server;
  std::string table;
  bool is_sparse = false;
  bool works = false;
  bool serves = false;
  // As a worker.
  std::uint64_t pushes = 0;
  std::uint64_t pulls = 0;
  std::uint64_t bytes_pushed = 0;
  std::uint64_t bytes_pulled = 0;
  double waited = 0;  ///< seconds
  std::uint64_t version = 0;
  std::uint64_t bytes_spared = 0;  ///< by compression; 0 without compression
  double compressing = 0;          ///< seconds
  double residual_norm = 0;
  std::uint64_t staged_bytes = 0;  ///< between host memory and a GPU; 0 in host memory
  std::uint64_t device_copies = 0;
  // Its shard.
  std::uint64_t shard_version = 0;
  std::uint64_t requests = 0;
  std::uint64_t queue = 0;
  double load = 0;  ///< fraction of its lifetime that the shard was busy
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t memory = 0;
  std::uint64_t rows = 0;
  std::vector<std::uint64_t> staleness;  ///< histogram, up to the last entry that is not 0
};

struct RankStatus {
  int rank = -1;
  RankState state = RankState::unknown;
  SeenBy seen = SeenBy::peers;
  std::string condition;  ///< why it is slow or suspect
  std::string host;
  int pid = 0;
  std::array<Progress, kRoles> progress{};  ///< by Role
  std::vector<EdgeStatus> edges;
  std::vector<WaitStatus> waits;           ///< the longest wait first
  std::vector<FailureStatus> failures;     ///< the oldest first
  std::uint64_t rejected_connections = 0;  ///< connections of unauthenticated clients
  std::vector<TableStatus> tables;
  std::vector<ExecutorStatus> executors;
  std::vector<RailsStatus> rails;
};

struct JobStatus {
  std::string id;
  uid_t user = 0;
  int size = 0;
  std::vector<RankStatus> ranks;
  HeldUp held_up;
};

/// Waits shorter than `least_seconds` are part of any loop and do not count as holding a rank up.
JobStatus status_of(const FoundJob& job, double least_seconds);

}  // namespace weft::tool
