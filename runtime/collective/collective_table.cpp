#include "runtime/collective/collective_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>

#include "p2p/slot/attach/device_wait.hpp"
#include "runtime/collective/group_id.hpp"
#include "runtime/collective/host_group.hpp"
#include "runtime/collective/slot_group.hpp"

namespace weft::detail {
namespace {

using What = CollectiveMessage::What;

/// A GPU that works has ended all of a group's work by then.
constexpr std::chrono::seconds kMostWorking{20};

Code code_of(std::uint32_t code) noexcept {
  const bool known = code > 0 && code <= static_cast<std::uint32_t>(Code::partitioned);
  return known ? static_cast<Code>(code) : Code::system;
}

/// The failure of `peer`'s open(), which ends this rank's too.
Status given_up_by(const p2p::Peer& peer, const CollectiveMessage& message) {
  return Status(
      ErrorDetail{.code = code_of(message.code),
                  .operation = "open",
                  .message = fmt::format("rank {} has given up: {}", peer.rank, message.text.get()),
                  .hint = "open the group again, on every rank",
                  .rank = peer.rank,
                  .peer = message.peer,
                  .host = peer.host()});
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

std::uint64_t CollectiveTable::list_of(std::span<const int> ranks, Purpose purpose) noexcept {
  const std::uint64_t list = list_id(ranks);
  return purpose == Purpose::calls ? list : mixed_id(list, static_cast<std::uint64_t>(purpose));
}

void CollectiveTable::join_words(std::span<const int> ranks, std::span<std::int64_t> words,
                                 Deadline deadline) {
  if (ranks.size() < 2) return;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const std::shared_ptr<CollectiveGroup> group = open(ranks, until, Purpose::split);
  const Tensor tensor =
      Tensor::wrap(words.data(), DType::i64, {static_cast<std::int64_t>(words.size())});
  // By any other algorithm a rank may send a message to each of the others.
  const Status status = group->run_once({.kind = CollectiveKind::all_reduce,
                                         .in = tensor,
                                         .out = tensor,
                                         .op = Reduction::bit_or,
                                         .algorithm = Algorithm::doubling},
                                        until);
  group->close();
  status.or_throw();
}

std::shared_ptr<CollectiveGroup> CollectiveTable::make(std::vector<int> ranks, std::uint64_t id,
                                                       std::uint64_t nth, Purpose purpose) {
  const bool one_host =
      purpose == Purpose::calls && std::all_of(ranks.begin(), ranks.end(), [this](int rank) {
        return mesh_.peer(rank).fabric->kind() == p2p::FabricKind::shm;
      });
  if (one_host)
    return std::make_shared<HostGroup>(local_, mesh_, *this, std::move(ranks), id, nth, numa_node_);
  return std::make_shared<SlotGroup>(local_, mesh_, *this, slots_, std::move(ranks), id, nth);
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
    if (peer.fabric->kind() == p2p::FabricKind::tcp) choices.piece = Piece::kLong;
  }
  return choices;
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
  const bool works = group.gpu_works();
  if (!works) say_closed(group);
  local_.progress.post([this, works, id = group.id()] {
    const std::lock_guard lock(mutex_);
    groups_[id].is_closed = !works;
    if (!works) return erase_if_over(id);
    ++closing_;
    groups_[id].is_closing = true;
    local_.progress.turn_soon();
  });
}

void CollectiveTable::say_closed(const CollectiveGroup& group) noexcept {
  // Between hosts no rank reads another's area. A rank that still waits for this one is told when
  // it asks.
  if (group.area().bytes > 0) tell(group.ranks(), {.what = What::closed, .group = group.id()});
}

void CollectiveTable::close_if_idle(std::uint64_t id) {
  Group& group = groups_[id];
  if (group.here->gpu_works()) return local_.progress.turn_soon();
  --closing_;
  group.is_closing = false;
  group.is_closed = true;
  say_closed(*group.here);
  erase_if_over(id);
}

void CollectiveTable::serve() {
  const bool has_streams = has_streams_.load(std::memory_order_acquire);
  if (closing_ == 0 && !has_streams) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  if (has_streams)
    for (const auto& [id, group] : groups_)
      if (group.here != nullptr && group.here->serve_streams()) local_.progress.turn_soon();
  std::vector<std::uint64_t> ids;
  for (const auto& [id, group] : groups_)
    if (group.is_closing) ids.push_back(id);
  for (const std::uint64_t id : ids) close_if_idle(id);
}

bool CollectiveTable::end_work() noexcept {
  std::vector<std::shared_ptr<CollectiveGroup>> all;
  if (has_streams_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, group] : groups_)
      if (group.here != nullptr) all.push_back(group.here);
  }
  for (const auto& group : all) group->end_streams(nullptr, "left");
  bool reaches_others = false;
  const auto ended = [&]() -> std::optional<Status> {
    const std::lock_guard lock(mutex_);
    bool works = false;
    reaches_others = false;
    for (const auto& [id, group] : groups_) {
      if (group.here == nullptr || !group.here->gpu_works()) continue;
      works = true;
      // In groups of several hosts a GPU works on its own rank's memory.
      reaches_others = group.here->has_lent_gpus() || reaches_others;
    }
    return works ? std::nullopt : std::optional<Status>(Status{});
  };
  if (ended() || p2p::wait_for_device(local_, ended, Deadline::after(kMostWorking),
                                      [] { return stats::WaitAbout{}; }))
    return false;
  local_.log->error(Subsystem::path, "a GPU still works for a group that this rank leaves{}",
                    reaches_others ? ": other ranks keep the memory in quarantine" : "");
  return reaches_others;
}

