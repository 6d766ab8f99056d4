// The shard map: assigns each run of each tensor to a server.
#include <algorithm>
#include <numeric>

#include "base/control_call.hpp"
#include "pslib/table/layout.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {
namespace {

// Counts loads in cache lines, the unit in which a piece takes up its shard.
class Shards {
 public:
  explicit Shards(std::span<const int> servers) : servers_(servers), lines_(servers.size(), 0) {}

  // Splits evenly; leftover lines go to the shards with the least load.
  void split(std::size_t tensor, std::int64_t elements, std::vector<ShardPiece>& pieces) {
    const std::int64_t lines = lines_of(elements);
    const auto shards = static_cast<std::int64_t>(servers_.size());
    std::vector<std::int64_t> share(servers_.size(), lines / shards);
    const auto order = by_load();
    for (std::int64_t i = 0; i < lines % shards; ++i) ++share[order[static_cast<std::size_t>(i)]];

    std::int64_t first = 0;
    for (std::size_t shard = 0; shard < share.size() && first < elements; ++shard) {
      if (share[shard] == 0) continue;
      const std::int64_t count = std::min(share[shard] * kLineElements, elements - first);
      pieces.push_back({tensor, servers_[shard], first, count, 0});
      lines_[shard] += share[shard];
      first += count;
    }
  }

  void whole(std::size_t tensor, std::int64_t elements, std::vector<ShardPiece>& pieces) {
    const auto shard = static_cast<std::size_t>(std::ranges::min_element(lines_) - lines_.begin());
    pieces.push_back({tensor, servers_[shard], 0, elements, 0});
    lines_[shard] += lines_of(elements);
  }

 private:
  std::vector<std::size_t> by_load() const {
    std::vector<std::size_t> order(servers_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [this](std::size_t shard) { return lines_[shard]; });
    return order;
  }

  std::span<const int> servers_;
  std::vector<std::int64_t> lines_;
};

std::vector<ShardPiece> place_all(std::span<const TensorSpec> specs, std::span<const int> servers,
                                  std::size_t split_bytes) {
  std::vector<ShardPiece> pieces;
  if (servers.empty()) return pieces;
  Shards shards(servers);
  std::vector<std::size_t> small;
  for (std::size_t tensor = 0; tensor < specs.size(); ++tensor) {
    const std::int64_t elements = specs[tensor].shape.elements();
    if (elements == 0) continue;
    if (static_cast<std::size_t>(elements) * sizeof(float) >= split_bytes)
      shards.split(tensor, elements, pieces);
    else
      small.push_back(tensor);
  }
  // Largest first: smaller tensors fill the gaps, so the shards end up nearly level.
  const auto elements_of = [&](std::size_t tensor) { return specs[tensor].shape.elements(); };
  std::ranges::stable_sort(small, std::ranges::greater{}, elements_of);
  for (const std::size_t tensor : small) shards.whole(tensor, elements_of(tensor), pieces);

  std::ranges::sort(pieces, {}, [](const ShardPiece& p) { return std::pair(p.tensor, p.first); });
  for (const int server : servers) {
    std::int64_t offset = 0;
    for (ShardPiece& piece : pieces) {
      if (piece.server != server) continue;
      piece.shard_offset = offset;
      offset += padded(piece.count);
    }
  }
  return pieces;
}

}  // namespace

std::vector<ShardPiece> make_shard_map(std::span<const TensorSpec> specs,
                                       std::span<const int> servers, std::size_t split_bytes) {
  return control_call("place", [&] { return place_all(specs, servers, split_bytes); });
}

}  // namespace weft::pslib
