#include "runtime/health/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/fail.hpp"
#include "base/mix64.hpp"
#include "runtime/health/agreement_wire.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t kMostStrays = 1024;

/// Decided agreements that are kept, because late members may still ask about them.
constexpr std::size_t kKeptDecided = 256;

/// FNV-1a hash over the properties that tell groups apart.
std::uint64_t number_of(std::span<const int> members, std::uint32_t epoch) noexcept {
  std::uint64_t number = kFnv1a;
  const auto mix = [&number](std::uint32_t value) {
    for (int byte = 0; byte < 4; ++byte) number = fnv1a(number, value >> (8 * byte) & 0xffU);
  };
  mix(epoch);
  for (const int member : members) mix(static_cast<std::uint32_t>(member));
  return number;
}

Status failure(Code code, const std::string& message, const std::string& hint) {
  return Status(error_detail(code, "shrink", message, hint));
}

}  // namespace

Group Membership::make(std::vector<int> members, std::uint32_t epoch, bool of_chain,
                       bool is_result) {
  auto state = std::make_shared<GroupState>();
  const auto self = std::find(members.begin(), members.end(), local_.rank);
  state->place = self == members.end() ? -1 : static_cast<int>(self - members.begin());
  state->epoch = epoch;
  state->id = number_of(members, epoch);
  state->of_chain = of_chain;
  state->members = std::move(members);
  state->membership = weak_from_this();
  // Other members may shrink the group before this rank does.
  if (state->place >= 0 && state->members.size() <= kMostMembers)
    local_.progress.post(
        [self = shared_from_this(), state, is_result] { self->enter(state, is_result); });
  return GroupState::as_group(state);
}

void Membership::open() {
  std::vector<int> members(static_cast<std::size_t>(local_.size));
  std::iota(members.begin(), members.end(), 0);
  all_ = make(std::move(members), 0, true, false);
}

