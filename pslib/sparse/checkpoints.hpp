// A sparse table's checkpoints: what it starts from, and what a shard saves.
#pragma once

#include <memory>
#include <string>

#include "pslib/sparse/description.hpp"
#include "pslib/sparse/row_cut.hpp"
#include "pslib/sparse/row_store.hpp"
#include "pslib/table/start.hpp"

namespace weft::pslib {

Manifest manifest_of(const SparseDescription& table, std::uint64_t version);

/// A shard's file of the rows of a cut, which it brings to its end, whatever happens. Throws
/// Error(system), std::bad_alloc.
void write_rows(const os::Folder& folder, const std::string& name, RowCut& cut,
                const RowRules& rules, const Failpoint& failpoint = {});

/// The rows that are `server`'s, by its place among the servers: of all files, or of one where as
/// many servers saved. Throws Error: mismatch (a row that is there twice, or in another's file),
/// system; std::bad_alloc.
void restore_rows(const Checkpoint& from, const SparseDescription& table, std::size_t server,
                  RowStore& to);

}  // namespace weft::pslib
