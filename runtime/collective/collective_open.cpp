// Opens a group: no rank returns before all have opened it.
//
// Within a host every rank tells all others where its area lies, or, in a large group, the first
// (collective_directory.cpp). Between hosts the ranks go by
// dissemination: in round k, rank n of N tells rank n + 2^k, and enters round k + 1 once rank
// n - 2^k has told it. After log2 N rounds, rounded up, each rank knows that all have come, and has
// the choices of the first. A rank that waits for long tells the ranks that wait for it, directly
// or not, which rank is missing, so that every rank's error names that one.
//
// A rank whose open() failed tells others. If its deadline has passed, they go on to the next
// group of these ranks, which that rank opens when it tries again; else they fail as well. A rank
// that comes late passes over the groups that were given up.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "runtime/collective/collective_table.hpp"
#include "runtime/collective/group_id.hpp"

namespace weft::detail {
namespace {

/// How long a rank waits for others before it tells so for the first time.
constexpr std::chrono::milliseconds kQuietOpening{50};
/// A member that has left may have opened the group before. Then all have called open(), and the
/// messages that are missing here arrive within this time.
constexpr std::chrono::seconds kUnderWayStill{1};

int rounds_of(int ranks) noexcept { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

std::uint32_t first_bits(int count) noexcept { return (1U << static_cast<unsigned>(count)) - 1; }

/// Lists `ranks` for a message: the first 16, and how many there are.
std::string text_of(std::span<const int> ranks) {
  constexpr std::size_t kMost = 16;
  return fmt::format("{}{}", fmt::join(ranks.first(std::min(kMost, ranks.size())), ", "),
                     ranks.size() > kMost ? fmt::format(", ... ({} in all)", ranks.size()) : "");
}

/// The member `distance` places further in the group's order.
int member_at(const CollectiveGroup& group, int distance) noexcept {
  const int place = (group.rank() + distance % group.size() + group.size()) % group.size();
  return group.ranks()[static_cast<std::size_t>(place)];
}

bool opens_by_rounds(const CollectiveGroup& group) noexcept { return group.area().bytes == 0; }

}  // namespace

std::shared_ptr<CollectiveGroup> CollectiveTable::open(std::span<const int> ranks,
                                                       Deadline deadline, Purpose purpose) {
  check(ranks);
  const std::uint64_t list = list_of(ranks, purpose);
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  Status first;  // in the groups after it other ranks are late too, so it tells most
  for (;;) {
    const std::shared_ptr<CollectiveGroup> group = enter(ranks, purpose);
    std::vector<p2p::MemoryRef> areas;
    Choices choices;
    const p2p::WaitEnd end = await_members(group->id(), ranks, areas, choices, until);
    if (end == p2p::WaitEnd::ready) {
      try {
        group->meet(areas, choices, until);
      } catch (const Error& error) {
        give_up(ranks, list, number_of(*group), error.status());
        group->close();
        throw;
      }
      return group;
    }
    const bool goes_on = end == p2p::WaitEnd::broken && was_left_early(group->id());
    const Status why = nobody(group->id(), ranks, end);
    give_up(ranks, list, number_of(*group), why);
    close(*group);
    if (first.ok() || why.code() != Code::timeout) first = why;
    if (!goes_on || until.passed()) throw Error(first);
  }
}

std::shared_ptr<CollectiveGroup> CollectiveTable::enter(std::span<const int> ranks,
                                                        Purpose purpose) {
  const std::uint64_t list = list_of(ranks, purpose);
  std::uint64_t first = 0;
  std::uint64_t nth = 0;
  {
    const std::lock_guard lock(mutex_);
    first = opened_[list];
    nth = pass_over(ranks, list, first);
    Group& known = groups_[group_id(list, nth)];  // its messages would now be taken for late ones
    known.list = list;
    known.nth = nth;
    known.purpose = purpose;
    opened_[list] = nth + 1;
  }
  const Status timeout(ErrorDetail{.code = Code::timeout});
  for (; first < nth; ++first) give_up(ranks, list, first, timeout);
  const std::uint64_t id = group_id(list, nth);
  std::shared_ptr<CollectiveGroup> group;
  p2p::OwnedBlock directory;
  try {
    group = make({ranks.begin(), ranks.end()}, id, nth, purpose);
    directory = make_directory(*group);
  } catch (...) {
    give_up(
        ranks, list, nth,
        Status(ErrorDetail{
            .code = Code::exhausted, .message = "no memory for the group", .peer = local_.rank}));
    const std::lock_guard lock(mutex_);
    groups_.erase(id);
    throw;
  }
  const p2p::MemoryRef area = group->area();
  CollectiveMessage opened;
  {
    const std::lock_guard lock(mutex_);
    Group& known = groups_[id];
    known.here = group;
    known.areas[local_.rank] = area;
    known.directory = std::move(directory);
    if (ranks[0] == local_.rank) known.choices = choices_of(ranks);
    opened = opening(known, id, CollectiveMessage::kArea);
  }
  opened.area = area;
  if (opens_by_directory(*group))
    enter_directory(ranks, id, opened);
  else if (!opens_by_rounds(*group))
    share(ranks, area.chunk, opened);
  else
    local_.progress.post([this, id] {
      std::vector<Letter> letters;
      {
        const std::lock_guard lock(mutex_);
        const auto found = groups_.find(id);
        if (found != groups_.end()) enter_rounds(found->second, id, letters);
      }
      send(letters);
      local_.ring();
    });
  return group;
}

std::uint64_t CollectiveTable::pass_over(std::span<const int> ranks, std::uint64_t list,
                                         std::uint64_t nth) {
  for (;; ++nth) {
    const std::uint64_t id = group_id(list, nth);
    const auto found = groups_.find(id);
    // A member that is gone fails the groups after it too: this rank fails with the others.
    if (found == groups_.end() || found->second.given_up.ok() ||
        found->second.given_up.code() == Code::peer_failed ||
        found->second.given_up.code() == Code::peer_left)
      return nth;
    // The members that have an area of it keep that until they hear from this rank.
    tell(ranks, {.what = CollectiveMessage::What::closed, .group = id});
    groups_.erase(found);
  }
}

void CollectiveTable::give_up(std::span<const int> ranks, std::uint64_t list, std::uint64_t nth,
                              const Status& why) noexcept {
  try {
    CollectiveMessage message{.what = CollectiveMessage::What::gave_up,
                              .group = group_id(list, nth),
                              .peer = why.detail().peer,
                              .code = static_cast<std::uint32_t>(why.code()),
                              .number = nth,
                              .list = list};
    message.text.set(why.detail().message);
    {
      // An area that comes late must not complete it here.
      const std::lock_guard lock(mutex_);
      const auto found = groups_.find(message.group);
      if (found != groups_.end() && found->second.given_up.ok()) found->second.given_up = why;
    }
    // In a large group every rank hears of it from log2 N others, as of a missing rank.
    const std::size_t size = ranks.size();
    const auto own =
        static_cast<std::size_t>(std::ranges::find(ranks, local_.rank) - ranks.begin());
    std::vector<int> told;
    for (std::size_t distance = 1; distance < size; size <= kFew ? ++distance : distance *= 2)
      told.push_back(ranks[(own + distance) % size]);
    tell(told, message);
  } catch (const std::bad_alloc&) {
    local_.log->warn(Subsystem::path, "no memory to tell that a group was given up");
  }
}

p2p::WaitEnd CollectiveTable::await_members(std::uint64_t id, std::span<const int> ranks,
                                            std::vector<p2p::MemoryRef>& areas, Choices& choices,
                                            Deadline until) {
  areas.reserve(ranks.size());  // all_met() must not allocate
  const auto met = [&] {
    if (all_met(id, ranks, areas, choices)) return true;
    local_.progress.help();
    return all_met(id, ranks, areas, choices);
  };
  auto left_at = Clock::time_point::max();
  const auto lost = [&] {
    if (cannot_open(id)) return true;
    if (mesh_.gone_count() == 0) return false;
    const Status status = mesh_.peer_status(ranks);
    if (status.code() != Code::peer_left) return !status.ok();
    if (left_at == Clock::time_point::max()) left_at = Clock::now();
    return Clock::now() - left_at > kUnderWayStill;
  };
  const std::uint64_t since_ns = stats::ns_of(Clock::now());
  stats::WaitDetailsRoom details;
  auto quiet = std::min<std::chrono::nanoseconds>(kQuietOpening, until.left() / 4);
  for (;; quiet *= 2) {
    const bool last = until.left() <= quiet;
    const p2p::WaitEnd end =
        local_.waiter.wait(met, lost, last ? until : Deadline::after(quiet),
                           [&] { return about_opening(id, ranks, since_ns, details.make()); });
    if (end != p2p::WaitEnd::timeout || last) return end;
    local_.progress.post([this, id] {
      std::vector<Letter> letters;
      {
        const std::lock_guard lock(mutex_);
        const auto found = groups_.find(id);
        if (found == groups_.end() || !found->second.here) return;
        if (opens_by_rounds(*found->second.here)) tell_missing(found->second, id, letters);
        if (opens_by_directory(*found->second.here)) tell_absent(found->second, id, letters);
      }
      send(letters);
    });
  }
}

CollectiveMessage CollectiveTable::opening(const Group& group, std::uint64_t id,
                                           std::uint32_t step) const {
  CollectiveMessage message{.what = CollectiveMessage::What::open, .group = id};
  message.number = group.nth;
  message.step = step;
  message.list = group.list;
  message.choices = group.choices;
  message.text.set(text_of(group.here->ranks()));
  return message;
}

void CollectiveTable::enter_rounds(Group& group, std::uint64_t id,
                                   std::vector<Letter>& letters) const {
  const int rounds = rounds_of(group.here->size());
  while (group.steps_sent < rounds) {
    const std::uint32_t before = first_bits(group.steps_sent);
    if ((group.steps_come & before) != before) return;
    const auto round = static_cast<std::uint32_t>(group.steps_sent++);
    letters.push_back({member_at(*group.here, 1 << round), opening(group, id, round)});
  }
}

int CollectiveTable::missing_rank(const Group& group) const {
  const int round = std::countr_one(group.steps_come);
  if (round >= rounds_of(group.here->size())) return -1;
  const int awaited = member_at(*group.here, -(1 << round));
  if (!group.areas.contains(awaited)) return awaited;
  const auto told = group.missing.find(awaited);
  return told == group.missing.end() || group.areas.contains(told->second) ? -1 : told->second;
}

void CollectiveTable::tell_missing(Group& group, std::uint64_t id,
                                   std::vector<Letter>& letters) const {
  group.believed_missing = missing_rank(group);
  CollectiveMessage message = opening(group, id, CollectiveMessage::kWaits);
  message.missing = group.believed_missing;
  const int size = group.here->size();
  for (int distance = 1; distance < size; size <= kFew ? ++distance : distance *= 2)
    letters.push_back({member_at(*group.here, distance), message});
}

void CollectiveTable::on_open(Group& group, int rank, const CollectiveMessage& message,
                              std::vector<Letter>& letters) const {
  if (message.choices.says_something()) {
    if (!message.choices.makes_sense()) group.nonsense_from = rank;
    group.choices = message.choices;
  }
  if (group.here == nullptr) group.ranks = message.text.get();
  if (message.step == CollectiveMessage::kArea || message.step == CollectiveMessage::kDirectory ||
      message.step == CollectiveMessage::kAbsent) {
    group.by_areas_from = rank;
    return on_directory(group, rank, message, letters);
  }
  group.areas[rank] = message.area;
  group.by_rounds_from = rank;
  if (message.step == CollectiveMessage::kWaits)
    group.missing[rank] = message.missing;
  else if (message.step < 32)
    group.steps_come |= 1U << message.step;
  if (group.here == nullptr || !opens_by_rounds(*group.here)) return;
  enter_rounds(group, message.group, letters);
  const int missing = missing_rank(group);
  if (missing >= 0 && missing != group.believed_missing && message.step == message.kWaits)
    tell_missing(group, message.group, letters);
  // The choices come with the last round at the latest.
  if (missing < 0 && all_come(group) && !group.choices.says_something()) group.nonsense_from = rank;
}

bool CollectiveTable::all_come(const Group& group) {
  if (opens_by_directory(*group.here)) return group.directory_place.bytes > 0;
  if (!opens_by_rounds(*group.here))
    return group.areas.size() >= static_cast<std::size_t>(group.here->size());
  const int rounds = rounds_of(group.here->size());
  const std::uint32_t all = first_bits(rounds);
  return group.steps_sent == rounds && (group.steps_come & all) == all;
}

int CollectiveTable::other_kind(const Group& group) {
  return opens_by_rounds(*group.here) ? group.by_areas_from : group.by_rounds_from;
}

bool CollectiveTable::all_met(std::uint64_t id, std::span<const int> ranks,
                              std::vector<p2p::MemoryRef>& areas, Choices& choices) noexcept {
  const std::lock_guard lock(mutex_);
  const Group& group = groups_[id];
  if (!all_come(group) || cannot_open(group)) return false;
  choices = group.choices;
  areas.clear();
  if (opens_by_directory(*group.here)) return read_directory(group, areas);
  if (!opens_by_rounds(*group.here))
    for (const int rank : ranks) areas.push_back(group.areas.at(rank));
  return true;
}

Status CollectiveTable::nobody(std::uint64_t id, std::span<const int> ranks, p2p::WaitEnd end) {
  ErrorDetail detail;
  const std::lock_guard lock(mutex_);
  const Group& group = groups_[id];
  const Status gone = mesh_.peer_status(ranks);
  if (end == p2p::WaitEnd::broken && !gone.ok()) {
    detail = gone.detail();
  } else if (!group.given_up.ok() && group.given_up.code() != Code::timeout) {
    detail = group.given_up.detail();
  } else if (group.nonsense_from >= 0 || other_kind(group) >= 0) {
    const bool is_nonsense = group.nonsense_from >= 0;
    detail.code = Code::mismatch;
    detail.peer = is_nonsense ? group.nonsense_from : other_kind(group);
    detail.host = mesh_.peer(detail.peer).host();
    detail.message =
        fmt::format("rank {} {} the group of ranks {}", detail.peer,
                    is_nonsense ? "has sent invalid choices for"
                                : "and this rank differ about whether all share memory in",
                    text_of(ranks));
    detail.hint = "start every rank with the same weft and the same program";
  } else {
    if (opens_by_directory(*group.here)) {
      detail.peer = absent_rank(group);
    } else if (!opens_by_rounds(*group.here) || group.here->size() <= kFew) {
      for (const int rank : ranks)
        if (detail.peer < 0 && !group.areas.contains(rank)) detail.peer = rank;
    } else {
      detail.peer = missing_rank(group);
    }
    const char* const act = group.purpose == Purpose::split ? "split" : "opened";
    detail.code = Code::timeout;
    detail.host = mesh_.peer(std::max(0, detail.peer)).host();
    detail.message =
        detail.peer < 0
            ? fmt::format("a rank has not {} the group of ranks {}", act, text_of(ranks))
            : fmt::format("rank {} has not {} the group of ranks {}{}{}", detail.peer, act,
                          text_of(ranks), elsewhere(detail.peer), mesh_.suspicion(detail.peer));
    if (!group.given_up.ok())
      detail.message += fmt::format("; rank {} waits no longer", group.given_up.detail().rank);
    detail.hint = "every rank of a group opens it, with the same list, in the same order";
  }
  detail.operation = "open";
  detail.rank = local_.rank;
  return Status(std::move(detail));
}

bool CollectiveTable::cannot_open(const Group& group) {
  return group.nonsense_from >= 0 || !group.given_up.ok() || other_kind(group) >= 0;
}

bool CollectiveTable::cannot_open(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  return cannot_open(groups_[id]);
}

}  // namespace weft::detail
