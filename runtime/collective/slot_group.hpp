// One rank's side of a group whose ranks are reached over any fabric: collectives made of slots.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/gpu_words.hpp"
#include "runtime/collective/slot_gpu.hpp"
#include "runtime/collective/slot_link.hpp"

namespace weft::detail {

/// Unless it follows a schedule, a call is at most two exchanges; in each, every rank sends all its
/// messages to the other ranks at once. all_reduce: each rank receives its share of every tensor,
/// combines it, and sends the result to all. A rank sends and receives twice (n - 1)/n of a tensor,
/// as in a ring, in two hops, and the order of the sum is free. The two exchanges overlap: a piece
/// is combined from the slots that it arrived in as soon as all ranks' pieces have arrived, and is
/// sent on from the result. Tiny tensors that are combined go whole to all ranks that want the
/// result, in one exchange. Calls whose tensors all lie on GPUs that the NICs reach go the same
/// way, from GPU to GPU, by the same choices and in the same order; slot_device.cpp.
class SlotGroup final : public CollectiveGroup {
 public:
  SlotGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table, p2p::SlotTable& slots,
            std::vector<int> ranks, std::uint64_t id, std::uint64_t nth);

  void meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
            Deadline deadline) override;

 private:
  struct Share {  ///< the elements that one rank combines
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  /// Bytes of a tensor. `moves` is separate because a message of 0 bytes differs from no message.
  struct Part {
    bool moves = false;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  void prepare(PlannedCall& call) override;
  void prepare_memory(PlannedCall& call);
  void begin(PlannedCall& call) noexcept override;
  void advance_first(PlannedCall& call) noexcept override;
  bool show(PlannedCall&) noexcept override { return false; }
  Status gone_failure(std::uint64_t number) const noexcept override;
  void add_awaited(const PlannedCall& call, std::vector<int>& members) const override;
  bool sees_calls() const noexcept override { return false; }
  bool has_part_of(const PlannedCall& call, int member) const noexcept override;
  void stop() noexcept override {
    if (gpu_ != nullptr) gpu_->look_again(false);
  }
  int toucher(const PlannedCall& call) noexcept override;
  bool needs_more(const PlannedCall& call, int member) noexcept override;
  void cut_off() noexcept override;
  void offer(PlannedCall& planned, const Task& task, const Call& call) override;
  std::optional<CollectiveMessage> hear_gpu(int rank,
                                            const CollectiveMessage& word) noexcept override;
  bool works_silently() const noexcept override { return gpu_ != nullptr && gpu_->is_silent(); }
  bool gpu_works() noexcept override { return gpu_ != nullptr && gpu_->works(); }
  void disconnect() noexcept override {
    linked_.clear();
    links_.clear();
  }

  // The choice of an algorithm (slot_choice.cpp).
  Hosts hosts() const;
  void choose_algorithm(PlannedCall& call);
  Algorithm quickest(const Choosing& choosing, std::uint64_t counts);
  void make_rounds(PlannedCall& call, Algorithm by, const Choosing& choosing);

  Tensor make_results(const PlannedCall& call, std::size_t bytes) const;
  void carry_on(PlannedCall& call) noexcept;

  // Calls that GPUs carry out (slot_device.cpp).
  /// The members are to say whether theirs do.
  static bool is_in_agreement(const PlannedCall& call) noexcept {
    return call.on_device && call.stage == PlannedCall::Stage::posting;
  }
  /// True once all have agreed to. Else the call goes on by host memory, or a word is awaited.
  bool agree(PlannedCall& call) noexcept;
  /// Whether a member's word is missing that the call can't do without.
  bool awaits_word(const PlannedCall& call, int member) const noexcept;
  GpuWord said(const PlannedCall& call, int member) const noexcept {
    return words_.said(static_cast<std::size_t>(member), call.number, call.mark);
  }
  void hear_word(int member, const PlannedCall& call, GpuWord word) noexcept;
  void say(const PlannedCall& call, GpuWord word, std::span<const std::size_t> members) noexcept;
  void say_to_all(PlannedCall& call, GpuWord word) noexcept;
  /// Whether the paths serve the call; none: a member has not answered yet.
  GpuWord find_paths(const PlannedCall& call) noexcept;
  void begin_on_gpu(PlannedCall& call) noexcept;
  bool combine_on_gpu(PlannedCall& call, std::int64_t count) noexcept;
  /// This rank has its own part where it belongs.
  bool has_placed_own() const noexcept { return !place_.has_begun() || gpu_->has_ended(place_); }
  /// Sees to works that go on, or have failed. False: the group has failed.
  bool look_at_gpu(const PlannedCall& call) noexcept;
  std::size_t piece_of(const PlannedCall& call) const noexcept {
    return call.on_device ? Piece::kLong : static_cast<std::size_t>(choices_.piece);
  }

  // The parts of each rank (slot_parts.cpp).
  /// True if `rank` has a result in a call that combines.
  static bool gets(const Task& task, int rank) noexcept;
  Share share_of(const PlannedCall& call, int rank) const noexcept;
  std::size_t share_bytes(const PlannedCall& call, int rank) const noexcept;
  /// The part of `from`'s input that `to` receives in the first exchange.
  Part first_part(const PlannedCall& call, int from, int to) const noexcept;
  /// Bytes of `from`'s results that `to` receives in the second exchange.
  std::size_t second_bytes(const PlannedCall& call, int from, int to) const noexcept;
  SlotLink::Sending sending(PlannedCall& call, int to) const noexcept;
  SlotLink::Taking taking(PlannedCall& call, int from) const noexcept;
  /// Where this rank writes its results.
  std::byte* results(PlannedCall& call) const noexcept;

  // The links to other members (slot_partners.cpp).
  /// Order in which this rank serves the members, so that not all ranks serve the same one first.
  int turn(int rank) const noexcept { return (rank - me_ + size()) % size(); }
  void find_partners(PlannedCall& call) const;
  const BetweenHosts::Partner* partner(const PlannedCall& call, int rank) const noexcept;
  void open_links(const PlannedCall& call);
  SlotLink& add_link(int rank);
  void exchange(PlannedCall& call) noexcept;
  void help_to_open() noexcept;

  // Execution.
  /// Makes all progress that is possible now; false if the group has failed.
  bool step(PlannedCall& call) noexcept;
  bool step_rounds(PlannedCall& call) noexcept;
  bool found_failure(const PlannedCall& call, int rank) noexcept;
  /// Combines one piece of this rank's share. True if a piece was combined.
  bool combine_piece(PlannedCall& call) noexcept;
  bool over(const PlannedCall& call) const noexcept;
  /// True if data is still to be received from `rank`, or still to be put to it.
  bool takes_from(const PlannedCall& call, int rank) const noexcept;
  bool sends_to(const PlannedCall& call, int rank) const noexcept;
  /// For a rank that is gone: true if the call cannot end without more data from it.
  bool owes_part(const PlannedCall& call, int rank) const noexcept;
  /// The ranks that are gone and without which the calls cannot end. Throws std::bad_alloc.
  std::vector<int> needed_and_gone() const;
  bool has_combined(const PlannedCall& call) const noexcept;
  void finish(PlannedCall& call) noexcept;
  void strange(const PlannedCall& call, int other, const PieceHead& head) noexcept;
  /// Null for this rank and for a member that no call has exchanged messages with.
  SlotLink* link(int rank) const noexcept { return links_[static_cast<std::size_t>(rank)].get(); }
  const std::byte* held(int rank) const noexcept {
    return link(rank) == nullptr ? nullptr : link(rank)->held();
  }

  p2p::SlotTable& slots_;
  const std::string link_name_;
  std::uint64_t copied_ = 0;                      ///< bytes, by all links
  std::vector<std::unique_ptr<SlotLink>> links_;  ///< by rank
  std::vector<int> linked_;                       ///< ranks that have a link, by turn()
  bool reaches_all_ = true;                       ///< the call's partners all have links
  bool may_open_ = false;                         ///< a link may still await its peer's answer
  const Hosts hosts_;
  Choices choices_{};
  /// Key: kind, elements, their bytes, any order, root and counts.
  std::map<std::array<std::uint64_t, 3>, Algorithm> chosen_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  std::unique_ptr<SlotGpu> gpu_;  ///< made by the first call on tensors on a GPU
  GpuWords words_;
  bool waits_for_paths_ = false;   ///< which ring no bell
  std::vector<bool> is_pathless_;  ///< by rank: how pieces come to its GPU is not known yet
  GpuWork combine_;
  GpuWork place_;                    ///< a copy within this rank's tensors
  std::size_t combined_ = 0;         ///< bytes of this rank's share that are combined
  std::size_t combined_pieces_ = 0;  ///< pieces that may be sent to the others
};

}  // namespace weft::detail
