// One rank's side of a group whose ranks are reached by any fabric: collectives made of slots.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/slot_exchange.hpp"

namespace weft::detail {

/// Every call is at most two exchanges, in each of which every rank sends something to every rank
/// that it has something for, all at once, with the combining between them. all_reduce: each rank
/// gets its share of everybody's tensor, combines it, and sends it to all; a rank sends and
/// receives twice (n - 1)/n of a tensor, as in a ring, in two hops, and the order of the sum is
/// free.
class SlotGroup final : public CollectiveGroup {
 public:
  SlotGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table, p2p::SlotTable& slots,
            std::vector<int> ranks, std::uint64_t id);

  void meet(std::span<const p2p::MemoryRef> areas, Deadline deadline) override;

 private:
  struct Part {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool moves = false;
  };
  struct Share {  ///< of the elements that are combined
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  void prepare(PlannedCall& call) override;
  void begin(PlannedCall& call) noexcept override;
  void advance_first(PlannedCall& call) noexcept override;
  bool show(PlannedCall&) noexcept override { return false; }
  Status gone_failure(std::uint64_t number) const noexcept override;
  std::vector<int> awaited(const PlannedCall& call) const override;
  void stop() noexcept override {}
  void disconnect() noexcept override { links_.clear(); }

  Share share_of(const Task& task, int rank) const noexcept;
  /// Where the n-th rank's part of what is gathered here lies.
  std::byte* gathered(PlannedCall& call, int rank) const noexcept;
  Part first_out(PlannedCall& call, int to) const noexcept;
  Part first_in(PlannedCall& call, int from) const noexcept;
  Part second_out(PlannedCall& call, int to) const noexcept;
  Part second_in(PlannedCall& call, int from) const noexcept;
  void exchange(PlannedCall& call, bool first) noexcept;
  /// Whether all of an exchange is over.
  bool step(PlannedCall& call) noexcept;
  void combine(PlannedCall& call) noexcept;
  void finish(PlannedCall& call) noexcept;

  p2p::SlotTable& slots_;
  std::vector<std::unique_ptr<SlotLink>> links_;  ///< by rank; none to itself
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
};

}  // namespace weft::detail
