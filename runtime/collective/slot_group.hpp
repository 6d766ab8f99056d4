// One rank's side of a group whose ranks are reached by any fabric: collectives made of slots.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/slot_link.hpp"

namespace weft::detail {

/// Every call is at most two exchanges, in each of which every rank sends something to every rank
/// that it has something for, all at once. all_reduce: each rank gets its share of everybody's
/// tensor, combines it, and sends it to all; a rank sends and receives twice (n - 1)/n of a tensor,
/// as in a ring, in two hops, and the order of the sum is free. The two overlap: a piece is
/// combined out of the slots that it came in as soon as all ranks' have come, and goes on from the
/// result. What is combined and tiny goes whole to all that want it, in one exchange.
class SlotGroup final : public CollectiveGroup {
 public:
  SlotGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table, p2p::SlotTable& slots,
            std::vector<int> ranks, std::uint64_t id);

  void meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
            Deadline deadline) override;

 private:
  struct Share {  ///< of the elements that are combined, those that one rank combines
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  /// Bytes of a tensor; moves, since none may be as good as some.
  struct Part {
    bool moves = false;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  void prepare(PlannedCall& call) override;
  void begin(PlannedCall& call) noexcept override;
  void advance_first(PlannedCall& call) noexcept override;
  bool show(PlannedCall&) noexcept override { return false; }
  Status gone_failure(std::uint64_t number) const noexcept override;
  std::vector<int> awaited(const PlannedCall& call) const override;
  bool sees_calls() const noexcept override { return false; }
  void stop() noexcept override {}
  int toucher(const PlannedCall& call) noexcept override;
  void cut_off() noexcept override;
  void disconnect() noexcept override { links_.clear(); }

  // By which algorithm (slot_choice.cpp).
  Hosts hosts() const;
  void choose_algorithm(PlannedCall& call);
  Algorithm quickest(const Choosing& choosing, std::uint64_t counts);
  void make_rounds(PlannedCall& call, Algorithm by, const Choosing& choosing);

  // What goes where.
  /// Whether a rank has a result of a call that combines.
  static bool gets(const Task& task, int rank) noexcept;
  Share share_of(const PlannedCall& call, int rank) const noexcept;
  std::size_t share_bytes(const PlannedCall& call, int rank) const noexcept;
  /// Of `from`'s input, what `to` is sent first.
  Part first_part(const PlannedCall& call, int from, int to) const noexcept;
  /// Of `from`'s results, what `to` is sent then.
  std::size_t second_bytes(const PlannedCall& call, int from, int to) const noexcept;
  SlotLink::Sending sending(PlannedCall& call, int to) const noexcept;
  SlotLink::Taking taking(PlannedCall& call, int from) const noexcept;
  /// Where this rank's results go.
  std::byte* results(PlannedCall& call) const noexcept;

  // How.
  void exchange(PlannedCall& call) noexcept;
  /// Moves what can be moved; false when the group has failed.
  bool step(PlannedCall& call) noexcept;
  bool step_rounds(PlannedCall& call) noexcept;
  bool found_failure(const PlannedCall& call, int rank) noexcept;
  /// Whether a piece of this rank's share was combined.
  bool combine_piece(PlannedCall& call) noexcept;
  bool over(const PlannedCall& call) const noexcept;
  /// Whether something of a rank is still to be taken, or still to be put to it.
  bool takes_from(const PlannedCall& call, int rank) const noexcept;
  bool sends_to(const PlannedCall& call, int rank) const noexcept;
  /// Of a rank that is gone: whether the call can't end without more of it.
  bool owes_part(const PlannedCall& call, int rank) const noexcept;
  bool has_combined(const PlannedCall& call) const noexcept;
  void finish(PlannedCall& call) noexcept;
  void strange(const PlannedCall& call, int other, const PieceHead& head) noexcept;
  SlotLink* link(int rank) const noexcept { return links_[static_cast<std::size_t>(rank)].get(); }

  p2p::SlotTable& slots_;
  std::vector<std::unique_ptr<SlotLink>> links_;  ///< by rank; none to itself
  const Hosts hosts_;
  Choices choices_{};
  /// By kind, elements, their bytes, any order, root and counts.
  std::map<std::array<std::uint64_t, 3>, Algorithm> chosen_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  std::size_t combined_ = 0;         ///< bytes of this rank's share
  std::size_t combined_pieces_ = 0;  ///< which the others may be sent
};

}  // namespace weft::detail
