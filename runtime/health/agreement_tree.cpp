// How an agreement's requests go down its tree, and the answers up.
#include <algorithm>
#include <utility>

#include "runtime/health/agreement.hpp"
#include "runtime/health/places.hpp"

namespace weft::detail {
namespace {

void add_view(std::vector<AgreementView>& views, const Places& members, const AgreementView& view) {
  const auto same = std::ranges::find_if(views, [&](const AgreementView& known) {
    return known.gone == view.gone && known.accusers == view.accusers;
  });
  if (same == views.end())
    views.push_back({members, view.gone, view.accusers});
  else
    add(same->members, members);
}

}  // namespace

void Agreement::open_round(AgreementMessage request) {
  close_round();
  const Places members = std::exchange(request.members, {});
  round_.emplace(Round{.request = std::move(request),
                       .gathering = Gathering(static_cast<int>(size()), fan_out_),
                       .views = {},
                       .debts = {}});
  round_->gathering.want(members);
}

void Agreement::close_round() {
  if (!round_) return;
  for (const Debt& debt : std::exchange(round_->debts, {})) answer(debt);
  round_.reset();
}

void Agreement::pass_on() {
  if (!round_) return;
  round_->gathering.ask(out_, [this](int child, const Places& subtree) {
    set(listeners_, child);
    AgreementMessage request = round_->request;
    request.members = subtree;
    send_(child, request);
  });
  std::vector<Debt> due;
  std::erase_if(round_->debts, [&](Debt& debt) {
    const bool is_due = round_->gathering.awaited(debt.subtree, out_) < 0;
    if (is_due) due.push_back(std::move(debt));
    return is_due;
  });
  for (const Debt& debt : due) answer(debt);
}

Places Agreement::answered_of(const Places& subtree) const {
  Places members = common(subtree, round_->gathering.have_answered());
  set(members, self_);
  return members;
}

void Agreement::answer(const Debt& debt) {
  const bool promises = round_->request.step == Step::prepare;
  AgreementMessage message;
  message.step = promises ? Step::promise : Step::accepted;
  message.ballot = round_->request.ballot;
  message.members = answered_of(debt.subtree);
  if (!promises) return send_(debt.to, message);
  message.ended = ended_;
  message.accepted = accepted_;
  message.survivors = proposal_;
  Places own(size());
  set(own, self_);
  std::vector<AgreementView> views = round_->views;
  if (gone_ != round_->request.gone || accusers_ != Places(size()))
    add_view(views, own, {own, gone_, accusers_});
  for (const AgreementView& view : views) {
    if (message.views.size() == kMostViews) {
      AgreementMessage part = message;
      part.more = true;
      part.members.assign(size(), false);
      for (const AgreementView& sent : message.views) add(part.members, sent.members);
      send_(debt.to, part);
      remove(message.members, part.members);
      message.views.clear();
    }
    if (Places members = common(view.members, message.members); members != Places(size()))
      message.views.push_back({std::move(members), view.gone, view.accusers});
  }
  send_(debt.to, message);
}

void Agreement::on_request(int from, const AgreementMessage& message) {
  const bool proposes = message.step == Step::propose;
  // The leader and those that pass its requests on come before this member.
  if (from > self_ || owner(message.ballot) > from || !is_set(message.members) ||
      !is_set(proposes ? message.survivors : message.gone))
    return;
  takes_part_ = true;
  if (message.ballot < promised_) return refuse(from, message);
  // The leader is past this request already.
  if (!proposes && accepted_ == message.ballot) return;
  if (!asks_leader_) upper_ = from;
  phase_ = Phase::follows;
  promised_ = message.ballot;
  if (proposes) {
    accepted_ = message.ballot;
    proposal_ = message.survivors;
  }
  if (!round_ || round_->request.ballot != message.ballot || round_->request.step != message.step) {
    // The members that asked for promises to this ballot no longer wait for them.
    if (round_ && round_->request.ballot == message.ballot) round_->debts.clear();
    AgreementMessage request = message;
    request.members.assign(size(), false);
    request.ended.clear();
    open_round(std::move(request));
  }
  Places subtree = message.members;
  for (int member = 0; member <= self_; ++member) subtree[static_cast<std::size_t>(member)] = false;
  round_->gathering.want(subtree);
  const auto same = std::ranges::find(round_->debts, from, &Debt::to);
  if (same == round_->debts.end())
    round_->debts.push_back({from, std::move(subtree)});
  else
    add(same->subtree, subtree);
  pass_on();
}

// The leader hears it directly. The member that passed the request on hears that no answer comes.
void Agreement::refuse(int from, const AgreementMessage& message) {
  const int leads = owner(message.ballot);
  AgreementMessage refusal;
  refusal.step = Step::refuse;
  refusal.ballot = promised_;
  if (!is_out(leads)) send_(leads, refusal);
  if (leads == from) return;
  AgreementMessage answer;
  answer.step = message.step == Step::prepare ? Step::promise : Step::accepted;
  answer.ballot = message.ballot;
  answer.members.assign(size(), false);
  send_(from, answer);
}

void Agreement::on_answer(int from, const AgreementMessage& message) {
  const bool promises = message.step == Step::promise;
  if (!round_ || round_->request.ballot != message.ballot || !is_set(message.members) ||
      round_->request.step != (promises ? Step::prepare : Step::propose))
    return;
  if (promises && message.accepted > accepted_ && message.accepted < message.ballot &&
      is_set(message.survivors)) {
    accepted_ = message.accepted;
    proposal_ = message.survivors;
  }
  const Places counted = round_->gathering.answered(from, message.members, message.more);
  for (const AgreementView& view : message.views) {
    if (!is_set(view.members) || !is_set(view.gone) || !is_set(view.accusers)) continue;
    Places members = view.members;
    for (std::size_t m = 0; m < size(); ++m) members[m] = members[m] && counted[m];
    add_view(round_->views, members, view);
  }
  return phase_ == Phase::follows ? pass_on() : advance();
}

}  // namespace weft::detail
