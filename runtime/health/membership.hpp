// The groups of a world, and how they shrink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  std::weak_ptr<Membership> membership;

  static std::shared_ptr<const GroupState> of(const Group& group) { return group.state_; }
  static Group as_group(std::shared_ptr<const GroupState> state) { return Group(std::move(state)); }
};

/// Runs an agreement for each group that somebody shrinks. This rank takes part by its progress,
/// whatever its application does meanwhile.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  /// A message holds up to three sets of members.
  static constexpr std::size_t kMostMembers = 5000;

  /// Both must outlive it.
  Membership(p2p::LocalRank& local, p2p::Mesh& mesh) : local_(local), mesh_(mesh) {}

  /// Any thread: a group of these ranks of the world.
  Group make(std::vector<int> members, std::uint32_t epoch);
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
  };
  struct Stray {
    int rank;
    std::vector<std::byte> bytes;
  };

  Result<Group> agree(const GroupState& group, Deadline deadline);
  std::shared_ptr<Entry> enter(std::shared_ptr<const GroupState> group);
  std::shared_ptr<Entry> find(std::uint64_t id) const;
  void tell(Entry& entry, int member);
  void receive(Entry& entry, int rank, std::span<const std::byte> bytes);
  /// After whatever may have brought an agreement forward.
  void follow_up(Entry& entry);
  void send_all();
  Result<Group> result_of(const Entry& entry);
  Status late(const Entry& entry) const;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  Group all_;
  // The progress thread's.
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  std::vector<Stray> strays_;  ///< of groups that this rank has not made yet
  std::vector<std::pair<int, std::vector<std::byte>>> out_;
  bool sending_ = false;
  std::shared_ptr<const GroupState> agreed_;  ///< last, of those that come from all()
};

}  // namespace weft::detail
