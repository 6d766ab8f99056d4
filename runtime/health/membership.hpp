// The groups of a world, and how they shrink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/health/agreement.hpp"
#include "runtime/health/agreement_wire.hpp"
#include "weft/group.hpp"

namespace weft::detail {

class Membership;

/// The state that copies of a group share.
struct GroupState {
  std::vector<int> members;  ///< ranks of the world, by place
  int place = -1;            ///< index of this rank in `members`; -1 if it is no member
  std::uint32_t epoch = 0;
  std::uint64_t id = 0;
  /// True for the world's group and for the groups that it was shrunk to, one after the other. A
  /// rank that is not in the last group of this chain is excluded from the world; no other group
  /// excludes.
  bool of_chain = false;
  std::weak_ptr<Membership> membership;

  /// Key of the group's agreement. A subset may have the members and the epoch of a group of the
  /// chain, so that the key must tell the two apart.
  std::uint64_t agreement() const noexcept { return of_chain ? ~id : id; }

  static std::shared_ptr<const GroupState> of(const Group& group) { return group.state_; }
  static Group as_group(std::shared_ptr<const GroupState> state) { return Group(std::move(state)); }
};

/// Runs an agreement for each group that is shrunk. This rank takes part on its progress thread,
/// whatever its application does meanwhile. Groups of the chain decide by majority. Any other
/// group, if one of its members cannot be reached and may live, waits until the chain has decided
/// on that member.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  /// Gives every rank of a list the bitwise "or" of all these ranks' words. Throws Error.
  using JoinWords = std::function<void(std::span<const int> ranks, std::span<std::int64_t> words,
                                       Deadline deadline)>;

  /// `local` and `mesh` must outlive the object, and what `join_words` needs the ranks' calls.
  Membership(p2p::LocalRank& local, p2p::Mesh& mesh, JoinWords join_words)
      : local_(local),
        mesh_(mesh),
        join_words_(std::move(join_words)),
        out_of_chain_(static_cast<std::size_t>(local.size)) {}

  int rank() const noexcept { return local_.rank; }

  /// Makes a group of these ranks of the world. Any thread but the progress thread.
  Group make(std::vector<int> members, std::uint32_t epoch) {
    // A caller that makes groups faster than progress enters them waits here, so that few are
    // queued.
    if (made_.fetch_add(1, std::memory_order_relaxed) % kMostQueued == kMostQueued - 1)
      local_.progress.run([] {});
    return make(std::move(members), epoch, false, false);
  }
  /// Any application thread.
  void join_words(std::span<const int> ranks, std::span<std::int64_t> words,
                  Deadline deadline) const {
    if (local_.over()) local_.refusal("split").or_throw();
    join_words_(ranks, words, deadline);
  }
  /// The status of a rank of these that is gone, which this waits for. Any application thread.
  Status await_loss(std::span<const int> ranks, Deadline deadline) const noexcept {
    (void)local_.waiter.wait([&] { return !mesh_.peer_status(ranks).ok(); }, [] { return false; },
                             deadline);
    return mesh_.peer_status(ranks);
  }
  bool over() const noexcept { return local_.over(); }
  Status refusal(const char* operation) const noexcept { return local_.refusal(operation); }
  /// Agrees on the group's survivors and returns their group. Any thread.
  Result<Group> shrink(const GroupState& group, Deadline deadline) noexcept;

  /// Makes the group of all ranks. Call once connected.
  void open();
  const Group& all() const noexcept { return all_; }

  // Progress thread.
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);
  void peer_status_known(int rank);
  /// True if `ranks`, which have declared this rank dead, and the members that cannot be reached
  /// are the majority of the group that was agreed on last.
  bool is_outnumbered_by(const std::vector<bool>& ranks) const;

 private:
  struct Entry {
    std::shared_ptr<const GroupState> group;
    std::unique_ptr<Agreement> agreement;
    Result<Group> result{Group()};
    std::atomic<bool> done{false};  ///< `result` is set
    bool is_result = false;         ///< the group is the result of another entry
    /// The same group, if this rank has made it again.
    std::vector<std::weak_ptr<const GroupState>> made_again;
    std::size_t prune_at = 16;  ///< size of made_again at which expired ones are dropped
  };
  struct Stray {
    int rank;
    std::vector<std::byte> bytes;
  };

  Group make(std::vector<int> members, std::uint32_t epoch, bool of_chain, bool is_result);
  Result<Group> agree(const GroupState& group, Deadline deadline);
  std::shared_ptr<Entry> enter(std::shared_ptr<const GroupState> group, bool is_result);
  std::shared_ptr<Entry> find(std::uint64_t agreement) const;
  std::vector<std::shared_ptr<Entry>> undecided() const;
  void tell(Entry& entry, int member);
  void on_whole(int rank, std::vector<std::byte> bytes);
  void receive(Entry& entry, int rank, std::span<const std::byte> bytes);
  /// Acts on an agreement's progress: sends its messages, and finishes the agreement if it has
  /// ended.
  void follow_up(Entry& entry);
  void finish(Entry& entry, Result<Group> result);
  /// Forgets the oldest agreements that no caller on this rank can ask about any more.
  void forget_old();
  /// Starts the chain's agreement, so that it decides on the lost members of its last group.
  void ask_chain();
  void chain_decided(const Entry& entry);
  /// Ends all agreements of this rank, because it is excluded from the world.
  void end_all(const Status& why);
  void send_all();
  Result<Group> result_of(const Entry& entry);
  Status late(const Entry& entry) const;
  int awaited(const Entry& entry) const;

  static constexpr std::uint64_t kMostQueued = 1024;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  const JoinWords join_words_;
  std::atomic<std::uint64_t> made_{0};
  Group all_;
  // The members below belong to the progress thread.
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;  ///< by GroupState::agreement()
  std::deque<std::uint64_t> decided_;                        ///< keys in entries_, the oldest first
  std::map<int, JoinedParts> parts_;  ///< by rank that sends a message in several parts
  std::deque<Stray> strays_;          ///< messages of groups that this rank has not made yet
  std::vector<std::pair<int, std::vector<std::byte>>> out_;  ///< rank and message, to be sent
  bool sending_ = false;
  std::shared_ptr<const GroupState> agreed_;  ///< the last group of the chain
  std::vector<bool> out_of_chain_;            ///< by rank of the world: excluded by the chain
  Status excluded_;                           ///< an error once this rank is excluded itself
};

}  // namespace weft::detail
