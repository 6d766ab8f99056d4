// Agreement of a group's members on its survivors: one answer for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/health/agreement_message.hpp"
#include "runtime/health/gathering.hpp"

namespace weft::detail {

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
/// report each gone member that the agreement waits for, by gone(). See decision 016.
///
/// If a member has declared another dead, the other is left out, as long as more than half of the
/// members in question remain then. Otherwise, and if both have, the later of the two is.
///
/// Messages go up and down a tree, so that a member sends and gets a few for each of its children.
/// The tree only carries them: an answer names the members that gave it, and a member that the tree
/// doesn't reach is asked directly. Each member but the leader has an upper member, of a lower
/// place, that will tell it the outcome: the one that passed the newest ballot's request on to it,
/// or the one that it asked. If the upper member is gone, it asks the leader. Not thread-safe.
class Agreement {
 public:
  using Send = std::function<void(int to, const AgreementMessage& message)>;
  enum class End : std::uint8_t { none, decided, cut_off };

  Agreement(int size, int self, Send send, Quorum quorum = Quorum::most, int fan_out = kFanOut);

  /// Reports that `member` is gone for this rank. `ended`: its process has certainly ended, it has
  /// left, or (Quorum::all) another agreement has excluded it. May be called again with `ended`.
  void gone(int member, bool ended);
  /// Reports, before gone(), that `member` has declared this rank dead, and not the other way
  /// round.
  void accused_by(int member) { set(accusers_, member); }
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

  /// A requester, and the members that it asked through this one.
  struct Debt {
    int to;
    Places subtree;
  };
  /// A request that this member passes on, its own as the leader or another's, and the answers.
  struct Round {
    AgreementMessage request;
    Gathering gathering;
    std::vector<AgreementView> views;  ///< of those that have answered
    std::vector<Debt> debts;           ///< the answers that this member still owes
  };

  bool is_out(int member) const noexcept { return at(out_, member); }
  static bool at(const Places& places, int member) noexcept {
    return places[static_cast<std::size_t>(member)];
  }
  static void set(Places& places, int member) noexcept {
    places[static_cast<std::size_t>(member)] = true;
  }
  bool is_set(const Places& places) const noexcept { return places.size() == size(); }
  std::size_t size() const noexcept { return out_.size(); }
  int leader() const noexcept;
  int owner(std::uint64_t ballot) const noexcept { return static_cast<int>(ballot % size()); }
  void consult();
  /// Asks to be told of the outcome, unless the upper member will tell it.
  void ask();
  void lead();
  /// The leader's next step, once all awaited answers have arrived.
  void advance();
  void propose(Places takers);
  bool counts(const Places& takers) const noexcept;
  bool leaves_out_a_taker(const Places& kept) const noexcept;
  /// The participants that can all reach each other, chosen greedily from the lowest place on,
  /// those that another participant has declared dead last. A member that this one can't reach,
  /// because it has declared this one dead, is chosen too if all other participants reach it.
  Places connected() const;
  /// The views of all participants.
  struct Opinions;
  Opinions opinions() const;
  void settle(End end, int told_by);

  void open_round(AgreementMessage request);
  /// Ends the round; what this member owes of an older ballot it answers as far as it can.
  void close_round();
  /// Asks whom it must, and answers what is complete. No effect without a round.
  void pass_on();
  void answer(const Debt& debt);
  Places answered_of(const Places& subtree) const;

  void on_ask(int from);
  void on_request(int from, const AgreementMessage& message);
  void on_answer(int from, const AgreementMessage& message);
  void on_refuse(int from, const AgreementMessage& message);
  void refuse(int from, const AgreementMessage& message);
  void answer_late(int from, Step step);
  /// Stops leading if a newer `ballot` than this rank's own was promised; or leads again with a
  /// newer ballot.
  void give_way(std::uint64_t ballot);
  bool learn(const Places& ended);
  AgreementMessage known(Step step) const;

  const int self_;
  const int fan_out_;
  const Send send_;
  const Quorum quorum_;
  Places gone_;
  Places ended_;
  Places out_;  ///< gone or ended
  Places accusers_;
  bool takes_part_ = false;
  int upper_ = -1;
  /// A leader that gave way waits for this member, so that only the leader may be its upper member.
  bool asks_leader_ = false;
  Places listeners_;  ///< members that count on this one to tell them of the outcome
  End end_ = End::none;
  Places survivors_;

  // State as an acceptor.
  std::uint64_t promised_ = 0;
  std::uint64_t accepted_ = 0;  ///< newest ballot known to be accepted by a member
  Places proposal_;             ///< its proposal
  std::optional<Round> round_;

  // State as the leader.
  Phase phase_ = Phase::follows;
  std::uint64_t ballot_ = 0;
  std::uint64_t newest_ = 0;  ///< newest ballot seen in any message
  Places takers_;             ///< members that promised
};

}  // namespace weft::detail
