// The groups of a world, and how they shrink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "p2p/local_rank.hpp"
#include "p2p/mesh/mesh.hpp"
#include "runtime/health/agreement.hpp"
#include "weft/group.hpp"

namespace weft::detail {

class Membership;

/// What copies of a group share.
struct GroupState {
  std::vector<int> members;  ///< ranks of the world, by place
  int place = -1;            ///< this rank's
  std::uint32_t epoch = 0;
  std::uint64_t id = 0;
  /// The world's group, or what it was shrunk to, time after time: who is not in the last of these
  /// is out of the world. Of all groups these alone exclude.
  bool of_chain = false;
  std::weak_ptr<Membership> membership;

  /// What its agreement goes by: a subset may have the members and epoch of one of the chain.
  std::uint64_t agreement() const noexcept { return of_chain ? ~id : id; }

  static std::shared_ptr<const GroupState> of(const Group& group) { return group.state_; }
  static Group as_group(std::shared_ptr<const GroupState> state) { return Group(std::move(state)); }
};

/// Runs an agreement for each group that somebody shrinks. This rank takes part by its progress,
/// whatever its application does meanwhile. The chain's decide by majority. Any other waits, where
/// one of its members can't be reached and may live, until the chain has decided on that member.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  /// A message holds up to three sets of members.
  static constexpr std::size_t kMostMembers = 5000;

  /// Both must outlive it.
  Membership(p2p::LocalRank& local, p2p::Mesh& mesh)
      : local_(local), mesh_(mesh), out_of_chain_(static_cast<std::size_t>(local.size)) {}

  /// Any thread: a group of these ranks of the world.
  Group make(std::vector<int> members, std::uint32_t epoch) {
    return make(std::move(members), epoch, false, false);
  }
  /// Any thread.
  Result<Group> shrink(const GroupState& group, Deadline deadline) noexcept;

  /// Once connected: the group of all ranks.
  void open();
  const Group& all() const noexcept { return all_; }

  // Progress thread.
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);
  void fate_known(int rank);
  /// Other ranks have declared this one dead: whether they are most of the group that was agreed on
  /// last, with those that can't be reached.
  bool is_outnumbered_by(const std::vector<bool>& ranks) const;

 private:
  struct Entry {
    std::shared_ptr<const GroupState> group;
    std::unique_ptr<Agreement> agreement;
    Result<Group> result{Group()};
    std::atomic<bool> done{false};  ///< the result is there
    bool is_result = false;         ///< the group is the result of another entry
    /// The same group, made again here.
    std::vector<std::weak_ptr<const GroupState>> made_again;
    std::size_t most_again = 0;  ///< of these before those that are gone are removed
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
  void receive(Entry& entry, int rank, std::span<const std::byte> bytes);
  /// After whatever may have brought an agreement forward.
  void follow_up(Entry& entry);
  void finish(Entry& entry, Result<Group> result);
  /// Forgets the oldest agreements that nobody here can ask about any more.
  void forget_old();
  /// Sees to it that the chain decides on whom its last group has lost.
  void ask_chain();
  void chain_decided(const Entry& entry);
  /// This rank is out of the world: no agreement of its goes on.
  void end_all(const Status& why);
  void send_all();
  Result<Group> result_of(const Entry& entry);
  Status late(const Entry& entry) const;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  Group all_;
  // The progress thread's.
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;  ///< by GroupState::agreement()
  std::deque<std::uint64_t> decided_;                        ///< of entries_, the oldest first
  std::deque<Stray> strays_;  ///< of groups that this rank has not made yet
  std::vector<std::pair<int, std::vector<std::byte>>> out_;
  bool sending_ = false;
  std::shared_ptr<const GroupState> agreed_;  ///< the chain's last
  std::vector<bool> out_of_chain_;            ///< by rank of the world: agreed to be out of it
  Status excluded_;                           ///< an error once this rank is out itself
};

}  // namespace weft::detail
