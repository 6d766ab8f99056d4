#include "runtime/health/agreement.hpp"

#include <algorithm>
#include <utility>

#include "runtime/health/places.hpp"

namespace weft::detail {
Agreement::Agreement(int size, int self, Send send, Quorum quorum, int fan_out)
    : self_(self),
      fan_out_(fan_out),
      send_(std::move(send)),
      quorum_(quorum),
      gone_(static_cast<std::size_t>(size)),
      ended_(gone_),
      out_(gone_),
      accusers_(gone_),
      listeners_(gone_) {}

int Agreement::leader() const noexcept {
  int first = 0;
  while (first != self_ && is_out(first)) ++first;
  return first;
}

int Agreement::awaited() const noexcept {
  if (!takes_part_ || end_ != End::none) return -1;
  const int member = round_ ? round_->gathering.awaited(round_->gathering.wanted(), out_) : -1;
  if (member >= 0 || leader() == self_) return member;
  return leader();
}

bool Agreement::has_suspects() const noexcept {
  if (quorum_ == Quorum::most || !takes_part_ || end_ != End::none) return false;
  for (std::size_t member = 0; member < size(); ++member)
    if (gone_[member] && !ended_[member]) return true;
  return false;
}

void Agreement::gone(int member, bool ended) {
  if (member == self_ || (at(gone_, member) && (at(ended_, member) || !ended))) return;
  set(gone_, member);
  set(out_, member);
  if (ended) set(ended_, member);
  if (takes_part_) consult();
}

void Agreement::begin() {
  if (std::exchange(takes_part_, true)) return;
  consult();
}

AgreementMessage Agreement::known(Step step) const {
  AgreementMessage message;
  message.step = step;
  message.ended = ended_;
  return message;
}

/// Goes on after news: as the leader, or as a member that passes messages on and knows whom to ask.
void Agreement::consult() {
  if (end_ != End::none) return;
  if (leader() == self_) return phase_ == Phase::follows ? lead() : advance();
  pass_on();
  ask();
}

// Of those that begin together, the leader hears its own children only.
void Agreement::ask() {
  const int first = leader();
  if (upper_ >= 0 && !is_out(upper_) && (!asks_leader_ || upper_ == first)) return;
  if (upper_ >= 0 || asks_leader_) {
    upper_ = first;
  } else {
    Places here(size(), true);
    remove(here, out_);
    upper_ = parent_of(self_, members_of(here), fan_out_);
  }
  send_(upper_, known(Step::ask));
}

void Agreement::lead() {
  const std::uint64_t round = std::max({newest_, promised_, ballot_}) / size() + 1;
  ballot_ = promised_ = round * size() + static_cast<std::uint64_t>(self_);
  phase_ = Phase::prepares;
  AgreementMessage request;
  request.step = Step::prepare;
  request.ballot = ballot_;
  request.gone = gone_;
  request.members.assign(size(), true);
  remove(request.members, out_);
  request.members[static_cast<std::size_t>(self_)] = false;
  open_round(std::move(request));
  advance();
}

bool Agreement::counts(const Places& takers) const noexcept {
  std::size_t count = 0;
  bool all_others_ended = true;
  for (std::size_t member = 0; member < size(); ++member) {
    const bool takes = takers[member] && !out_[member];
    count += takes ? 1 : 0;
    all_others_ended = all_others_ended && (takes || ended_[member]);
  }
  if (all_others_ended) return true;
  if (quorum_ == Quorum::all) return false;
  if (2 * count > size()) return true;
  return 2 * count == size() && at(takers, 0) && !is_out(0);
}

bool Agreement::leaves_out_a_taker(const Places& kept) const noexcept {
  for (std::size_t member = 0; member < size(); ++member)
    if (takers_[member] && !out_[member] && !kept[member]) return true;
  return false;
}

struct Agreement::Opinions {
  std::vector<std::vector<int>> gone;      ///< by member: who is gone for it
  std::vector<std::vector<int>> accusers;  ///< by member: who has declared it dead
  Places candidates;

  static bool has(const std::vector<int>& members, int member) {
    return std::ranges::find(members, member) != members.end();
  }
  /// True if `member` itself has given `other` up.
  bool gives_up(int member, int other) const {
    const auto at = static_cast<std::size_t>(member);
    return has(gone[at], other) && !has(accusers[at], other);
  }
  bool accuses(int member, int other) const {
    const bool says_so = has(accusers[static_cast<std::size_t>(other)], member);
    return says_so || (gives_up(member, other) && !gives_up(other, member));
  }

