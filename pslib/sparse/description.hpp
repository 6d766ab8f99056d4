// The description of a sparse table that every rank computes alike, with the specs of its slots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/mix64.hpp"
#include "pslib/checkpoint/checkpoint.hpp"
#include "pslib/sparse/row_store.hpp"
#include "pslib/sparse/wire_rows.hpp"
#include "pslib/table/roles.hpp"
#include "weft/published_slot.hpp"
#include "weft/sparse_table.hpp"

namespace weft::pslib {

/// Immutable after start_from().
class SparseDescription {
 public:
  /// Throws Error(bad_argument) for invalid options.
  SparseDescription(const Roles& roles, std::string_view server, std::string table,
                    const SparseOptions& options);

  /// Makes the table continue from `checkpoint`. Call before anything else.
  void start_from(std::shared_ptr<const Checkpoint> checkpoint) noexcept {
    restored_ = std::move(checkpoint);
  }
  /// Null if the table starts without rows.
  const Checkpoint* restored() const noexcept { return restored_.get(); }
  std::uint64_t first_version() const noexcept {
    return restored_ ? restored_->manifest().version : 0;
  }

  const Roles roles;
  const std::string table;
  const SparseOptions options;

  /// Everything that all ranks must have in common, one readable item per line.
  std::string contract() const;
  RowRules row_rules() const noexcept;
  WireRows wire_rows() const noexcept { return {options.dim, options.wire}; }
  bool is_asynchronous() const noexcept {
    return options.consistency.kind != Consistency::Kind::bsp;
  }

  /// Index of a row's server. Uses other bits of the hash than the server's RowIndex.
  std::size_t server_of(std::uint64_t id) const noexcept {
    return ((mix64(id) >> 25 & 0xffffffffU) * roles.servers.size()) >> 32;
  }

  /// "ps/<server>/<table>/<part>".
  std::string slot_name(std::string_view part) const;
  /// A worker's requests to one server.
  PublishedSpec requests(int server) const;
  /// A server's answers to one worker.
  PublishedSpec answers(int worker) const;

 private:
  void check() const;
  PublishedSpec published(std::string_view part, std::size_t bytes) const;

  const std::string prefix_;
  std::shared_ptr<const Checkpoint> restored_;
};

}  // namespace weft::pslib
