// One rank's side of a group whose ranks share a host: collectives by loads and stores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/collective/choice.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/device_group.hpp"
#include "runtime/collective/group_area.hpp"
#include "runtime/collective/numa_nodes.hpp"
#include "runtime/collective/slice.hpp"

namespace weft::detail {

/// Every call has up to three stages, the same for all of them. Enter: the rank writes its entry,
/// waits for the entries of all members and compares the calls. Work: the rank loads from the
/// others' tensors and stores into its own and theirs; no rank touches bytes that another rank
/// writes. Leave: the rank waits until no other rank touches its tensors any more. A tensor that
/// fits travels inside the entry: then no rank touches another's tensors, and the third stage is
/// skipped. If the ranks lie in several NUMA nodes, the work on a large tensor may go in steps,
/// with synchronization between them (numa_work.cpp).
class HostGroup final : public CollectiveGroup {
 public:
  /// `numa_node`: of this rank; -1: none.
  HostGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table, std::vector<int> ranks,
            std::uint64_t id, std::uint64_t nth, int numa_node);

  p2p::MemoryRef area() const noexcept override;
  void meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
            Deadline deadline) override;

 private:
  /// From this size of an operation on, in bytes, the data a rank writes leaves its own cache
  /// before it is read anyway. Stores past the shared cache then do not depend on the machine's
  /// other load.
  static constexpr std::size_t kStreamBytes = 4u << 20;

  struct Member {
    p2p::Peer* peer = nullptr;
    GroupArea area;
    std::uint64_t done = 0;  ///< last value read from done()
    struct Known {           ///< memory of the member that was mapped before
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
  void offer(PlannedCall& planned, const Task& task, const Call& call) override;
  std::shared_ptr<PlannedCall> make_preparation(PlannedCall& call) override;
  bool works_silently() const noexcept override;
  bool gpu_works() noexcept override;
  bool has_lent_gpus() const noexcept override { return device_ != nullptr; }
  bool show(PlannedCall& call) noexcept override;
  Status gone_failure(std::uint64_t number) const noexcept override;
  bool needs_more(const PlannedCall& call, int member) noexcept override;
  void add_awaited(const PlannedCall& call, std::vector<int>& members) const override;
  bool sees_calls() const noexcept override { return true; }
  void stop() noexcept override;
  int toucher(const PlannedCall& call) noexcept override;

  /// The member's area, once its chunk is known. Throws Error.
  p2p::RemoteMemory area_of(const Member& member, const p2p::MemoryRef& place, Deadline deadline);
  /// The memory of a member's area is not known here: the member is gone, or too late.
  [[noreturn]] void throw_unknown(const p2p::Peer& peer) const;

  // Before a call starts.
  void place_input(PlannedCall& call);
  void place_output(PlannedCall& call);
  void place_partial(PlannedCall& call);
  void export_chunk(std::uint32_t chunk);
  bool goes_with_word(const Task& task) const noexcept;
  bool goes_by_nodes(const PlannedCall& call) const;

  // The stages of a call.
  void post(PlannedCall& call) noexcept;
  /// True if all members have entered with the same call.
  bool enter(PlannedCall& call) noexcept;
  void work(PlannedCall& call) noexcept;
  void leave(PlannedCall& call) noexcept;
  static bool has_done(Member& member, std::uint64_t number) noexcept;
  /// True if member `other` has entered with the same call; otherwise the group fails.
  bool agrees(const PlannedCall& call, int other, std::uint64_t word) noexcept;
  void differs(const PlannedCall& call, int other) noexcept;
  /// True if others touch `who`'s tensors, so that `who` must wait until all members are done.
  static bool stays_for(const PlannedCall& call, int who) noexcept;
  void ring(int rank) noexcept;
  void ring_all() noexcept;
  /// This rank's part of the call is done.
  void say_done(PlannedCall& call) noexcept;
  /// Tells that this rank touches nothing of the calls that were given up, once that is so.
  void say_stopped() noexcept;

  // Calls that the GPUs carry out (host_device.cpp).
  /// Moves such a call on, while its stage is entering.
  void meet_on_device(PlannedCall& call) noexcept;
  /// One step of that; false if it could not go on.
  bool step_on_device(PlannedCall& call);
  /// The paths between the GPUs are to be proven, or are known.
  void begin_to_prove(PlannedCall& call);
  enum class Offers : std::uint8_t { missing, all, refused };
  /// Whether all members have offered their GPUs for the call. If one has refused, it falls back.
  Offers gather_offers(PlannedCall& call);
  /// Learns where the members' tensors are.
  DeviceGroup::Found::How find_on_device(PlannedCall& call);
  /// The least that all members have said; DeviceWord::no or later if one has.
  DeviceWord all_said(const PlannedCall& call) const noexcept;
  void say(PlannedCall& call, DeviceWord what) noexcept;
  void begin_on_device(PlannedCall& call);
  void refuse_on_device(PlannedCall& call, DeviceWord said);

  // Plans that streams run (host_streams.cpp).
  /// Offers the GPU for that, or keeps the reason why not. Throws Error.
  void offer_words(PlannedCall& one);
  /// Words that no other rank writes, zeroed. Throws Error.
  std::shared_ptr<const p2p::OwnedBlock> take_words();
  /// False: a stream waits. Throws Error.
  bool pin_words(StreamRuns& runs, const std::shared_ptr<p2p::cuda::Gpu>& gpu,
                 std::shared_ptr<const void> memory, std::byte* data, std::size_t bytes);
  /// Finds a member's words.
  DeviceGroup::Found::How find_words(PlannedCall& call, int member, const DevicePlaces& places);
  /// The ranks have agreed that streams don't run the plan.
  void refuse_streams(PlannedCall& call) noexcept;
  /// All have agreed: streams may run the plan.
  void begin_runs(PlannedCall& call);
  /// Whether the call goes on once this rank's GPU has done something.
  static bool waits_for_own_gpu(const PlannedCall& call) noexcept;
  /// Whether this rank's GPU works for the call.
  static bool is_working(const PlannedCall& call) noexcept;

  // Work.
  /// Finds all tensors. False while memory of another rank is not mapped yet, or if what the rank
  /// announces is invalid.
  bool find_peers(PlannedCall& call) noexcept;
  bool find_peer(PlannedCall& call, int other) noexcept;
  /// Bytes that a member must offer for reading, or for writing; empty: the member states the size.
  static std::optional<std::uint64_t> in_bytes(const Task& task, int whose) noexcept;
  static std::uint64_t out_bytes(const PlannedCall& call, int whose) noexcept;
  /// Returns false. Ends the call if that memory cannot be mapped.
  bool wait_for_chunk(const PlannedCall& call, int whose) noexcept;
  std::byte* find(Member& member, std::uint32_t chunk, std::uint64_t offset,
                  std::uint64_t bytes) noexcept;
  /// True if other members write `whose`'s output.
  static bool shows_out(const PlannedCall& call, int whose) noexcept;
  void work_with_words(PlannedCall& call) noexcept;
  // These return true once the work is done; false if the ranks disagree, if a member has given
  // the call up, or if more work is left than may be done now.
  bool work_in_place(PlannedCall& call) noexcept;
  bool combine_slices(PlannedCall& call) noexcept;
  bool exchange_parts(PlannedCall& call) noexcept;
  /// Bytes of a tensor between two checks whether a member has given the call up.
  static constexpr std::size_t kPiece = 256u << 10;
  /// Calls `work(first, count)` for every piece of `whole` that is not done yet.
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
  /// True if the next piece may be touched.
  bool goes_on(const PlannedCall& call, bool alone) noexcept;
  /// True if a member has given call `number` up, so that its tensors are its own again.
  bool is_given_up(std::uint64_t number) const noexcept;
  /// True if `member` has given call `number` up. A member may also have ended the call and then
  /// given up a later one; that is not counted.
  static bool gave_up(const Member& member, std::uint64_t number) noexcept;

  // Work in steps by NUMA nodes.
  /// Moves the call as far as possible; true once no work is left.
  bool work_by_nodes(PlannedCall& call) noexcept;
  bool combine_by_nodes(PlannedCall& call) noexcept;
  bool combine_row(PlannedCall& call, std::byte* to, std::int64_t first,
                   std::int64_t count) noexcept;
  bool combine_column(PlannedCall& call, const Slice& slice) noexcept;
  bool copy_by_nodes(PlannedCall& call) noexcept;
  bool broadcast_by_nodes(PlannedCall& call) noexcept;
  /// The members that must complete a step before this rank begins the next.
  std::span<const int> awaited_by_nodes(const Task& task) const noexcept;
  bool has_passed(int rank, std::uint64_t number, int step) const noexcept;
  /// Elements that this rank combines for its node.
  std::int64_t partial_elements(const Task& task) const noexcept;

  const std::size_t entry_bytes_;
  p2p::OwnedBlock area_block_;
  GroupArea area_;
  std::vector<Member> members_;
  std::mutex export_mutex_;
  std::vector<std::uint32_t> exported_;  ///< chunks that every member has been told of
  std::vector<const std::byte*> ins_;    ///< by member, while a call works
  std::vector<std::uint64_t> in_bytes_;  ///< bytes of `ins_`
  Status unmapped_{};                    ///< why memory of a member cannot be mapped here
  int unknown_ = -1;                     ///< the member whose memory is not mapped here yet
  std::size_t piece_ = 0;                ///< number of the piece in this pass over the work
  std::vector<std::byte*> outs_;
  std::vector<const std::byte*> partials_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  NumaNodes nodes_;
  Choices choices_;                      ///< of the first rank
  std::size_t word_bytes_ = 0;           ///< largest tensor inside an entry; the same on all ranks
  std::unique_ptr<DeviceGroup> device_;  ///< made by the first offer
  struct Words {                         ///< of a plan that streams run, or ran
    std::shared_ptr<const p2p::OwnedBlock> block;
    /// Those of the others, which wrote these, and the use that they had.
    std::vector<std::pair<std::uint32_t*, std::uint32_t>> partners;
  };
  std::vector<Words> words_;  ///< kept until no rank is in the group any more
  bool stops_ = false;        ///< it is to be said that this rank has stopped
};

}  // namespace weft::detail
