#include "runtime/health/agreement.hpp"

#include <algorithm>
#include <utility>

namespace weft::detail {

Agreement::Agreement(int size, int self, Send send, Quorum quorum)
    : size_(size),
      self_(self),
      send_(std::move(send)),
      quorum_(quorum),
      gone_(places()),
      ended_(places()),
      askers_(places()),
      takers_(places()),
      answered_(places()),
      reported_(places()) {}

int Agreement::leader() const noexcept {
  int first = 0;
  while (first != self_ && is_out(first)) ++first;
  return first;
}

int Agreement::awaited() const noexcept {
  if (!takes_part_ || end_ != End::none) return -1;
  if (phase_ == Phase::follows) return leader() == self_ ? -1 : leader();
  for (int member = first_awaited_; member < size_; ++member) {
    const bool is_asked = phase_ == Phase::prepares || at(takers_, member);
    if (is_asked && !is_out(member) && !at(answered_, member)) return member;
  }
  return -1;
}

bool Agreement::has_suspects() const noexcept {
  if (quorum_ == Quorum::most || !takes_part_ || end_ != End::none) return false;
  for (int member = 0; member < size_; ++member)
    if (at(gone_, member) && !at(ended_, member)) return true;
  return false;
}

void Agreement::gone(int member, bool ended) {
  const auto place = static_cast<std::size_t>(member);
  if (member == self_ || (gone_[place] && (ended_[place] || !ended))) return;
  gone_[place] = true;
  if (ended) ended_[place] = true;
  if (takes_part_) consult();
}

void Agreement::begin() {
  if (std::exchange(takes_part_, true)) return;
  consult();
}

AgreementMessage Agreement::known(Step step) const {
  AgreementMessage message;
  message.step = step;
  message.gone = gone_;
  message.ended = ended_;
  return message;
}

/// Leads the agreement, or asks the first reachable member to lead it.
void Agreement::consult() {
  if (end_ != End::none) return;
  const int first = leader();
  if (first != self_) {
    phase_ = Phase::follows;
    if (std::exchange(asked_, first) != first) send_(first, known(Step::ask));
  } else if (phase_ == Phase::follows) {
    lead();
  } else {
    advance();
  }
}

void Agreement::lead() {
  const std::uint64_t round = std::max({newest_, promised_, ballot_}) / places() + 1;
  ballot_ = promised_ = round * places() + static_cast<std::uint64_t>(self_);
  phase_ = Phase::prepares;
  takers_.assign(places(), false);
  answered_.assign(places(), false);
  first_awaited_ = 0;
  takers_[static_cast<std::size_t>(self_)] = answered_[static_cast<std::size_t>(self_)] = true;
  AgreementMessage message;
  message.step = Step::prepare;
  message.ballot = ballot_;
  for (int member = 0; member < size_; ++member)
    if (member != self_ && !is_out(member)) send_(member, message);
  advance();
}

// An answer that is no longer awaited stays so until the phase ends, so that all answers together
// cost one pass over the members.
bool Agreement::all_answered() noexcept {
  const int member = awaited();
  first_awaited_ = member < 0 ? size_ : member;
  return member < 0;
}

bool Agreement::counts(const Places& takers) const noexcept {
  int count = 0;
  bool all_others_ended = true;
  for (int member = 0; member < size_; ++member) {
    const bool takes = at(takers, member) && !is_out(member);
    count += takes ? 1 : 0;
    all_others_ended = all_others_ended && (takes || at(ended_, member));
  }
  if (all_others_ended) return true;
  if (quorum_ == Quorum::all) return false;
  if (2 * count > size_) return true;
  return 2 * count == size_ && at(takers, 0) && !is_out(0);
}

bool Agreement::leaves_out_a_taker(const Places& kept) const noexcept {
  for (int member = 0; member < size_; ++member)
    if (at(takers_, member) && !is_out(member) && !at(kept, member)) return true;
  return false;
}

std::vector<int> Agreement::members_of(const Places& set) {
  std::vector<int> members;
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) members.push_back(static_cast<int>(member));
  return members;
}

Places Agreement::connected() const {
  const std::vector<int> own = members_of(gone_);
  Places kept(places());
  Places unreachable(places());  // for a member that is kept
  for (int member = 0; member < size_; ++member) {
    const std::vector<int>& gone =
        member == self_ ? own : reported_[static_cast<std::size_t>(member)];
    const bool fits = at(takers_, member) && !is_out(member) && !at(unreachable, member) &&
                      std::ranges::none_of(gone, [&](int other) { return at(kept, other); });
    kept[static_cast<std::size_t>(member)] = fits;
    for (std::size_t i = 0; fits && i < gone.size(); ++i)
      unreachable[static_cast<std::size_t>(gone[i])] = true;
  }
  return kept;
}

