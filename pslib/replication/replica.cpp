#include "pslib/replication/replica.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft::pslib {

void Replica::enter(std::uint64_t epoch, std::span<const std::size_t> replica_sets, bool starts) {
  replica_sets_.assign(replica_sets.begin(), replica_sets.end());
  holds_ = std::ranges::find(replica_sets_, self_) != replica_sets_.end();
  others_ = replica_sets_;
  std::erase(others_, self_);
  own_.epoch = epoch;
  own_.has_state = holds_ && (own_.has_state || starts);
  own_.needs_state = false;  // the next primary may be another replica, with other records
  own_.had_state = own_.has_state;
  own_.number_then = own_.number;
  own_.led = led_;
  own_.offers = false;
  own_.record = {};
  is_decided_ = false;
  is_lost_ = false;
  is_committed_ = false;
  ++revision_;
  decide();
}

void Replica::receive(std::size_t from, const ReplicaMessage& message) {
  newest_epoch_ = std::max(newest_epoch_, message.epoch);
  ReplicaMessage& last = messages_[from];
  if (message.epoch < last.epoch) return;
  last = message;
  decide();
}

const ReplicaMessage* Replica::heard(std::size_t server) const {
  const auto found = messages_.find(server);
  if (found == messages_.end() || found->second.epoch != own_.epoch) return nullptr;
  return &found->second;
}

// Elects the replica with the highest record; among equals the one that led last; then the first.
// The values that replicas report for their entry into the epoch never change, so all replicas
// elect the same one.
void Replica::decide() {
  if (!holds_ || is_decided_) return;
  const ReplicaMessage* best = nullptr;
  for (const std::size_t server : replica_sets_) {
    const ReplicaMessage* const its = server == self_ ? &own_ : heard(server);
    if (its == nullptr) return;
    if (!its->had_state) continue;
    const auto rank = [](const ReplicaMessage& m) { return std::tuple(m.number_then, m.led); };
    if (best != nullptr && rank(*its) <= rank(*best)) continue;
    best = its;
    primary_ = server;
  }
  is_lost_ = best == nullptr;
  is_decided_ = !is_lost_;
  if (is_primary()) led_ = own_.epoch + 1;
}

bool Replica::is_level(std::size_t server) const {
  const ReplicaMessage* const its = heard(server);
  return its != nullptr && its->has_state && !its->needs_state && its->number == own_.number;
}

// True if a backup can't reach the primary's state by the record that it knows.
bool Replica::must_be_given(std::size_t server) const {
  const ReplicaMessage* const its = heard(server);
  if (its == nullptr || is_level(server)) return false;
  return !its->has_state || its->needs_state || own_.record.number == 0 ||
         its->number + 1 != own_.record.number;
}

Replica::Duty Replica::duty() const {
  if (is_lost_) return Duty::lost;
  if (!holds_ || !is_decided_) return Duty::none;
  if (is_primary()) {
    if (std::ranges::all_of(others_, [this](std::size_t s) { return is_level(s); }))
      return is_committed_ ? Duty::none : Duty::commit;
    const bool is_needed =
        std::ranges::any_of(others_, [this](std::size_t s) { return must_be_given(s); });
    return is_needed && !own_.offers ? Duty::offer : Duty::none;
  }
  const ReplicaMessage* const its = heard(primary_);
  if (its == nullptr) return Duty::none;  // the primary is in a later epoch
  const bool follows = own_.has_state && !own_.needs_state;
  if (follows && its->record.number == own_.number + 1) return Duty::apply;
  const bool is_behind = !follows || own_.number != its->number;
  return is_behind && its->offers ? Duty::fetch : Duty::none;
}

bool Replica::may_order() const { return is_primary() && is_committed_; }

void Replica::order(std::vector<RecordedPush> pushes) {
  own_.record = {own_.number + 1, std::move(pushes)};
  own_.offers = false;
  is_committed_ = false;
  ++revision_;
}

const Record& Replica::record() const {
  return is_primary() ? own_.record : heard(primary_)->record;
}

void Replica::applied() {
  ++own_.number;
  if (!is_primary()) ++revision_;  // a primary's record already says it
}

void Replica::could_not_apply() {
  own_.needs_state = true;
  ++revision_;
}

void Replica::fetched(std::uint64_t number) {
  own_.has_state = true;
  own_.needs_state = false;
  own_.number = number;
  ++revision_;
}

void Replica::offered() {
  own_.offers = true;
  ++revision_;
}

void Replica::committed() {
  is_committed_ = true;
  if (std::exchange(own_.offers, false)) ++revision_;
}

}  // namespace weft::pslib