void CollectiveTable::erase_if_over(std::uint64_t id) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || !found->second.is_closed) return;
  const Group& group = found->second;
  const bool has_area = group.here->area().bytes > 0;
  for (const int rank : group.here->ranks())
    if (has_area && rank != local_.rank && !group.closed.contains(rank) &&
        !mesh_.peer(rank).silent.load())
      return;
  groups_.erase(found);
}

std::uint64_t CollectiveTable::number_of(const CollectiveGroup& group) {
  const std::lock_guard lock(mutex_);
  return groups_[group.id()].nth;
}

bool CollectiveTable::was_left_early(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  return groups_[id].given_up.code() == Code::timeout;
}

void CollectiveTable::send(const std::vector<Letter>& letters) {
  for (const Letter& letter : letters)
    if (letter.to != local_.rank) mesh_.send(mesh_.peer(letter.to), letter.message);
}

stats::WaitAbout CollectiveTable::about_opening(std::uint64_t id, std::span<const int> ranks,
                                                std::uint64_t since_ns,
                                                stats::WaitDetails& details) noexcept {
  stats::WaitAbout about{
      .operation = stats::Operation::open, .since_ns = since_ns, .details = &details};
  try {
    const std::lock_guard lock(mutex_);
    const Group& group = groups_[id];
    details.set_text(fmt::format("{} {}", group.purpose == Purpose::split ? "split" : "open",
                                 group_text(ranks, group.nth)));
    if (group.here->area().bytes == 0)
      about.peer = missing_rank(group);
    else if (opens_by_directory(*group.here))
      about.peer = absent_rank(group);
    else
      for (const int rank : ranks) {
        if (group.areas.contains(rank)) continue;
        if (about.peer < 0) about.peer = rank;
        if (!details.await(static_cast<std::uint64_t>(rank))) ++about.more;
      }
  } catch (const std::bad_alloc&) {
    return about;  // without the text
  }
  return about;
}

// Other ranks may open groups before this rank does, but at most kMostAhead of them.
CollectiveTable::Group* CollectiveTable::find(const CollectiveMessage& message) {
  constexpr std::ptrdiff_t kMostAhead = 4096;
  const auto found = groups_.find(message.group);
  if (found != groups_.end()) return &found->second;
  const auto is_ahead = [](const auto& group) { return group.second.here == nullptr; };
  const bool is_of_opening = message.what == What::open || message.what == What::gave_up;
  if (!is_of_opening || message.group != group_id(message.list, message.number) ||
      std::ranges::count_if(groups_, is_ahead) >= kMostAhead)
    return nullptr;
  const auto opened = opened_.find(message.list);
  if (opened != opened_.end() && message.number < opened->second) return nullptr;  // it is over
  return &groups_[message.group];
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

void CollectiveTable::on_message(p2p::Peer& peer, std::span<const std::byte> bytes) {
  auto message = p2p::parse<CollectiveMessage>(bytes);
  if (!message) return;
  if (message->missing < -1 || message->missing >= local_.size) message->missing = -1;
  std::vector<Letter> letters;
  std::unique_lock lock(mutex_);
  Group* const known = find(*message);
  if (known == nullptr) {
    lock.unlock();
    // All ranks of a group that is in use have opened it, so this rank has closed it.
    if (message->what == What::waits || message->what == What::gpu)
      mesh_.send(peer, CollectiveMessage{.what = What::closed, .group = message->group});
    return;
  }
  Group& group = *known;
  switch (message->what) {
    case What::open:
      on_open(group, peer.rank, *message, letters);
      break;
    case What::shared:
      break;
    case What::gave_up:
      // Of several reasons the one that is more than lateness counts.
      if (group.given_up.ok() || group.given_up.code() == Code::timeout)
        group.given_up = given_up_by(peer, *message);
      if (group.here) group.here->hear_closed(peer.rank);
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
      if (!group.here) break;
      group.here->hear(peer.rank, *message);
      if (const auto answer = group.here->answer(*message)) letters.push_back({peer.rank, *answer});
      break;
    case What::gpu:
      if (!group.here) break;
      if (const auto answer = group.here->hear_gpu(peer.rank, *message))
        letters.push_back({peer.rank, *answer});
      break;
    case What::entered:
      if (group.here) group.here->hear_entered(peer.rank, *message);
      break;
    case What::closed:
      group.closed.insert(peer.rank);
      // Within a host most ranks that close a group leave next, and leaving tells more.
      if (group.here && group.here->area().bytes == 0) group.here->hear_closed(peer.rank);
      erase_if_over(message->group);
      break;
  }
  lock.unlock();
  send(letters);
  local_.ring();
}

void CollectiveTable::on_gone(p2p::Peer&) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, group] : groups_) ids.push_back(id);
  for (const std::uint64_t id : ids) erase_if_over(id);
}

}  // namespace weft::detail