void Agreement::advance() {
  if (phase_ == Phase::follows || !all_answered()) return;
  if (!counts(phase_ == Phase::prepares ? takers_ : answered_))
    return quorum_ == Quorum::most ? settle(End::cut_off) : void();
  if (phase_ == Phase::proposes) {
    survivors_ = proposal_;
    return settle(End::decided);
  }
  // A value that may already be decided must stay: propose the newest one that any taker accepted.
  if (accepted_ == 0) {
    Places kept = connected();
    if (quorum_ == Quorum::all && leaves_out_a_taker(kept)) return;
    proposal_ = std::move(kept);
  }
  accepted_ = ballot_;
  phase_ = Phase::proposes;
  answered_.assign(places(), false);
  first_awaited_ = 0;
  answered_[static_cast<std::size_t>(self_)] = true;
  AgreementMessage message;
  message.step = Step::propose;
  message.ballot = ballot_;
  message.survivors = proposal_;
  for (int member = 0; member < size_; ++member)
    if (member != self_ && at(takers_, member) && !is_out(member)) send_(member, message);
  advance();
}

void Agreement::settle(End end) {
  // Members that promised to this rank's ballot may not reach the rank that it gave way to.
  const bool led = ballot_ != 0;
  end_ = end;
  phase_ = Phase::follows;
  AgreementMessage message;
  message.step = end == End::decided ? Step::decided : Step::cut_off;
  message.survivors = survivors_;
  for (int member = 0; member < size_; ++member)
    if (member != self_ && !is_out(member) && (led || at(askers_, member))) send_(member, message);
}

/// Returns true if more members are known to have ended than before.
bool Agreement::learn(int from, const AgreementMessage& message) {
  if (message.gone.size() != places() || message.ended.size() != places()) return false;
  reported_[static_cast<std::size_t>(from)] = members_of(message.gone);
  bool more = false;
  for (int member = 0; member < size_; ++member) {
    if (member == self_ || !at(message.ended, member) || at(ended_, member)) continue;
    ended_[static_cast<std::size_t>(member)] = more = true;
  }
  return more;
}

void Agreement::receive(int from, const AgreementMessage& message) {
  if (from == self_ || is_out(from)) return;
  const bool has_survivors = message.survivors.size() == places();
  newest_ = std::max(newest_, message.ballot);
  if (end_ != End::none) {
    if (message.step != Step::ask && message.step != Step::prepare && message.step != Step::propose)
      return;
    AgreementMessage answer;
    answer.step = end_ == End::decided ? Step::decided : Step::cut_off;
    answer.survivors = survivors_;
    return send_(from, answer);
  }
  const bool more_ended = learn(from, message);
  switch (message.step) {
    case Step::ask:
      askers_[static_cast<std::size_t>(from)] = true;
      takes_part_ = true;
      // `from` gave way to a leader that is gone by now.
      if (leader() == from) asked_ = -1;
      return consult();
    case Step::prepare:
      on_prepare(from, message);
      break;
    case Step::promise:
      if (phase_ != Phase::prepares || message.ballot != ballot_) break;
      takers_[static_cast<std::size_t>(from)] = answered_[static_cast<std::size_t>(from)] = true;
      if (message.accepted > accepted_ && has_survivors) {
        accepted_ = message.accepted;
        proposal_ = message.survivors;
      }
      return advance();
    case Step::refuse:
      on_refuse(from, message);
      break;
    case Step::propose:
      if (has_survivors) on_propose(from, message);
      break;
    case Step::accepted:
      if (phase_ != Phase::proposes || message.ballot != ballot_) break;
      answered_[static_cast<std::size_t>(from)] = true;
      return advance();
    case Step::decided:
      if (!has_survivors) break;
      phase_ = Phase::follows;
      survivors_ = message.survivors;
      return settle(End::decided);
    case Step::cut_off:
      // The answer is the leader's own view; the remaining members may reach more.
      return quorum_ == Quorum::most ? gone(from, false) : void();
    case Step::count_:
      break;
  }
  if (more_ended && takes_part_) consult();
}

void Agreement::on_prepare(int from, const AgreementMessage& message) {
  takes_part_ = true;
  AgreementMessage answer = known(Step::promise);
  answer.ballot = message.ballot;
  if (message.ballot < promised_) {
    answer.step = Step::refuse;
    answer.ballot = promised_;
    return send_(from, answer);
  }
  promised_ = message.ballot;
  answer.accepted = accepted_;
  answer.survivors = proposal_;
  send_(from, answer);
  give_way(message.ballot);
}

void Agreement::on_propose(int from, const AgreementMessage& message) {
  AgreementMessage answer;
  answer.ballot = message.ballot;
  if (message.ballot < promised_) {
    answer.step = Step::refuse;
    answer.ballot = promised_;
    return send_(from, answer);
  }
  promised_ = accepted_ = message.ballot;
  proposal_ = message.survivors;
  answer.step = Step::accepted;
  send_(from, answer);
  give_way(message.ballot);
}

void Agreement::on_refuse(int from, const AgreementMessage& message) {
  if (phase_ == Phase::follows || message.ballot <= ballot_) return;
  give_way(message.ballot);
  // If this rank gives way to a leader that it cannot hear, the refusing member reports the
  // outcome.
  if (phase_ == Phase::follows) send_(from, known(Step::ask));
}

void Agreement::give_way(std::uint64_t ballot) {
  if (phase_ == Phase::follows || ballot <= ballot_) return;
  // Of two leaders, the one with the lower rank goes on; otherwise they could outbid each other
  // forever.
  if (owner(ballot) < self_)
    phase_ = Phase::follows;
  else
    lead();
}

}  // namespace weft::detail
