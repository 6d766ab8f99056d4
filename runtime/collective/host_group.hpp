// One rank's side of a group whose ranks share a host: collectives by loads and stores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/collective/choice.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/group_area.hpp"
#include "runtime/collective/numa_nodes.hpp"
#include "runtime/collective/slice.hpp"

namespace weft::detail {

/// Every call has at most three steps, the same for all of them. Enter: the rank writes its entry,
/// waits for everybody's and compares the calls. Work: it loads from the others' tensors and stores
/// into its own and theirs, so that no two ranks touch the same bytes. Leave: it waits until nobody
/// touches its own tensors any more. A tensor that fits goes with the entry: then nobody touches
/// another's tensors, and the third step falls away. Where the ranks lie in several NUMA nodes, the
/// work of a large tensor may go in steps, with meetings between (numa_work.cpp).
class HostGroup final : public CollectiveGroup {
 public:
  /// `numa_node`: this rank's; -1: none.
  HostGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table, std::vector<int> ranks,
            std::uint64_t id, int numa_node);

  p2p::MemoryRef area() const noexcept override;
  void meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
            Deadline deadline) override;

 private:
  struct Member {
    p2p::Peer* peer = nullptr;
    GroupArea area;
    std::uint64_t done = 0;  ///< as far as it is known
    struct Known {           ///< memory of it that was found before
      std::uint32_t chunk = 0;
      std::byte* base = nullptr;
      std::uint64_t bytes = 0;
    };
    std::array<Known, 4> known{};
    std::size_t next_known = 0;
  };

  void prepare(PlannedCall& call) override;
  void begin(PlannedCall& call) noexcept override;
  void advance_first(PlannedCall& call) noexcept override;
  bool show(PlannedCall& call) noexcept override;
  Status gone_failure(std::uint64_t number) const noexcept override;
  std::vector<int> awaited(const PlannedCall& call) const override;
  bool sees_calls() const noexcept override { return true; }
  void stop() noexcept override;
  int toucher(const PlannedCall& call) noexcept override;

  // Before a call is started.
  void place_input(PlannedCall& call);
  void place_output(PlannedCall& call);
  void place_partial(PlannedCall& call);
  void export_chunk(std::uint32_t chunk);
  bool goes_with_word(const Task& task) const noexcept;
  bool goes_by_nodes(const PlannedCall& call) const;

  // A call's steps.
  void post(PlannedCall& call) noexcept;
  /// Whether everybody has come, with the same call.
  bool enter(PlannedCall& call) noexcept;
  void work(PlannedCall& call) noexcept;
  void leave(PlannedCall& call) noexcept;
  static bool has_done(Member& member, std::uint64_t number) noexcept;
  /// Whether a member that has come with the call has called the same; else the group fails.
  bool agrees(const PlannedCall& call, int other, std::uint64_t word) noexcept;
  void differs(const PlannedCall& call, int other) noexcept;
  /// Whether others touch its tensors, so that it waits until all are done.
  static bool stays_for(const PlannedCall& call, int who) noexcept;
  void ring(int rank) noexcept;

  // Work.
  /// False while memory of another rank is not known here yet, or when it can't be what it says.
  bool find_peers(PlannedCall& call) noexcept;
  bool find_peer(PlannedCall& call, int other) noexcept;
  /// Bytes that a member must have for others to read, or to write; none: it says so itself.
  static std::optional<std::uint64_t> in_bytes(const Task& task, int whose) noexcept;
  static std::uint64_t out_bytes(const PlannedCall& call, int whose) noexcept;
  /// Returns false. Ends the call where that memory can't be mapped.
  bool wait_for_chunk(const PlannedCall& call, int whose) noexcept;
  std::byte* find(Member& member, std::uint32_t chunk, std::uint64_t offset,
                  std::uint64_t bytes) noexcept;
  /// Whether others touch what it gets.
  static bool shows_out(const PlannedCall& call, int whose) noexcept;
  void work_with_words(PlannedCall& call) noexcept;
  // All of these return whether it is done: not when the ranks don't agree, when a member has given
  // the call up, or when there is more to do than may be done now.
  bool work_in_place(PlannedCall& call) noexcept;
  bool combine_slices(PlannedCall& call) noexcept;
  bool exchange_parts(PlannedCall& call) noexcept;
  /// Bytes of a tensor between two looks at whether a member has given the call up.
  static constexpr std::size_t kPiece = 256u << 10;
  /// Does `work(first, count)` for all pieces of `allgather_then_reduce` that are not done yet.
  template <typename Work>
  bool by_pieces(PlannedCall& call, std::size_t whole, std::size_t piece,
                 const Work& work) noexcept {
    for (std::size_t at = 0; at < whole; at += piece) {
      if (piece_++ < call.pieces) continue;
      if (!goes_on(call, whole <= piece)) return false;
      work(at, std::min(piece, whole - at));
      ++call.pieces;
    }
    return true;
  }
  bool copy(PlannedCall& call, std::byte* to, const std::byte* from, std::size_t bytes,
            std::size_t total) noexcept;
  /// Whether the next piece may be touched.
  bool goes_on(const PlannedCall& call, bool alone) noexcept;
  /// Whether a member has given that call up, so that its memory is its own.
  bool is_given_up(std::uint64_t number) const noexcept;
  /// Whether that one has, which may have ended the call before it gave up a later one.
  static bool gave_up(const Member& member, std::uint64_t number) noexcept;

  // Work in steps, by NUMA nodes.
  /// Takes the call as far as it goes; true once nothing is left to do.
  bool work_by_nodes(PlannedCall& call) noexcept;
  bool combine_by_nodes(PlannedCall& call) noexcept;
  bool combine_row(PlannedCall& call, std::byte* to, std::int64_t first,
                   std::int64_t count) noexcept;
  bool combine_column(PlannedCall& call, const Slice& slice) noexcept;
  bool copy_by_nodes(PlannedCall& call) noexcept;
  bool broadcast_by_nodes(PlannedCall& call) noexcept;
  /// Those that have to pass a step before this rank takes the next.
  std::span<const int> awaited_by_nodes(const Task& task) const noexcept;
  bool has_passed(int rank, std::uint64_t number, int step) const noexcept;
  /// What this rank combines of its node.
  std::int64_t partial_elements(const Task& task) const noexcept;

  const std::size_t entry_bytes_;
  p2p::OwnedBlock area_block_;
  GroupArea area_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> exported_;  ///< chunks that every member has been told of
  std::vector<const std::byte*> ins_;    ///< by rank, while a call works
  std::vector<std::uint64_t> in_bytes_;  ///< there
  Status unmapped_{};                    ///< why memory of a rank can't be had here
  int unknown_ = -1;                     ///< the rank whose memory is not known here yet
  std::size_t piece_ = 0;                ///< of the work, in this walk through it
  std::vector<std::byte*> outs_;
  std::vector<const std::byte*> partials_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  const std::size_t streams_from_;  ///< bytes of a whole operation
  NumaNodes nodes_;
  Choices choices_;             ///< the first rank's
  std::size_t word_bytes_ = 0;  ///< the most that goes with the word; the same on all ranks
};

}  // namespace weft::detail
