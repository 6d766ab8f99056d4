// The parameter server: a model's parameters, spread over server shards, updated by workers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/api.hpp"
#include "weft/checkpoint.hpp"
#include "weft/compression.hpp"
#include "weft/consistency.hpp"
#include "weft/group.hpp"
#include "weft/optimizer.hpp"
#include "weft/publication.hpp"
#include "weft/sparse_table.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// What a pull returned.
struct Pulled {
  std::uint64_t version = 0;      ///< the least of all shards'
  std::vector<int> contributors;  ///< ranks whose gradients made that version, in order
};

/// What a shard did with the gradients that it got. Of a bsp table all are applied.
struct TableStatistics {
  static constexpr std::size_t kMostStaleness = 63;
  std::uint64_t applied = 0;
  std::uint64_t folded = 0;   ///< late, and part of a later update
  std::uint64_t dropped = 0;  ///< late, and of none
  std::uint64_t skipped = 0;  ///< updates that were not made, as their norm was not finite
  /// Gradients by how many versions older the values were that they were computed from; the last
  /// counts all from there on.
  std::array<std::uint64_t, kMostStaleness + 1> staleness{};
};

/// How a table is updated. Made from an Optimizer where the rest is as usual.
struct TableOptions {
  Optimizer optimizer{};
  Schedule schedule{};
  /// Above 0: an averaged gradient whose norm over the whole table is larger is scaled down to it.
  /// An update whose norm is not finite, by an element that is infinite or NaN, is skipped: it
  /// counts as a version, but parameters, the rule's states and its count of updates stay as they
  /// are; TableStatistics::skipped counts it. So it is with every rule and consistency, and with
  /// lars, which goes by norms, without clip_norm too. Where no norm is needed nothing is looked
  /// for: an element that is not finite makes its own parameter and states infinite or NaN, and no
  /// others.
  float clip_norm = 0.0F;
  /// The rule is applied at each so-many-th update, to the average of all gradients since.
  std::uint32_t accumulate = 1;
  /// What gradients and parameters are for the workers: f32, f16 or bf16. The shards' master values
  /// and states are f32 in any case; parameters are rounded from them once, to nearest even.
  DType wire = DType::f32;
  Compression compression{};
  Consistency consistency{};
  CheckpointOptions checkpoint{};

  TableOptions(Optimizer rule = {}) : optimizer(std::move(rule)) {}
};

/// Who works and who serves. With nothing said, WEFT_PS_SERVERS decides; without that every rank
/// does both: the paper's set-up, in which each process is a worker and a shard.
struct Options {
  std::vector<int> workers{};  ///< empty: every rank
  std::vector<int> servers{};  ///< empty: every rank
  /// Above 0, in place of lists: the so many highest ranks only serve, the others only work.
  int dedicated_servers = 0;
  /// In place of lists: on every host of several ranks the highest only serves; the others work.
  bool one_server_per_host = false;
  /// Servers that hold each shard, on different hosts where there are several: with r of them the
  /// death of r - 1 at a time loses nothing that was acknowledged. Above 1 the servers only serve,
  /// and parameters are pulled, not viewed. 0: WEFT_PS_REPLICAS, which is 1 if not set.
  int replicas = 0;
  /// Tensors of at least this many bytes are split evenly over the shards; smaller ones lie whole
  /// on the shard that holds the fewest bytes.
  std::size_t split_bytes = 64 << 10;
  /// Where every rank keeps a file for each table, "<server>.<table>.<rank>.prom", in Prometheus'
  /// text format, for a collector that reads such a folder. It is replaced, whole, at most once a
  /// second, by the thread that uses the table, and stays when the job ends. Empty: none.
  std::string metrics_folder{};
};

/// One named tensor of a table, of the table's wire type.
struct TensorSpec {
  std::string name;
  Shape shape;
};

/// A run of a tensor's elements on one shard.
struct ShardPiece {
  std::size_t tensor = 0;         ///< index into the table's specs
  int server = 0;                 ///< rank of the shard
  std::int64_t first = 0;         ///< first element, flat
  std::int64_t count = 0;         ///< elements
  std::int64_t shard_offset = 0;  ///< where the run lies in the shard's region, in elements
};

/// The shard map: a pure function of (specs, servers, split_bytes), the same on every rank.
WEFT_API std::vector<ShardPiece> make_shard_map(std::span<const TensorSpec> specs,
                                                std::span<const int> servers,
                                                std::size_t split_bytes);

namespace detail {
class TableState;
class ServerState;
}  // namespace detail

/// The parameters where they lie, on their shard; valid until this worker's next push.
class ParameterView {
 public:
  /// Empty unless the table's wire type is f32.
  std::span<const float> values() const noexcept { return values_; }
  /// The same as bytes, of whatever type.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  friend class detail::TableState;
  std::span<const float> values_;
  std::span<const std::byte> bytes_;
};

/// Dense parameters. Under bulk-synchronous training step n's parameters are computed from
/// every worker's gradient of step n, averaged over the workers in rank order (so two runs of the
/// same ranks are bit-equal), and nobody sees step n + 1 before all have pushed it. A shard works
/// inside initialize, pull, push_pull and wait_updated of its own rank (or serve()). Data-path
/// calls return a Status; peer_failed names the dead rank, whichever one it is. With several
/// tables, ranks that work and serve use them in the same order, as each waits for the others'
/// shards. A table goes only when the others have pulled what they need from its shard:
/// World::leave() before the tables' destruction waits for that.
/// Thread-safety: one thread at a time.
class WEFT_API Table {
 public:
  Table(Table&&) noexcept;
  Table& operator=(Table&&) noexcept;
  ~Table();

