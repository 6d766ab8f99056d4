// How the ranks of a group on one host lie in its NUMA nodes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace weft::detail {

/// The NUMA node of a rank's processors, or what WEFT_NUMA says of it; -1: it has none, or several.
/// `place`: of the rank, among those of its host. Throws Error(bad_config).
int numa_node(std::string_view setting, int place);

/// A group as a grid: a row for each NUMA node, as long as the others. What is to be done for a
/// column is shared by its ranks, one in each node.
class NumaNodes {
 public:
  NumaNodes() = default;
  /// `node_of`: by rank of the group. Empty where ranks don't make several rows of several, alike.
  NumaNodes(std::span<const int> node_of, int me);

  bool empty() const noexcept { return ranks_.empty(); }
  int nodes() const noexcept { return static_cast<int>(column_.size()); }
  int mates() const noexcept { return static_cast<int>(row_.size()); }
  /// The group's ranks in this one's node, and at its place in every node; both include itself.
  std::span<const int> row() const noexcept { return row_; }
  std::span<const int> column() const noexcept { return column_; }
  int node() const noexcept { return node_; }
  int place() const noexcept { return place_; }
  int rank(int node, int place) const noexcept {
    return ranks_[static_cast<std::size_t>(node) * row_.size() + static_cast<std::size_t>(place)];
  }
  int node_of(int rank) const noexcept { return node_of_[static_cast<std::size_t>(rank)]; }
  /// Whether combining rows and then their results is the binary tree over the group's ranks.
  bool are_branches() const noexcept { return are_branches_; }

 private:
  std::vector<int> ranks_;    ///< row by row
  std::vector<int> node_of_;  ///< by rank: the row
  std::vector<int> row_;
  std::vector<int> column_;
  int node_ = 0;
  int place_ = 0;
  bool are_branches_ = false;
};

}  // namespace weft::detail
