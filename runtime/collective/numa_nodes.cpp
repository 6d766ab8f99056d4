#include "runtime/collective/numa_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/fail.hpp"
#include "base/os/cpus.hpp"
#include "base/os/numa.hpp"
#include "weft/error.hpp"

namespace weft::detail {
namespace {

[[noreturn]] void refuse(std::string_view setting, std::string what) {
  throw_error(Code::bad_config, "join", fmt::format("WEFT_NUMA={}: {}", setting, what),
              "auto, off, or a node for each rank of the host in turn, such as 0,0,1,1");
}

int read_node(std::string_view setting, std::string_view text) {
  int node = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), node);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || node < 0)
    refuse(setting, fmt::format("\"{}\" is no node", text));
  return node;
}

}  // namespace

int numa_node(std::string_view setting, int place) {
  if (setting == "off") return -1;
  if (setting == "auto") return os::numa_node_of(os::numbers(os::affinity()));
  std::vector<int> nodes;
  for (std::string_view rest = setting;;) {
    const auto comma = rest.find(',');
    nodes.push_back(read_node(setting, rest.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (static_cast<std::size_t>(place) >= nodes.size())
    refuse(setting,
           fmt::format("the list names the nodes of {} ranks, and this is number {} of its host",
                       nodes.size(), place + 1));
  return nodes[static_cast<std::size_t>(place)];
}

NumaNodes::NumaNodes(std::span<const int> node_of, int me) {
  std::vector<int> names;
  std::vector<std::vector<int>> rows;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    if (node_of[rank] < 0) return;
    const auto known = std::ranges::find(names, node_of[rank]);
    const auto row = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      names.push_back(node_of[rank]);
      rows.emplace_back();
    }
    rows[row].push_back(static_cast<int>(rank));
    node_of_.push_back(static_cast<int>(row));
  }
  const bool alike = std::ranges::all_of(
      rows, [&](const std::vector<int>& row) { return row.size() == rows[0].size(); });
  if (rows.size() < 2 || !alike || rows[0].size() < 2) return;
  node_ = node_of_[static_cast<std::size_t>(me)];
  row_ = rows[static_cast<std::size_t>(node_)];
  place_ = static_cast<int>(std::ranges::find(row_, me) - row_.begin());
  for (const std::vector<int>& row : rows) {
    ranks_.insert(ranks_.end(), row.begin(), row.end());
    column_.push_back(row[static_cast<std::size_t>(place_)]);
  }
  are_branches_ = std::has_single_bit(row_.size()) && std::ranges::is_sorted(ranks_);
}

}  // namespace weft::detail
