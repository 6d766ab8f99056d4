#include "runtime/collective/collective_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/mix64.hpp"
#include "runtime/collective/host_group.hpp"
#include "runtime/collective/slot_group.hpp"

namespace weft::detail {
namespace {

using What = CollectiveMessage::What;

/// Identifies the `nth` group of these ranks; the same on every rank.
std::uint64_t id_of(std::span<const int> ranks, std::uint64_t nth) noexcept {
  std::uint64_t hash = kGolden64 ^ nth;
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 33;
  };
  add(ranks.size());
  for (const int rank : ranks) add(static_cast<std::uint64_t>(rank));
  return hash;
}

Code code_of(std::uint32_t code) noexcept {
  const bool known = code > 0 && code <= static_cast<std::uint32_t>(Code::partitioned);
  return known ? static_cast<Code>(code) : Code::system;
}

/// Lists `ranks` for a message: the first 16, and how many there are.
std::string text_of(std::span<const int> ranks) {
  constexpr std::size_t kMost = 16;
  return fmt::format("{}{}", fmt::join(ranks.first(std::min(kMost, ranks.size())), ", "),
                     ranks.size() > kMost ? fmt::format(", ... ({} in all)", ranks.size()) : "");
}

}  // namespace

void CollectiveTable::check(std::span<const int> ranks) const {
  mesh_.check_ranks(ranks, "open");
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (twice || !std::binary_search(sorted.begin(), sorted.end(), local_.rank))
    throw Error(ErrorDetail{
        .code = Code::bad_argument,
        .operation = "open",
        .message = twice ? "a rank is in the group twice"
                         : fmt::format("rank {} is not in the group itself", local_.rank),
        .hint = "every rank of a group opens it, with the same list",
        .rank = local_.rank});
}

std::shared_ptr<CollectiveGroup> CollectiveTable::make(std::vector<int> ranks, std::uint64_t id) {
  const bool one_host = std::all_of(ranks.begin(), ranks.end(), [this](int rank) {
    return mesh_.peer(rank).fabric->kind() == p2p::FabricKind::shm;
  });
  if (one_host)
    return std::make_shared<HostGroup>(local_, mesh_, *this, std::move(ranks), id, numa_node_);
  return std::make_shared<SlotGroup>(local_, mesh_, *this, slots_, std::move(ranks), id);
}

Choices CollectiveTable::choices_of(std::span<const int> ranks) const {
  Choices choices = rules_;
  choices.within = costs_.shm;
  choices.between = costs_.shm;
  choices.combine = costs_.combine;
  for (const int rank : ranks) {
    if (rank == local_.rank) continue;
    const p2p::Peer& peer = mesh_.peer(rank);
    const bool near = peer.address.host_id == mesh_.peer(local_.rank).address.host_id;
    LinkCost& cost = near ? choices.within : choices.between;
    const LinkCost& own = costs_.of(peer.fabric->kind());
    if (own.latency >= cost.latency) cost = own;
    // Over TCP a put costs system calls at both ends, and its bytes leave the caches anyway.
    if (peer.fabric->kind() == p2p::FabricKind::tcp) choices.piece = Piece::kMost;
  }
  return choices;
}

std::shared_ptr<CollectiveGroup> CollectiveTable::open(std::span<const int> ranks,
                                                       Deadline deadline) {
  check(ranks);
  std::vector<int> list(ranks.begin(), ranks.end());
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = id_of(ranks, opened_[list]++);
  }
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const auto group = make(list, id);
  const p2p::MemoryRef area = group->area();
  {
    const std::lock_guard lock(mutex_);
    Group& known = groups_[id];
    known.here = group;
    known.areas[local_.rank] = area;
    if (ranks[0] == local_.rank) known.choices = choices_of(ranks);
  }
  CollectiveMessage opened{.what = What::open, .group = id, .area = area};
  opened.text.set(text_of(ranks));
  if (ranks[0] == local_.rank) opened.choices = choices_of(ranks);
  if (area.bytes > 0)
    share(ranks, area.chunk, opened);
  else
    tell(ranks, opened);
  std::vector<p2p::MemoryRef> areas;
  areas.reserve(ranks.size());  // all_met() must not allocate
  Choices choices;
  const auto met = [&] {
    if (all_met(id, ranks, areas, choices)) return true;
    local_.progress.help();
    return all_met(id, ranks, areas, choices);
  };
  const auto lost = [&] {
    return has_nonsense(id) || (mesh_.gone_count() != 0 && !mesh_.peer_status(ranks).ok());
  };
  const p2p::WaitEnd end = local_.waiter.wait(met, lost, until);
  if (end == p2p::WaitEnd::ready) {
    try {
      group->meet(areas, choices, until);
    } catch (...) {
      group->close();
      throw;
    }
    return group;
  }
  const Status why = nobody(id, ranks, end);
  close(*group);
  throw Error(why);
}

bool CollectiveTable::all_met(std::uint64_t id, std::span<const int> ranks,
                              std::vector<p2p::MemoryRef>& areas, Choices& choices) noexcept {
  const std::lock_guard lock(mutex_);
  const Group& group = groups_[id];
  if (group.areas.size() < ranks.size()) return false;
  choices = group.choices;
  areas.clear();
  for (const int rank : ranks) areas.push_back(group.areas.at(rank));
  return true;
}