  /// The candidates that another has declared dead. Accusations that would leave at most half of
  /// the candidates don't count: one member that reaches few others must not end them all.
  Places accused() const {
    const std::vector<int> asked = members_of(candidates);
    Places accused(candidates.size());
    for (const int member : asked) {
      std::vector<int> others;
      for (const int other : asked)
        if (other != member && accuses(member, other)) others.push_back(other);
      if (2 * others.size() >= asked.size()) continue;
      for (const int other : others) set(accused, other);
    }
    return accused;
  }
};

Agreement::Opinions Agreement::opinions() const {
  Opinions all;
  // A member without a view of its own takes the same members for gone as the leader did.
  all.gone.assign(size(), members_of(round_->request.gone));
  all.accusers.resize(size());
  all.gone[static_cast<std::size_t>(self_)] = members_of(gone_);
  all.accusers[static_cast<std::size_t>(self_)] = members_of(accusers_);
  for (const AgreementView& view : round_->views)
    for (const int member : members_of(view.members)) {
      all.gone[static_cast<std::size_t>(member)] = members_of(view.gone);
      all.accusers[static_cast<std::size_t>(member)] = members_of(view.accusers);
    }
  all.candidates = takers_;
  remove(all.candidates, out_);
  // This rank can't ask its accusers, but the others may reach them.
  for (const int accuser : members_of(accusers_)) {
    const bool is_reached = std::ranges::none_of(members_of(all.candidates), [&](int member) {
      return member != self_ && Opinions::has(all.gone[static_cast<std::size_t>(member)], accuser);
    });
    if (!is_reached || at(ended_, accuser)) continue;
    set(all.candidates, accuser);
    all.gone[static_cast<std::size_t>(accuser)].clear();
  }
  return all;
}

Places Agreement::connected() const {
  const Opinions all = opinions();
  const Places accused = all.accused();
  Places kept(size());
  Places unreachable(size());  // for a member that is kept
  for (const bool late : {false, true})
    for (std::size_t member = 0; member < size(); ++member) {
      if (accused[member] != late || !all.candidates[member] || unreachable[member]) continue;
      if (std::ranges::any_of(all.gone[member], [&](int other) { return at(kept, other); }))
        continue;
      kept[member] = true;
      for (const int other : all.gone[member]) set(unreachable, other);
    }
  return kept;
}

void Agreement::advance() {
  if (phase_ == Phase::follows) return;
  pass_on();
  if (round_->gathering.awaited(round_->gathering.wanted(), out_) >= 0) return;
  Places takers = answered_of(round_->gathering.wanted());
  if (!counts(takers)) return quorum_ == Quorum::most ? settle(End::cut_off, self_) : void();
  if (phase_ == Phase::prepares) return propose(std::move(takers));
  survivors_ = proposal_;
  settle(End::decided, self_);
}

void Agreement::propose(Places takers) {
  takers_ = std::move(takers);
  // A value that may already be decided must stay: propose the newest one that any taker accepted.
  if (accepted_ == 0) {
    Places kept = connected();
    if (quorum_ == Quorum::all && leaves_out_a_taker(kept)) return;
    proposal_ = std::move(kept);
  }
  accepted_ = ballot_;
  phase_ = Phase::proposes;
  AgreementMessage request;
  request.step = Step::propose;
  request.ballot = ballot_;
  request.survivors = proposal_;
  request.members = takers_;
  request.members[static_cast<std::size_t>(self_)] = false;
  open_round(std::move(request));
  advance();
}

void Agreement::settle(End end, int told_by) {
  end_ = end;
  phase_ = Phase::follows;
  // Members that promised to this rank's ballot may not reach the rank that it gave way to, and
  // those that it owes an answer wait for one.
  if (round_)
    for (const Debt& debt : round_->debts) set(listeners_, debt.to);
  round_.reset();
  for (const int member : members_of(listeners_))
    if (member != told_by && !is_out(member)) answer_late(member, Step::ask);
}

void Agreement::answer_late(int from, Step step) {
  if (step != Step::ask && step != Step::prepare && step != Step::propose) return;
  AgreementMessage message;
  message.step = end_ == End::decided ? Step::decided : Step::cut_off;
  message.survivors = survivors_;
  send_(from, message);
}

/// Returns true if more members are known to have ended than before.
bool Agreement::learn(const Places& ended) {
  bool more = false;
  for (std::size_t member = 0; is_set(ended) && member < size(); ++member) {
    if (static_cast<int>(member) == self_ || !ended[member] || ended_[member]) continue;
    ended_[member] = out_[member] = more = true;
  }
  return more;
}

void Agreement::receive(int from, const AgreementMessage& message) {
  if (from == self_ || is_out(from)) return;
  newest_ = std::max(newest_, message.ballot);
  if (end_ != End::none) return answer_late(from, message.step);
  const bool more_ended = learn(message.ended);
  switch (message.step) {
    case Step::ask:
      on_ask(from);
      break;
    case Step::prepare:
    case Step::propose:
      on_request(from, message);
      break;
    case Step::promise:
    case Step::accepted:
      on_answer(from, message);
      break;
    case Step::refuse:
      on_refuse(from, message);
      break;
    case Step::decided:
      if (!is_set(message.survivors)) break;
      survivors_ = message.survivors;
      return settle(End::decided, from);
    case Step::cut_off:
      // The answer is the leader's own view; the remaining members may reach more.
      return quorum_ == Quorum::most ? gone(from, false) : void();
    case Step::count_:
      break;
  }
  if (more_ended && takes_part_) consult();
}

void Agreement::on_ask(int from) {
  set(listeners_, from);
  takes_part_ = true;
  // `from` gave way to a leader that is perhaps gone by now, and waits for this member. It must not
  // wait for `from` in turn, as the member that would tell it the outcome might.
  if (from < self_) {
    asks_leader_ = true;
    upper_ = -1;
  }
  consult();
}

void Agreement::on_refuse(int from, const AgreementMessage& message) {
  if (phase_ == Phase::follows || message.ballot <= ballot_) return;
  give_way(message.ballot);
  // If this rank gives way to a leader that it cannot hear, the refusing member reports the
  // outcome.
  if (phase_ == Phase::follows && end_ == End::none) send_(from, known(Step::ask));
}

void Agreement::give_way(std::uint64_t ballot) {
  if (phase_ == Phase::follows || ballot <= ballot_) return;
  // Of two leaders, the one with the lower rank goes on; otherwise they could outbid each other
  // forever.
  if (owner(ballot) > self_) return lead();
  phase_ = Phase::follows;
  close_round();
}

}  // namespace weft::detail
