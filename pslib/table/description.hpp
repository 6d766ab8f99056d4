// The description of a dense table that every rank computes alike, with the specs of its slots.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pslib/checkpoint/checkpoint.hpp"
#include "pslib/compression/push_cut.hpp"
#include "pslib/table/layout.hpp"
#include "pslib/table/roles.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Immutable after start_from().
class Description {
 public:
  /// Throws Error(bad_argument) if there are no tensors, a tensor has no elements, a name occurs
  /// twice, or options are invalid.
  Description(const Roles& roles, std::string_view server, std::string table,
              std::vector<TensorSpec> specs, const TableOptions& options);

  /// Makes the table continue from `checkpoint`. Call before anything else.
  void start_from(std::shared_ptr<const Checkpoint> checkpoint) noexcept {
    restored_ = std::move(checkpoint);
  }
  /// Null if the table starts from the first worker's parameters.
  const Checkpoint* restored() const noexcept { return restored_.get(); }
  /// The version of the initial parameters.
  std::uint64_t first_version() const noexcept {
    return restored_ ? restored_->manifest().version : 0;
  }

  const Roles roles;
  const std::string table;
  const std::vector<TensorSpec> specs;
  const TableOptions options;
  /// Home server of each shard.
  const std::vector<int> homes;
  const std::vector<ShardPiece> pieces;
  const Layout layout;
  const PushFormat pushes;

  /// Everything that all ranks must have in common, one readable item per line.
  std::string contract() const;
  /// The text of Table::describe().
  std::string shard_map() const;

  /// "ps/<server>/<table>/<part>".
  std::string slot_name(std::string_view part) const;
  bool is_replicated() const noexcept { return roles.replicas > 1; }
  /// True if shards update without waiting for a common step: workers need not be in step, or there
  /// are replicas.
  bool is_asynchronous() const noexcept {
    return options.consistency.kind != Consistency::Kind::bsp || is_replicated();
  }

  /// A worker's pushes: flat gradients, or their compressed form; GradientWords follow in an
  /// asynchronous table.
  PublishedSpec gradients() const;
  /// The first worker's initial parameters, for tables whose compressed pushes have no room for
  /// them.
  PublishedSpec initial() const;
  /// The part of a push that a server reads which holds the shards of `homes`.
  PushCut cut(std::span<const int> homes) const {
    return PushCut(pushes, pieces, homes, gradients().shape.elements());
  }
  /// Approximate bytes that a shard of `elements` reads of a compressed push.
  std::size_t bytes_read(std::int64_t elements) const noexcept;
  /// Parameters of the shard whose home is `home`; RegionWords precede them in an asynchronous
  /// table.
  PublishedSpec region(int home) const;
  /// Size of RegionWords in elements.
  std::int64_t region_words() const noexcept;
  /// An asynchronous table's StateWords, for each shard that the server may hold.
  PublishedSpec state() const;
  /// The replica messages of a server of a replicated table, one per shard.
  PublishedSpec replica_words() const;
  /// A shard's whole state, offered to a replica that has none.
  PublishedSpec snapshot(std::size_t shard, std::size_t bytes) const;
  /// A server's `words` words of the norms that all servers add up.
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
