// What every rank knows of a dense table, and what its slots are called and look like.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pslib/checkpoint/checkpoint.hpp"
#include "pslib/compression/push_format.hpp"
#include "pslib/table/layout.hpp"
#include "pslib/table/roles.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Immutable once it is known what the table starts from.
class Description {
 public:
  /// Throws Error(bad_argument): no tensors, one without elements or with another's name, options
  /// that make no sense.
  Description(const Roles& roles, std::string_view server, std::string table,
              std::vector<TensorSpec> specs, const TableOptions& options);

  /// Before anything else: the table goes on from there.
  void start_from(std::shared_ptr<const Checkpoint> checkpoint) noexcept {
    restored_ = std::move(checkpoint);
  }
  /// Null: from the first worker's parameters.
  const Checkpoint* restored() const noexcept { return restored_.get(); }
  /// The version of the initial parameters.
  std::uint64_t first_version() const noexcept {
    return restored_ ? restored_->manifest().version : 0;
  }

  const Roles roles;
  const std::string table;
  const std::vector<TensorSpec> specs;
  const TableOptions options;
  /// The servers at which shards are at home, by shard.
  const std::vector<int> homes;
  const std::vector<ShardPiece> pieces;
  const Layout layout;
  const PushFormat pushes;

  /// What all ranks must have in common, one item a line, in words that an error can show.
  std::string contract() const;
  /// As Table::describe().
  std::string shard_map() const;

  /// "ps/<server>/<table>/<part>".
  std::string slot_name(std::string_view part) const;
  bool is_replicated() const noexcept { return roles.replicas > 1; }
  /// Whether shards go on by themselves: workers need not be in step, or there are replicas.
  bool is_asynchronous() const noexcept {
    return options.consistency.kind != Consistency::Kind::bsp || is_replicated();
  }

  /// A worker's pushes: its gradients, flat, or what they are compressed to; of an asynchronous
  /// table GradientWords behind them.
  PublishedSpec gradients() const;
  /// The first worker's initial parameters, where a push has no room for them.
  PublishedSpec initial() const;
  /// Bytes in a push before what an Updater reads of elements from `element` of the layout on.
  std::size_t skipped(std::int64_t element) const noexcept {
    return pushes.is_compressed() ? 0 : static_cast<std::size_t>(element) * size_of(options.wire);
  }
  /// What of a push a shard of so many elements reads, about, where pushes are compressed.
  std::size_t bytes_read(std::int64_t elements) const noexcept;
  /// A shard's parameters, where it is at home at `home`; of an asynchronous table RegionWords in
  /// front of them.
  PublishedSpec region(int home) const;
  /// Elements that RegionWords take up.
  std::int64_t region_words() const noexcept;
  /// An asynchronous table's StateWords, of each shard that the server may come to hold.
  PublishedSpec state() const;
  /// What a server of a replicated table says of each shard.
  PublishedSpec replica_words() const;
  /// The whole state of a shard, for a replica that has none.
  PublishedSpec snapshot(std::size_t shard, std::size_t bytes) const;
  /// A server's part of `words` words that all servers add up.
  PublishedSpec norms(std::size_t words) const;

 private:
  void check_consistency() const;
  void check_compression() const;
  PublishedSpec words(std::string_view part, std::size_t count) const;
  PublishedSpec published(std::string_view part, DType dtype, std::int64_t elements) const;

  const std::string prefix_;
  std::shared_ptr<const Checkpoint> restored_;
};

}  // namespace weft::pslib
