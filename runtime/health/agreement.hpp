// Which members of a group go on: one answer for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace weft::detail {

/// Members of a group, by their place in it.
using Places = std::vector<bool>;

/// What members tell each other. `gone` and `ended` are what the sender knows itself.
struct AgreementMessage {
  enum class Step : std::uint8_t {
    ask,       ///< to who should lead: begin, and tell me the end
    prepare,   ///< the leader's: promise to take part in no older ballot
    promise,   ///< with the newest proposal accepted so far
    refuse,    ///< a newer ballot was promised, which `ballot` names
    propose,   ///< the leader's: `survivors` go on
    accepted,  ///< the proposal is held
    decided,   ///< `survivors` it is
    cut_off,   ///< the leader ends: it is on the lesser side
    count_
  };
  Step step = Step::ask;
  std::uint64_t ballot = 0;
  std::uint64_t accepted = 0;  ///< promise: the ballot in which `survivors` were accepted; 0: none
  Places survivors;            ///< promise, propose, decided
  Places gone;                 ///< ask, promise
  Places ended;                ///< ask, promise: of those, who ended for certain
};

/// Which members suffice for an answer.
enum class Quorum : std::uint8_t {
  most,  ///< most of the group, of two halves that with its first member; or all that have not
         ///< ended
  all    ///< all that have not ended: who has not, and can't be reached, is decided elsewhere
};

/// One member's part in one agreement, as pure state: what happens to it comes in by calls, what
/// it says goes out by `send`, which loses nothing and keeps the order as long as both ends live.
/// Paxos, led by the first member that is not gone, with one rule besides: a ballot counts if who
/// takes part is most of the group (of two halves, the one with its first member), or if every
/// other member has ended for certain. Two that count share a member that still lives, or there is
/// nobody left who knew of the older: so there is one answer at most, whoever dies and whoever is
/// cut off. With Quorum::all only the latter counts, nobody is left out who has not ended, and
/// nobody is cut off. Each member that is gone for one that waits must sooner or later be told of
/// by gone(). Decision 016. One thread.
class Agreement {
 public:
  using Send = std::function<void(int to, const AgreementMessage& message)>;
  enum class End : std::uint8_t { none, decided, cut_off };

  Agreement(int size, int self, Send send, Quorum quorum = Quorum::most);

  /// A member is gone for this rank. `ended`: its process is known to have ended, or it has left,
  /// or (Quorum::all) has been counted out elsewhere; may come later.
  void gone(int member, bool ended);
  /// This rank wants an answer. Without effect if it takes part already.
  void begin();
  void receive(int from, const AgreementMessage& message);

  End end() const noexcept { return end_; }
  /// Once decided: whoever goes on, perhaps without this rank.
  const Places& survivors() const noexcept { return survivors_; }
  /// The first member that an answer hangs on; -1: none.
  int awaited() const noexcept;
  /// Quorum::all: takes part, and can't end before it is told whether a member that is gone has
  /// ended.
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
  /// The leader's next step, if nobody is to be waited for.
  void advance();
  bool all_answered() const noexcept;
  bool counts(const Places& takers) const noexcept;
  bool leaves_out_a_taker(const Places& kept) const noexcept;
  /// Those who took part and can all reach each other, the first first.
  Places connected() const;
  void settle(End end);
  void on_prepare(int from, const AgreementMessage& message);
  void on_refuse(int from, const AgreementMessage& message);
  void on_propose(int from, const AgreementMessage& message);
  /// A newer ballot than this rank's own was promised.
  void give_way(std::uint64_t ballot);
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

  // As a voter.
  std::uint64_t promised_ = 0;
  std::uint64_t accepted_ = 0;
  Places proposal_;  ///< that was accepted

  // As the leader.
  Phase phase_ = Phase::follows;
  std::uint64_t ballot_ = 0;
  std::uint64_t newest_ = 0;      ///< ballot that was heard of
  Places takers_;                 ///< who promised
  Places answered_;               ///< who has answered the phase's question
  std::vector<Places> reported_;  ///< whom each member takes for gone
};

}  // namespace weft::detail
