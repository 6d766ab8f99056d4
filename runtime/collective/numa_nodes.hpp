// The layout of a group's ranks in the NUMA nodes of one host.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace weft::detail {

/// Returns the NUMA node of this rank's processors, or the one that WEFT_NUMA (`setting`) names;
/// -1: no node, or several. `place`: index of the rank among those of its host. Throws
/// Error(bad_config).
int numa_node(std::string_view setting, int place);

/// A group as a grid with one row per NUMA node; all rows have the same length. Ranks of a column,
/// one in each node, share the work on that column's part of a tensor.
class NumaNodes {
 public:
  NumaNodes() = default;
  /// `node_of`: the NUMA node of each rank of the group. The grid stays empty unless there are at
  /// least two rows, of equal length of at least two.
  NumaNodes(std::span<const int> node_of, int me);

  bool empty() const noexcept { return ranks_.empty(); }
  int nodes() const noexcept { return static_cast<int>(column_.size()); }
  int mates() const noexcept { return static_cast<int>(row_.size()); }
  /// The group's ranks in this rank's node, and at this rank's place in every node; both include
  /// this rank.
  std::span<const int> row() const noexcept { return row_; }
  std::span<const int> column() const noexcept { return column_; }
  int node() const noexcept { return node_; }
  int place() const noexcept { return place_; }
  int rank(int node, int place) const noexcept {
    return ranks_[static_cast<std::size_t>(node) * row_.size() + static_cast<std::size_t>(place)];
  }
  int node_of(int rank) const noexcept { return node_of_[static_cast<std::size_t>(rank)]; }
  /// True if combining the rows first, and then their results, is the binary tree over the group's
  /// ranks. Then the result has the same bits as that tree's.
  bool are_branches() const noexcept { return are_branches_; }

 private:
  std::vector<int> ranks_;    ///< row by row
  std::vector<int> node_of_;  ///< row of each rank
  std::vector<int> row_;
  std::vector<int> column_;
  int node_ = 0;
  int place_ = 0;
  bool are_branches_ = false;
};

}  // namespace weft::detail
