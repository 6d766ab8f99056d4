// The parameter server: a model's parameters, spread over server shards, updated by workers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/api.hpp"
#include "weft/checkpoint.hpp"
#include "weft/compression.hpp"
#include "weft/consistency.hpp"
#include "weft/device.hpp"
#include "weft/group.hpp"
#include "weft/optimizer.hpp"
#include "weft/publication.hpp"
#include "weft/sparse_table.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// The parameters that a pull returned.
struct Pulled {
  std::uint64_t version = 0;      ///< the smallest version of all shards
  std::vector<int> contributors;  ///< ranks whose gradients made that version, in rank order
};

/// Counters of a shard for the gradients it received. With bsp all are applied.
struct TableStatistics {
  static constexpr std::size_t kMostStaleness = 63;
  std::uint64_t applied = 0;  ///< gradients used in the update of their step
  std::uint64_t folded = 0;   ///< late gradients used in a later update
  std::uint64_t dropped = 0;  ///< late gradients not used
  std::uint64_t skipped = 0;  ///< updates not made because their norm was not finite
  /// Histogram: element i counts gradients computed from values that were i versions old; the last
  /// element also counts all older ones.
  std::array<std::uint64_t, kMostStaleness + 1> staleness{};
};

/// How a table is updated. An Optimizer converts to TableOptions with defaults for the rest.
struct TableOptions {
  Optimizer optimizer{};
  Schedule schedule{};
  /// If > 0: scale a mean gradient down to this norm, taken over the whole table, if its norm is
  /// larger. An update whose norm is not finite (an element is infinite or NaN) is skipped: the
  /// version counts on, but parameters, rule states and the number of updates stay;
  /// TableStatistics::skipped counts it. This holds for every rule and consistency, and for lars,
  /// which needs norms, even without clip_norm. Updates that need no norm are not checked: an
  /// element that is not finite spoils its own parameter and states only.
  float clip_norm = 0.0F;
  /// Apply the update rule once every `accumulate` updates, to the mean of all gradients that these
  /// took. With bsp Table::version() counts the updates; with the other kinds it counts
  /// applications of the rule, of which `accumulate` updates make one.
  std::uint32_t accumulate = 1;
  /// Type of gradients and parameters at the workers: f32, f16 or bf16. The shards' master values
  /// and states are always f32; parameters are rounded from them once, to nearest even.
  DType wire = DType::f32;
  Compression compression{};
  Consistency consistency{};
  CheckpointOptions checkpoint{};
  /// Where this worker's parameters and gradients lie: in host memory, or on a GPU, Memory::gpu()
  /// being the rank's own. Each worker's own affair, which the ranks don't compare. The shards lie
  /// in host memory. A rank that only serves leaves it out.
  Memory memory{};

  TableOptions(Optimizer rule = {}) : optimizer(std::move(rule)) {}
};

/// Which ranks work and which serve. If no option says so, WEFT_PS_SERVERS decides; by default
/// every rank does both, as in the paper, where each process is a worker and a shard.
struct Options {
  std::vector<int> workers{};  ///< ranks of the world; empty: every rank
  std::vector<int> servers{};  ///< ranks of the world; empty: every rank
  /// If > 0, the highest `dedicated_servers` ranks only serve and the others only work. Excludes
  /// `workers` and `servers`.
  int dedicated_servers = 0;
  /// On every host with several ranks the highest only serves; all other ranks work. Excludes
  /// `workers`, `servers` and `dedicated_servers`.
  bool one_server_per_host = false;
  /// Servers that hold each shard, on different hosts if there are several. With r replicas, up to
  /// r - 1 simultaneous deaths lose no acknowledged push. If > 1, the servers only serve, and
  /// parameters are pulled, not viewed. 0: WEFT_PS_REPLICAS, by default 1.
  int replicas = 0;
  /// Tensors of at least `split_bytes` bytes are split evenly over the shards; each smaller one
  /// lies whole on the shard that holds the fewest bytes.
  std::size_t split_bytes = 64 << 10;
  /// A folder in which every rank keeps one file per table, "<server>.<table>.<rank>.prom", in
  /// Prometheus' text format, for a collector that reads such a folder. The thread that uses the
  /// table replaces the file atomically, at most once per second; the file stays when the job ends.
  /// Empty: no files.
  std::string metrics_folder{};
};

/// One named tensor of a table, in the table's wire type.
struct TensorSpec {
  std::string name;
  Shape shape;
};

/// A run of a tensor's elements on one shard.
struct ShardPiece {
  std::size_t tensor = 0;         ///< index into the table's specs
  int server = 0;                 ///< rank of the shard
  std::int64_t first = 0;         ///< index of the first element, row-major
  std::int64_t count = 0;         ///< number of elements
  std::int64_t shard_offset = 0;  ///< offset in the shard's region, in elements
};

