// Every group of this rank, and the control messages about them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_messages.hpp"

namespace weft::detail {

class CollectiveTable {
 public:
  CollectiveTable(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& slots)
      : local_(local), mesh_(mesh), slots_(slots) {}

  /// Before the first group: WEFT_COLL and WEFT_COLL_COSTS. Throws Error(bad_config).
  void choose_by(std::string_view rules, const std::string& costs) {
    rules_ = parse_rules(rules);
    costs_ = read_costs(costs);
  }
  /// Before the first group: the NUMA node of this rank; -1: none.
  void settle_in(int numa_node) noexcept { numa_node_ = numa_node; }

  // Any application thread.
  std::shared_ptr<CollectiveGroup> open(std::span<const int> ranks, Deadline deadline);
  /// The group's area stays until no rank looks at it any more.
  void close(CollectiveGroup& group) noexcept;
  /// To every rank of a group but this one.
  void tell(std::span<const int> ranks, const CollectiveMessage& message) noexcept;
  /// Makes a chunk known to them, and tells them so.
  void share(std::span<const int> ranks, std::uint32_t chunk, const CollectiveMessage& message);

  // The progress thread.
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);
  void on_gone(p2p::Peer& peer);

 private:
  struct Group {
    std::shared_ptr<CollectiveGroup> here;  ///< null until this rank opens it too
    std::map<int, p2p::MemoryRef> areas;    ///< by rank
    Choices choices{};                      ///< the first rank's, once that has opened it
    std::string ranks;       ///< of the group, as who opened it says; only to be told
    int nonsense_from = -1;  ///< the rank that said nonsense when it opened the group
    std::set<int> closed;
    bool is_closed = false;  ///< by this rank
  };
  std::shared_ptr<CollectiveGroup> make(std::vector<int> ranks, std::uint64_t id);
  /// As this rank sees them.
  Choices choices_of(std::span<const int> ranks) const;
  bool all_met(std::uint64_t id, std::span<const int> ranks, std::vector<p2p::MemoryRef>& areas,
               Choices& choices) noexcept;
  /// Null: a group that this rank has nothing to do with.
  Group* find(const CollectiveMessage& message);
  void erase_if_over(std::uint64_t id);
  void check(std::span<const int> ranks) const;
  /// Why a group does not come about.
  Status nobody(std::uint64_t id, std::span<const int> ranks, p2p::WaitEnd end);
  bool has_nonsense(std::uint64_t id) noexcept;
  /// Another group that `rank` has opened and this one has not, for people.
  std::string elsewhere(int rank) const;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& slots_;
  Choices rules_;
  Costs costs_;
  int numa_node_ = -1;
  std::mutex mutex_;  ///< guards what is below
  std::map<std::vector<int>, std::uint64_t> opened_;
  std::map<std::uint64_t, Group> groups_;
};

}  // namespace weft::detail