  /// Worker: its own copy of a parameter tensor, refreshed by pull(). Throws Error(bad_argument),
  /// listing the names there are.
  Tensor parameter(const std::string& name) const;
  /// Worker: where to write the gradient for the next push. The shards read it there, so leave it
  /// alone from push() until pull() has returned.
  Tensor gradient(const std::string& name) const;

  /// Every rank, once, before the first step: the first worker's parameter() values, or a
  /// checkpoint's, become the shards', then everyone's, and the gradients are zeros. Ranks that
  /// only serve do this in serve(). Where workers need not be in step, one may return while another
  /// has not yet: by then the first may have updated what the other begins with.
  Status initialize(Deadline deadline = {}) noexcept;
  /// Worker: makes the gradients visible to the shards. No wait, and no copy unless they are
  /// compressed. bad_argument when the last push has not been pulled yet, or a gradient that is to
  /// be compressed is not finite: then nothing was pushed.
  Status push() noexcept;
  /// Worker: waits for the parameters that follow from the last push and moves them into
  /// parameter(): one transfer per shard. bad_argument when nothing was pushed since the last
  /// pull() or wait_updated(). After a timeout the next call goes on where this one stopped.
  Status pull(Deadline deadline = {}) noexcept;
  Status push_pull(Deadline deadline = {}) noexcept;
  /// Worker: in place of pull(), leaves the parameters on the shards; read them by view().
  Status wait_updated(Deadline deadline = {}) noexcept;
  /// Worker: after wait_updated() or pull(), a tensor's parameters where they lie, without a copy.
  /// bad_argument for a tensor that is split over shards (view_piece gives its runs).
  Result<ParameterView> view(const std::string& name) noexcept;
  Result<ParameterView> view_piece(const ShardPiece& piece) noexcept;

  /// Updates done, those before a checkpoint that was restored included: 0 after initialize()
  /// without one, unless others have gone on already. A worker's: of what it has pulled, which
  /// never goes back.
  std::uint64_t version() const noexcept;
  /// Worker: what the last pull() or wait_updated() returned. Throws Error(bad_argument) elsewhere.
  Pulled pulled() const;
  /// This rank's shard's; all zero where there is none.
  TableStatistics statistics() const;
  /// Worker: all zero where the table is not compressed. Throws Error(bad_argument) elsewhere.
  CompressionStatistics compression() const;
  const std::vector<TensorSpec>& specs() const noexcept;
  const std::vector<ShardPiece>& pieces() const noexcept;
  /// The shard map for people: a line for each server, with its bytes and runs.
  std::string describe() const;

 private:
  friend class ParameterServer;
  explicit Table(std::shared_ptr<detail::TableState> state) noexcept;
  std::shared_ptr<detail::TableState> state_;
};

/// The tables of one job. Several may live in one world under different names, each with its own
/// workers and servers.
class WEFT_API ParameterServer {
 public:
  /// Throws Error: bad_argument when a rank is out of range, listed twice, or neither list has it,
  /// or options contradict each other; bad_config for a WEFT_PS_SERVERS that makes no sense here.
  explicit ParameterServer(World& world, Options options = {}, std::string name = "ps");
  /// The same among the members of a group, which lists of ranks and numbers of servers are of: the
  /// survivors' after Group::shrink(), say, who go on from the last checkpoint. Every member makes
  /// it with an equal group, once it has destroyed its tables of the former server. WEFT_PS_SERVERS
  /// and WEFT_PS_REPLICAS hold where the options say nothing, for fewer ranks than the job had.
  ParameterServer(World& world, const Group& group, Options options = {}, std::string name = "ps");
  ParameterServer(ParameterServer&&) noexcept;
  ~ParameterServer();

  /// Whether this rank is a worker, whether it holds a shard.
  bool works() const noexcept;
  bool serves() const noexcept;

  /// Every member of the group (without one: every rank of the job) calls it, with the same
  /// arguments and in the same order. Throws Error: mismatch when ranks disagree or a checkpoint is
  /// another table's, exhausted, peer_failed, timeout, bad_argument.
  Table table(const std::string& name, std::vector<TensorSpec> specs, const TableOptions& options,
              Deadline deadline = {});

  /// The same for a sparse table.
  SparseTable sparse_table(const std::string& name, const SparseOptions& options,
                           Deadline deadline = {});

  /// A rank that only serves: works on its tables until every worker has closed them, for as long
  /// as that takes: workers may compute for longer than WEFT_TIMEOUT. With a deadline until then at
  /// the most: timeout names a worker that has not closed its table. Errors: peer_failed, peer_left
  /// and closed, where a table can't go on without the rank that is named; mismatch, in the end,
  /// where a worker has sent what none does: it was taken for gone.
  Status serve(std::span<Table* const> tables, std::span<SparseTable* const> sparse = {},
               Deadline deadline = {});

 private:
  std::unique_ptr<detail::ServerState> state_;
};

}  // namespace weft::pslib