/// Computes the shard map: a pure function of (specs, servers, split_bytes), the same on every
/// rank.
WEFT_API std::vector<ShardPiece> make_shard_map(std::span<const TensorSpec> specs,
                                                std::span<const int> servers,
                                                std::size_t split_bytes);

namespace detail {
class TableState;
class ServerState;
}  // namespace detail

/// Parameters viewed in place on their shard, without a copy; or, where the shard's memory can't be
/// loaded from, in the rank's own memory. Valid until this worker's next push, and as long as the
/// table.
class ParameterView {
 public:
  /// The parameters; empty unless the table's wire type is f32.
  std::span<const float> values() const noexcept { return values_; }
  /// The parameters as bytes, in the wire type.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  friend class detail::TableState;
  std::span<const float> values_;
  std::span<const std::byte> bytes_;
};

/// A table of dense parameters. Under bsp, step n's parameters are computed from every worker's
/// gradient of step n, averaged over the workers in rank order, so two runs with the same ranks
/// have equal bits. No worker sees step n + 1 before all have pushed it.
///
/// A shard works inside initialize, pull, push_pull and wait_updated of its own rank, or in
/// ParameterServer::serve(). With several tables, ranks that both work and serve must use them in
/// the same order, since each waits for the others' shards. Destroy a table only when the other
/// ranks have pulled what they need from its shard: calling World::leave() before destroying the
/// tables ensures that.
///
/// Data-path calls return a Status; peer_failed names the dead rank, whichever it is.
/// Thread-safety: one thread at a time.
class WEFT_API Table {
 public:
  Table(Table&&) noexcept;
  Table& operator=(Table&&) noexcept;
  ~Table();

  /// Worker: this rank's copy of a parameter tensor, which pull() refreshes. Throws
  /// Error(bad_argument) for an unknown name, listing the known ones.
  Tensor parameter(const std::string& name) const;
  /// Worker: the tensor to write the gradient for the next push into. The shards read it in place:
  /// don't touch it from push() until pull() has returned. Throws as parameter().
  Tensor gradient(const std::string& name) const;

  /// Every rank calls it once, before the first step. The first worker's parameter() values, or a
  /// checkpoint's, become the shards' and then every worker's; all gradients become zeros. Ranks
  /// that only serve do this inside serve(). Unless the table is bsp, one worker may return before
  /// another; the later one then may start from values that the first has already updated. After an
  /// error the next call resumes, and push() is refused until one has succeeded. On a GPU, work on
  /// the application's streams that writes parameter() must have ended. Errors: as pull(), and
  /// bad_argument (it has succeeded before).
  Status initialize(Deadline deadline = {}) noexcept;
  /// Worker: makes the gradients visible to the shards. Does not wait, and does not copy unless the
  /// table is compressed. Gradients on a GPU are copied to host memory first, within WEFT_TIMEOUT
  /// (push_pull: within its deadline); work on the application's streams that writes them must have
  /// ended. Errors: bad_argument (the last push has not been pulled, initialize() has not
  /// succeeded, or a gradient to be compressed is not finite), timeout, system and exhausted (of a
  /// GPU): nothing was pushed; leave the gradients as they are and push again, which goes on with
  /// the copy.
  Status push() noexcept;
  /// Worker: waits for the parameters that result from the last push and copies them into
  /// parameter(), with one transfer per shard. On a GPU, work on the application's streams that
  /// reads or writes parameter() must have ended. After an error the next call resumes. Errors:
  /// bad_argument (nothing was pushed since the last pull() or wait_updated()), timeout,
  /// peer_failed, peer_left, closed; system and exhausted (also of a GPU).
  Status pull(Deadline deadline = {}) noexcept;
  /// Worker: push(), then pull(). An error says of which of the two it is, the one to call next.
  Status push_pull(Deadline deadline = {}) noexcept;
  /// Worker: as pull(), but leaves the parameters on the shards, for view(). Where a shard's memory
  /// can't be loaded from, its parameters are read, and parameter() stays as it is. Refused where
  /// parameter() lies on a GPU, like view().
  Status wait_updated(Deadline deadline = {}) noexcept;
  /// Worker: after wait_updated() a tensor's parameters in place, after pull() those of
  /// parameter(). Errors: bad_argument (unknown name, or a tensor that is split over shards: use
  /// view_piece).
  Result<ParameterView> view(const std::string& name) noexcept;
  /// Worker: the same for one run of the shard map (pieces()).
  Result<ParameterView> view_piece(const ShardPiece& piece) noexcept;

