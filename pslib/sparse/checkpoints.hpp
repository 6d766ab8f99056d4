// A sparse table's checkpoints: writing a shard's rows, and restoring them.
#pragma once

#include <memory>
#include <string>

#include "pslib/sparse/description.hpp"
#include "pslib/sparse/row_cut.hpp"
#include "pslib/sparse/row_store.hpp"
#include "pslib/table/start.hpp"

namespace weft::pslib {

Manifest manifest_of(const SparseDescription& table, std::uint64_t version);

/// Writes the rows of a cut as a shard's file. Ends the cut in any case. Throws Error(system),
/// std::bad_alloc.
void write_rows(const os::Folder& folder, const std::string& name, RowCut& cut,
                const RowRules& rules, const Failpoint& failpoint = {});

/// Restores the rows of server index `server` into `to`: from all files, or from one if as many
/// servers saved. Throws Error: mismatch (a row occurs twice, or in another server's file), system;
/// std::bad_alloc.
void restore_rows(const Checkpoint& from, const SparseDescription& table, std::size_t server,
                  RowStore& to);

}  // namespace weft::pslib
