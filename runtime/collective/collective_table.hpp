// Every group of this rank, and the control messages about them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "p2p/local_rank.hpp"
#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/slot_table.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/messages.hpp"

namespace weft::detail {

class CollectiveTable {
 public:
  CollectiveTable(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& slots)
      : local_(local), mesh_(mesh), slots_(slots) {}

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
    std::set<int> closed;
    bool is_closed = false;  ///< by this rank
  };
  std::shared_ptr<CollectiveGroup> make(std::vector<int> ranks, std::uint64_t id);
  bool all_met(std::uint64_t id, std::span<const int> ranks,
               std::vector<p2p::MemoryRef>& areas) noexcept;
  void erase_if_over(std::uint64_t id);
  void check(std::span<const int> ranks) const;
  Status nobody(std::uint64_t id, std::span<const int> ranks, p2p::WaitEnd end);

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& slots_;
  std::mutex mutex_;  ///< guards what is below
  std::map<std::vector<int>, std::uint64_t> opened_;
  std::map<std::uint64_t, Group> groups_;
};

}  // namespace weft::detail