  /// The number of updates done, including those before a restored checkpoint. If
  /// TableOptions::accumulate is a > 1: with bsp every push counts, although the parameters change
  /// with each a-th only; with the other kinds the version counts changes of the parameters, one
  /// for a updates. Worker: the version of the values it has last pulled, which never decreases; 0
  /// after initialize() unless a checkpoint was restored or other workers are ahead.
  std::uint64_t version() const noexcept;
  /// Worker: the result of the last pull() or wait_updated(). Throws Error(bad_argument) on other
  /// ranks.
  Pulled pulled() const;
  /// The statistics of this rank's shard; all zero if this rank has none.
  TableStatistics statistics() const;
  /// Worker: all zero if the table is not compressed. Throws Error(bad_argument) on other ranks.
  CompressionStatistics compression() const;
  /// The tensors, as given at creation. Valid as long as the table, like pieces().
  const std::vector<TensorSpec>& specs() const noexcept;
  /// The shard map.
  const std::vector<ShardPiece>& pieces() const noexcept;
  /// The shard map for people: one line per server, with its bytes and runs.
  std::string describe() const;

 private:
  friend class ParameterServer;
  friend class TableVariables;
  explicit Table(std::shared_ptr<detail::TableState> state) noexcept;
  std::shared_ptr<detail::TableState> state_;
};

/// A parameter server: the tables of a set of workers and servers. Several may live in one world
/// under different names, each with its own workers and servers. Its tables may outlive it.
/// Thread-safety: one thread at a time.
class WEFT_API ParameterServer {
 public:
  /// Among all ranks of the world, which all create it with equal arguments. Throws Error:
  /// bad_argument (a rank is out of range, listed twice or in neither list, or options contradict
  /// each other), bad_config (WEFT_PS_SERVERS or WEFT_PS_REPLICAS does not fit these ranks),
  /// forked.
  explicit ParameterServer(World& world, Options options = {}, std::string name = "ps");
  /// Among the members of `group`, for example the survivors after Group::shrink(), who continue
  /// from the last checkpoint. Lists of ranks and numbers of servers refer to the members. Every
  /// member creates it with an equal group, after destroying its tables of the former server.
  /// WEFT_PS_SERVERS and WEFT_PS_REPLICAS apply where options are unset, and must fit the smaller
  /// number of ranks. Throws as above.
  ParameterServer(World& world, const Group& group, Options options = {}, std::string name = "ps");
  ParameterServer(ParameterServer&&) noexcept;
  ~ParameterServer();

  /// True if this rank is a worker.
  bool works() const noexcept;
  /// True if this rank holds shards.
  bool serves() const noexcept;

  /// Creates a dense table. Every member of the group (by default every rank of the job) calls it
  /// with the same arguments, TableOptions::memory excepted, and in the same order. Throws Error:
  /// mismatch (ranks disagree, or a checkpoint belongs to another table), exhausted (also memory of
  /// a GPU), peer_failed, timeout, bad_argument (also: there is no such GPU, or a rank that only
  /// serves has a memory), bad_config (WEFT_GPU names no GPU), system (also: no driver for a GPU,
  /// or it fails), forked.
  Table table(const std::string& name, std::vector<TensorSpec> specs, const TableOptions& options,
              Deadline deadline = {});

  /// Creates a sparse table, under the same rules.
  SparseTable sparse_table(const std::string& name, const SparseOptions& options,
                           Deadline deadline = {});

  /// For a rank that only serves: works on `tables` and `sparse` until every worker has closed
  /// them. Without a deadline it waits as long as that takes, since workers may compute for longer
  /// than WEFT_TIMEOUT. Errors: timeout (names a worker that has not closed its table),
  /// peer_failed, peer_left and closed (a table can't continue without the named rank), mismatch
  /// (at the end: a worker sent malformed requests and was treated as gone).
  Status serve(std::span<Table* const> tables, std::span<SparseTable* const> sparse = {},
               Deadline deadline = {});
  /// The same of tables by name: serve({dense, other}), serve({}, {rows}), serve({dense}, {rows}).
  Status serve(std::initializer_list<std::reference_wrapper<Table>> tables,
               std::initializer_list<std::reference_wrapper<SparseTable>> sparse = {},
               Deadline deadline = {});
  /// The same of one table.
  Status serve(Table& table, Deadline deadline = {}) { return serve({table}, {}, deadline); }
  Status serve(SparseTable& table, Deadline deadline = {}) { return serve({}, {table}, deadline); }

 private:
  std::unique_ptr<detail::ServerState> state_;
};

}  // namespace weft::pslib