Status CollectiveTable::nobody(std::uint64_t id, std::span<const int> ranks, p2p::WaitEnd end) {
  ErrorDetail detail;
  const std::lock_guard lock(mutex_);
  const Group& group = groups_[id];
  if (group.nonsense_from >= 0) {
    detail.code = Code::mismatch;
    detail.peer = group.nonsense_from;
    detail.host = mesh_.peer(detail.peer).host();
    detail.message = fmt::format("rank {} has sent invalid choices for the group of ranks {}",
                                 detail.peer, text_of(ranks));
    detail.hint = "start every rank with the same weft and the same program";
  } else if (end == p2p::WaitEnd::broken) {
    detail = mesh_.peer_status(ranks).detail();
  } else {
    for (const int rank : ranks)
      if (detail.peer < 0 && !group.areas.contains(rank)) detail.peer = rank;
    detail.code = Code::timeout;
    detail.host = mesh_.peer(std::max(0, detail.peer)).host();
    detail.message =
        fmt::format("rank {} has not opened the group of ranks {}{}{}", detail.peer, text_of(ranks),
                    elsewhere(detail.peer), mesh_.suspicion(detail.peer));
    detail.hint = "every rank of a group opens it, with the same list, in the same order";
  }
  detail.operation = "open";
  detail.rank = local_.rank;
  return Status(std::move(detail));
}

bool CollectiveTable::has_nonsense(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  return groups_[id].nonsense_from >= 0;
}

std::string CollectiveTable::elsewhere(int rank) const {
  // Prefers a group that the rank has not given up.
  for (const bool given_up : {false, true})
    for (const auto& [id, group] : groups_)
      if (group.here == nullptr && group.areas.contains(rank) &&
          group.closed.contains(rank) == given_up)
        return fmt::format(", but one of ranks {}", group.ranks);
  return {};
}

void CollectiveTable::share(std::span<const int> ranks, std::uint32_t chunk,
                            const CollectiveMessage& message) {
  local_.progress.run([&] {
    for (const int rank : ranks) {
      if (rank == local_.rank) continue;
      (void)mesh_.share(mesh_.peer(rank), chunk);
      mesh_.send(mesh_.peer(rank), message);
    }
  });
}

void CollectiveTable::tell(std::span<const int> ranks, const CollectiveMessage& message) noexcept {
  try {
    local_.progress.post([this, message, list = std::vector<int>(ranks.begin(), ranks.end())] {
      for (const int rank : list)
        if (rank != local_.rank) mesh_.send(mesh_.peer(rank), message);
    });
  } catch (const std::bad_alloc&) {
    local_.log->warn(Subsystem::path, "no memory to tell a group of {} ranks", ranks.size());
  }
}

void CollectiveTable::close(CollectiveGroup& group) noexcept {
  tell(group.ranks(), {.what = What::closed, .group = group.id()});
  local_.progress.post([this, id = group.id()] {
    const std::lock_guard lock(mutex_);
    groups_[id].is_closed = true;
    erase_if_over(id);
  });
}

void CollectiveTable::erase_if_over(std::uint64_t id) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || !found->second.is_closed) return;
  const Group& group = found->second;
  for (const int rank : group.here->ranks())
    if (rank != local_.rank && !group.closed.contains(rank) && !mesh_.peer(rank).silent.load())
      return;
  groups_.erase(found);
}

// Other ranks may open groups before this rank does, but at most kMostAhead of them.
CollectiveTable::Group* CollectiveTable::find(const CollectiveMessage& message) {
  constexpr std::ptrdiff_t kMostAhead = 4096;
  const auto found = groups_.find(message.group);
  if (found != groups_.end()) return &found->second;
  const auto is_ahead = [](const auto& group) { return group.second.here == nullptr; };
  if (message.what != What::open || std::ranges::count_if(groups_, is_ahead) >= kMostAhead)
    return nullptr;
  return &groups_[message.group];
}

void CollectiveTable::on_message(p2p::Peer& peer, std::span<const std::byte> bytes) {
  const auto message = p2p::parse<CollectiveMessage>(bytes);
  if (!message) return;
  const std::lock_guard lock(mutex_);
  Group* const known = find(*message);
  if (known == nullptr) return;
  Group& group = *known;
  switch (message->what) {
    case What::open:
      if (message->choices.says_something()) {
        if (!message->choices.makes_sense()) group.nonsense_from = peer.rank;
        group.choices = message->choices;
      }
      if (group.here == nullptr) group.ranks = message->text.get();
      group.areas[peer.rank] = message->area;
      break;
    case What::shared:
      break;
    case What::failed:
      if (group.here)
        group.here->fail(Status(ErrorDetail{.code = code_of(message->code),
                                            .operation = "collective",
                                            .message = message->text.get(),
                                            .rank = local_.rank,
                                            .peer = message->peer}));
      break;
    case What::waits:
      if (group.here) group.here->hear(peer.rank, *message);
      break;
    case What::closed:
      group.closed.insert(peer.rank);
      erase_if_over(message->group);
      break;
  }
  local_.ring();
}

void CollectiveTable::on_gone(p2p::Peer&) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, group] : groups_) ids.push_back(id);
  for (const std::uint64_t id : ids) erase_if_over(id);
}

}  // namespace weft::detail
