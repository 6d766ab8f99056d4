// Agreement of a group's members on its survivors: one answer for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace weft::detail {

/// A set of members of a group, indexed by their place in the group.
using Places = std::vector<bool>;

/// A message between members. `gone` and `ended` are the sender's own knowledge.
struct AgreementMessage {
  enum class Step : std::uint8_t {
    ask,       ///< to the member that should lead: begin, and report the outcome
    prepare,   ///< from the leader: promise to take part in no older ballot
    promise,   ///< carries the newest proposal accepted so far
    refuse,    ///< a newer ballot was promised: `ballot`
    propose,   ///< from the leader: `survivors` go on
    accepted,  ///< the proposal is stored
    decided,   ///< the outcome is `survivors`
    cut_off,   ///< the leader gives up, because it is in the minority
    count_
  };
  Step step = Step::ask;
  std::uint64_t ballot = 0;
  std::uint64_t accepted = 0;  ///< promise: the ballot in which `survivors` were accepted; 0: none
  Places survivors;            ///< promise, propose, decided
  Places gone;                 ///< ask, promise
  Places ended;                ///< ask, promise: members of `gone` that have certainly ended
};

/// The members that suffice for an answer.
enum class Quorum : std::uint8_t {
  most,  ///< more than half of the group, or half of it with its first member, or all that have
         ///< not ended
  all    ///< all that have not ended; another agreement decides on those that cannot be reached
};

/// One member's part in one agreement, as a state machine without I/O: events arrive as calls,
/// messages leave through `send`, which is reliable and ordered as long as both ends live.
///
/// The protocol is Paxos, led by the first member that is not gone, with one additional rule: a
/// ballot counts if its participants are more than half of the group (or half of it with the first
/// member), or if every other member has certainly ended. Two ballots that count share a member
/// that still lives, or no living member knew of the older one. So there is at most one answer,
/// whichever members die or are cut off. With Quorum::all only the second condition counts: no
/// member is left out that has not ended, and no member is cut off. The caller must eventually
/// report each gone member that the agreement waits for, by gone(). See decision 016. Not
/// thread-safe.
class Agreement {
 public:
  using Send = std::function<void(int to, const AgreementMessage& message)>;
  enum class End : std::uint8_t { none, decided, cut_off };

  Agreement(int size, int self, Send send, Quorum quorum = Quorum::most);

  /// Reports that `member` is gone for this rank. `ended`: its process has certainly ended, it has
  /// left, or (Quorum::all) another agreement has excluded it. May be called again with `ended`.
  void gone(int member, bool ended);
  /// Starts this rank's part. No effect if it takes part already.
  void begin();
  void receive(int from, const AgreementMessage& message);

  End end() const noexcept { return end_; }
  /// The members that go on, once decided; this rank may not be among them.
  const Places& survivors() const noexcept { return survivors_; }
  /// The first member whose answer is awaited; -1: no member.
  int awaited() const noexcept;
  /// Quorum::all: true if this rank takes part and must first learn whether a member that is gone
  /// has ended.
  bool has_suspects() const noexcept;

 private:
  using Step = AgreementMessage::Step;
  enum class Phase : std::uint8_t { follows, prepares, proposes };

  bool is_out(int member) const noexcept { return at(gone_, member) || at(ended_, member); }
  static bool at(const Places& places, int member) noexcept {
    return places[static_cast<std::size_t>(member)];
  }
  int leader() const noexcept;
  int owner(std::uint64_t ballot) const noexcept { return static_cast<int>(ballot % places()); }
  std::uint64_t places() const noexcept { return static_cast<std::uint64_t>(size_); }
  void consult();
  void lead();
  /// The leader's next step, once all awaited answers have arrived.
  void advance();
  bool all_answered() noexcept;
  bool counts(const Places& takers) const noexcept;
  bool leaves_out_a_taker(const Places& kept) const noexcept;
  /// The participants that can all reach each other, chosen greedily from the lowest place on.
  Places connected() const;
  void settle(End end);
  void on_prepare(int from, const AgreementMessage& message);
  void on_refuse(int from, const AgreementMessage& message);
  void on_propose(int from, const AgreementMessage& message);
  /// Stops leading if a newer `ballot` than this rank's own was promised; or leads again with a
  /// newer ballot.
  void give_way(std::uint64_t ballot);
  static std::vector<int> members_of(const Places& set);
  bool learn(int from, const AgreementMessage& message);
  AgreementMessage known(Step step) const;

  const int size_;
  const int self_;
  const Send send_;
  const Quorum quorum_;
  Places gone_;
  Places ended_;
  bool takes_part_ = false;
  int asked_ = -1;
  Places askers_;
  End end_ = End::none;
  Places survivors_;

  // State as an acceptor.
  std::uint64_t promised_ = 0;
  std::uint64_t accepted_ = 0;
  Places proposal_;  ///< the accepted proposal

  // State as the leader.
  Phase phase_ = Phase::follows;
  std::uint64_t ballot_ = 0;
  std::uint64_t newest_ = 0;  ///< newest ballot seen in any message
  Places takers_;             ///< members that promised
  Places answered_;           ///< members that have answered in this phase
  int first_awaited_ = 0;     ///< answers of members before it are not awaited in this phase
  /// The members that each member considers gone, ascending.
  std::vector<std::vector<int>> reported_;
};

}  // namespace weft::detail