std::shared_ptr<Membership::Entry> Membership::find(std::uint64_t agreement) const {
  const auto found = entries_.find(agreement);
  return found == entries_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Membership::Entry>> Membership::undecided() const {
  std::vector<std::shared_ptr<Entry>> entries;
  for (const auto& [agreement, entry] : entries_)
    if (!entry->done.load()) entries.push_back(entry);
  return entries;
}

std::shared_ptr<Membership::Entry> Membership::enter(std::shared_ptr<const GroupState> group,
                                                     bool is_result) {
  if (auto known = find(group->agreement())) {
    // Groups may be made faster than they are entered: look through all only when they have
    // doubled.
    if (known->made_again.size() >= known->prune_at) {
      std::erase_if(known->made_again, [](const auto& other) { return other.expired(); });
      known->prune_at = std::max<std::size_t>(16, 2 * known->made_again.size());
    }
    if (known->group != group) known->made_again.push_back(group);
    return known;
  }
  if (!agreed_ && group->of_chain) agreed_ = group;
  auto entry = std::make_shared<Entry>();
  entry->group = group;
  entry->is_result = is_result;
  entry->agreement = std::make_unique<Agreement>(
      static_cast<int>(group->members.size()), group->place,
      [this, state = group.get()](int to, const AgreementMessage& message) {
        out_.emplace_back(state->members[static_cast<std::size_t>(to)],
                          encode(state->agreement(), message));
      },
      group->of_chain ? Quorum::most : Quorum::all);
  entries_[group->agreement()] = entry;
  if (!excluded_.ok()) finish(*entry, excluded_);
  for (std::size_t place = 0; place < group->members.size(); ++place)
    tell(*entry, static_cast<int>(place));
  auto strays = std::exchange(strays_, {});
  for (Stray& stray : strays) on_whole(stray.rank, std::move(stray.bytes));
  // Other groups may wait for the decision of this one.
  if (group->of_chain)
    for (const auto& other : undecided()) follow_up(*other);
  return entry;
}

void Membership::tell(Entry& entry, int member) {
  const int rank = entry.group->members[static_cast<std::size_t>(member)];
  const p2p::Peer& peer = mesh_.peer(rank);
  if (out_of_chain_[static_cast<std::size_t>(rank)]) entry.agreement->gone(member, true);
  // A process that is being fenced ends soon; waiting for that leaves nothing to guess.
  else if (peer.gone() && (peer.silent.load() || peer.unfenced)) {
    if (peer.disconnect_status.code() == Code::fenced && peer.declared_dead.empty())
      entry.agreement->accused_by(member);
    entry.agreement->gone(member, peer.ended);
  }
}

void Membership::peer_status_known(int rank) {
  for (const auto& entry : undecided()) {
    const auto& members = entry->group->members;
    const auto found = std::find(members.begin(), members.end(), rank);
    if (found == members.end()) continue;
    tell(*entry, static_cast<int>(found - members.begin()));
    follow_up(*entry);
  }
}

void Membership::on_message(p2p::Peer& peer, std::span<const std::byte> bytes) {
  if (auto whole = parts_[peer.rank].add(bytes)) {
    parts_.erase(peer.rank);
    on_whole(peer.rank, *std::move(whole));
  }
}

void Membership::on_whole(int rank, std::vector<std::byte> bytes) {
  const auto id = group_of(bytes);
  if (!id) return;
  if (const auto entry = find(*id)) return receive(*entry, rank, bytes);
  // Some strays belong to agreements that are already forgotten, and are never asked for.
  if (strays_.size() == kMostStrays) strays_.pop_front();
  strays_.push_back({rank, std::move(bytes)});
}

void Membership::receive(Entry& entry, int rank, std::span<const std::byte> bytes) {
  const auto& members = entry.group->members;
  const auto from = std::find(members.begin(), members.end(), rank);
  const auto message = decode(bytes, members.size());
  if (from == members.end() || !message) return;
  entry.agreement->receive(static_cast<int>(from - members.begin()), *message);
  follow_up(entry);
}

void Membership::follow_up(Entry& entry) {
  send_all();
  if (entry.done.load()) return;
  if (entry.agreement->has_suspects()) return ask_chain();
  if (entry.agreement->end() == Agreement::End::none) return;
  finish(entry, result_of(entry));
  if (entry.group->of_chain) chain_decided(entry);
}

void Membership::finish(Entry& entry, Result<Group> result) {
  entry.result = std::move(result);
  entry.done.store(true, std::memory_order_release);
  local_.ring();
  decided_.push_back(entry.group->agreement());
  forget_old();
}

void Membership::forget_old() {
  for (std::size_t looks = decided_.size(); looks > kKeptDecided; --looks) {
    const std::uint64_t agreement = decided_.front();
    decided_.pop_front();
    const auto entry = entries_.find(agreement);
    if (entry == entries_.end()) continue;
    // The entry holds one reference, and the entry of the preceding group another; further
    // references belong to callers that may still shrink the group.
    Entry& old = *entry->second;
    const bool is_held =
        old.group.use_count() > (old.is_result ? 2 : 1) ||
        std::ranges::any_of(old.made_again, [](const auto& other) { return !other.expired(); });
    if (is_held) {
      decided_.push_back(agreement);
      continue;
    }
    if (old.result.ok())
      if (const auto next = find(GroupState::of(*old.result)->agreement())) next->is_result = false;
    entries_.erase(entry);
  }
}

void Membership::ask_chain() {
  const auto entry = agreed_ ? find(agreed_->agreement()) : nullptr;
  if (!entry || entry->done.load()) return;  // enter() asks when the next group of the chain exists
  entry->agreement->begin();
  follow_up(*entry);
}

void Membership::chain_decided(const Entry& entry) {
  if (!entry.result.ok()) {
    end_all(entry.result.status());
    return mesh_.exclude(excluded_);
  }
  agreed_ = GroupState::of(*entry.result);
  std::vector<int> out;
  const Places& survivors = entry.agreement->survivors();
  for (std::size_t place = 0; place < survivors.size(); ++place)
    if (!survivors[place]) out.push_back(entry.group->members[place]);
  for (const int rank : out) out_of_chain_[static_cast<std::size_t>(rank)] = true;
  for (const int rank : out) peer_status_known(rank);
  for (const int rank : out)
    mesh_.give_up(rank, "the others of its group agreed to go on without it");
  mesh_.settle(out);
}

void Membership::end_all(const Status& why) {
  excluded_ = why;
  for (const auto& entry : undecided()) finish(*entry, why);
}

void Membership::send_all() {
  // Sending may deliver news, which calls this function again.
  if (std::exchange(sending_, true)) return;
  for (std::size_t i = 0; i < out_.size(); ++i) {
    const auto [rank, bytes] = std::move(out_[i]);
    p2p::Peer& peer = mesh_.peer(rank);
    if (peer.gone() || !peer.channel) continue;
    for (const auto& part : cut(bytes)) peer.channel->send(part);
  }
  out_.clear();
  sending_ = false;
}

Result<Group> Membership::result_of(const Entry& entry) {
  const GroupState& group = *entry.group;
  if (entry.agreement->end() == Agreement::End::cut_off) {
    std::string away;
    std::size_t reached = 0;
    for (const int member : group.members) {
      // That rank has told this one, and every other call says so too.
      if (const Status status = mesh_.peer_status(member); status.code() == Code::fenced) {
        return altered(status, [&](ErrorDetail& detail) { detail.operation = "shrink"; });
      }
      if (!mesh_.peer(member).gone())
        ++reached;
      else if (away.size() < 40)
        away += fmt::format("{}{}", away.empty() ? "" : ", ", member);
    }
    return failure(
        Code::partitioned,
        fmt::format("this rank reaches {} of the {} members of its group, itself "
                    "included; it is cut off from rank {}",
                    reached, group.members.size(), away),
        "the others go on without this rank: end it, and check the network between the hosts");
  }
  const Places& survivors = entry.agreement->survivors();
  if (!survivors[static_cast<std::size_t>(group.place)])
    return failure(Code::fenced,
                   "the others of the group have agreed to go on without this rank, which one of "
                   "them could not reach",
                   "end; WEFT_DEAD_AFTER sets how long a rank may be silent");
  std::vector<int> members;
  for (std::size_t place = 0; place < survivors.size(); ++place)
    if (survivors[place]) members.push_back(group.members[place]);
  return make(std::move(members), group.epoch + 1, group.of_chain, true);
}

Result<Group> Membership::shrink(const GroupState& group, Deadline deadline) noexcept {
  try {
    if (local_.over()) return local_.refusal("shrink");
    if (group.place < 0)
      return failure(Code::bad_argument, "this rank is no member of the group", "");
    if (group.members.size() > kMostMembers)
      return failure(Code::exhausted,
                     fmt::format("the group has {} members; at most {} can agree",
                                 group.members.size(), kMostMembers),
                     "shrink subsets of the group");
    return agree(group, deadline);
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return failure(Code::exhausted, error.what(), "");
  }
}

Result<Group> Membership::agree(const GroupState& group, Deadline deadline) {
  std::shared_ptr<Entry> entry;
  local_.progress.run([&] {
    entry = find(group.agreement());
    if (!entry || entry->done.load()) return;
    entry->agreement->begin();
    follow_up(*entry);
  });
  if (!entry)
    return failure(Code::closed, "this group is no longer known",
                   "the world has left, or the group was shrunk hundreds of groups ago: shrink the "
                   "newest group");
  const auto done = [&] {
    if (!entry->done.load(std::memory_order_acquire)) local_.progress.help();
    return entry->done.load(std::memory_order_acquire);
  };
  const auto end = local_.waiter.wait(
      done, [] { return false; }, deadline);
  if (end == p2p::WaitEnd::ready) return entry->result;
  Status status;
  local_.progress.run([&] { status = late(*entry); });
  return status;
}

/// The rank to name. A member that does not run holds the others up, wherever it is in their tree.
int Membership::awaited(const Entry& entry) const {
  const int member = entry.agreement->awaited();
  if (member < 0) return -1;
  const auto& members = entry.group->members;
  const auto slow = std::ranges::find_if(members, [this](int rank) {
    return rank != local_.rank && !mesh_.peer(rank).gone() && !mesh_.suspicion(rank).empty();
  });
  return slow != members.end() ? *slow : members[static_cast<std::size_t>(member)];
}

Status Membership::late(const Entry& entry) const {
  ErrorDetail detail{.code = Code::timeout,
                     .operation = "shrink",
                     .message = "the members have not agreed yet",
                     .hint =
                         "call shrink() again: a rank that is silent or stopped is dead only after "
                         "WEFT_DEAD_AFTER",
                     .rank = local_.rank};
  const auto chain = entry.agreement->has_suspects() ? find(agreed_->agreement()) : nullptr;
  if (chain && &entry != chain.get()) return late(*chain);
  if (const int rank = awaited(entry); rank >= 0) {
    const p2p::Peer& peer = mesh_.peer(rank);
    detail.peer = peer.rank;
    detail.host = peer.host();
    detail.message = fmt::format("rank {} (host {}, pid {}) has not answered{}", peer.rank,
                                 peer.host(), peer.address.pid, mesh_.suspicion(peer.rank));
  }
  return Status(std::move(detail));
}

bool Membership::is_outnumbered_by(const std::vector<bool>& ranks) const {
  if (!agreed_) return false;
  const auto& members = agreed_->members;
  std::size_t away = 0;
  bool first_is_here = true;
  for (const int member : members) {
    const p2p::Peer& peer = mesh_.peer(member);
    const bool is_away = ranks[static_cast<std::size_t>(member)] || (peer.gone() && !peer.ended);
    away += is_away ? 1 : 0;
    if (member == members.front()) first_is_here = !is_away;
  }
  return 2 * away > members.size() || (2 * away == members.size() && !first_is_here);
}

}  // namespace weft::detail
