#include "pslib/async/async_worker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "pslib/table/slot_words.hpp"

namespace weft::pslib {
namespace {

Status refuse_call(const char* operation, const char* message, const char* hint) noexcept {
  return refuse(Code::bad_argument, [&] { return bad_argument(operation, message, hint); });
}

}  // namespace

AsyncWorker::AsyncWorker(World& world, const Description& table, PushSlot& slot)
    : world_(world),
      table_(table),
      self_(static_cast<std::size_t>(std::ranges::find(table.roles.workers, table.roles.rank) -
                                     table.roles.workers.begin())),
      slot_(slot) {}

void AsyncWorker::attach(World& world, Deadline deadline) {
  const std::size_t width = size_of(table_.options.wire);
  const std::int64_t header = table_.region_words();
  for (const int rank : table_.roles.servers)
    servers_.push_back({rank, world.attach_published(rank, table_.state(), deadline)});
  for (std::size_t i = 0; i < table_.homes.size(); ++i) {
    const int home = table_.homes[i];
    Shard& shard = shards_.emplace_back();
    shard.leader = i;
    shard.regions.emplace(i, world.attach_published(home, table_.region(home), deadline));
    shard.known.resize(StateWords::count(table_.roles.workers.size()));
    shard.words.resize(static_cast<std::size_t>(header) * width);
    shard.runs.push_back({0, header, shard.words.data()});
    for (const ShardPiece& piece : table_.pieces) {
      if (piece.server != home) continue;
      const auto first = static_cast<std::size_t>(table_.layout.offset(piece.tensor) + piece.first);
      shard.runs.push_back(
          {header + piece.shard_offset, piece.count, slot_.pulled().data() + first * width});
    }
  }
}

Pulled AsyncWorker::pulled() const {
  Pulled pulled{.version = version_, .contributors = {}};
  const auto& workers = table_.roles.workers;
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (std::ranges::any_of(shards_, [&](const Shard& shard) {
          const std::uint64_t mask = load_word(shard.words.data(), RegionWords::kMask + i / 64);
          return (mask >> (i % 64) & 1) != 0;
        }))
      pulled.contributors.push_back(workers[i]);
  return pulled;
}

Status AsyncWorker::push_initial(Deadline deadline) noexcept {
  if (Status status = slot_.fill_initial(deadline); !status) return status;
  return publish(deadline);
}

Status AsyncWorker::push(Deadline deadline) noexcept {
  if (settled_ == 0)
    return refuse_call("push", "the table has no parameters yet", "call initialize() first");
  if (settled_ != pushed_)
    return refuse_call("push", "the last push has not been pulled yet",
                       "call pull() after every push");
  if (Status status = slot_.fill(deadline); !status) return status;
  return publish(deadline);
}

Status AsyncWorker::publish(Deadline deadline) noexcept {
  if (Status status = slot_.set_word(GradientWords::kBase, version_, deadline); !status)
    return status;
  Status status = slot_.publish(deadline);
  if (status) ++pushed_;
  return status;
}

Status AsyncWorker::pull(Deadline deadline) noexcept {
  if (settled_ == pushed_)
    return refuse_call("pull", "nothing was pushed since the last pull()", "call push() first");
  try {
    for (; shards_done_ < shards_.size(); ++shards_done_)
      if (Status status = pull(shards_[shards_done_], deadline); !status) return status;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return refuse(Code::exhausted, [] { return bad_argument("pull", "no memory", ""); });
  }
  if (Status status = slot_.deliver(deadline); !status) return status;
  // From here on the application may write the gradients again.
  if (Status status = slot_.reclaim(deadline); !status) return status;
  shards_done_ = 0;
  settled_ = pushed_;
  version_ = load_word(shards_.front().words.data(), RegionWords::kVersion);
  for (const Shard& shard : shards_)
    version_ = std::min(version_, load_word(shard.words.data(), RegionWords::kVersion));
  return {};
}

// If the leading server dies before its values are here, pulls from the next leader. Between hosts,
// the news of a region may arrive after the news of the state published behind it. The values are
// then older than the state says, so the loop waits for the next version.
Status AsyncWorker::pull(Shard& shard, Deadline deadline) {
  for (;;) {
    if (Status status = await_permit(shard, deadline); !status) return status;
    if (shard.has_pulled &&
        load_word(shard.words.data(), RegionWords::kVersion) >= shard.known[StateWords::kVersion])
      return {};
    shard.has_pulled = false;
    Status status = move(shard, deadline);
    shard.has_pulled = status.ok();
    if (status) continue;
    if (status = lose(shard.leader, std::move(status)); !status) return status;
  }
}

Status AsyncWorker::move(Shard& shard, Deadline deadline) {
  if (!shard.regions.contains(shard.leader)) {
    const int home = table_.homes[static_cast<std::size_t>(&shard - shards_.data())];
    try {
      shard.regions.emplace(shard.leader, world_.attach_published(servers_[shard.leader].rank,
                                                                  table_.region(home), deadline));
    } catch (const Error& error) {
      return error.status();
    }
  }
  return shard.regions.at(shard.leader).get(shard.runs, deadline);
}

bool AsyncWorker::is_permitted(const Shard& shard) const noexcept {
  return !servers_[shard.leader].is_lost && shard.known[StateWords::kDone + self_] >= pushed_ &&
         shard.known[StateWords::kPermit] >= pushed_;
}

Status AsyncWorker::await_permit(Shard& shard, Deadline deadline) {
  while (!is_permitted(shard))
    if (Status status = hear(shard, deadline); !status)
      return name_the_slowest(shard, std::move(status));
  return {};
}

// Waits for news of the server that leads the shard, or of any server if there are replicas.
Status AsyncWorker::hear(const Shard& shard, Deadline deadline) {
  std::size_t server = shard.leader;
  if (table_.is_replicated()) {
    std::vector<PublishedReader*> states;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i].is_lost) continue;
      states.push_back(&servers_[i].state);
      places.push_back(i);
    }
    const auto ready = world_.wait_any(states, deadline);
    if (!ready) return ready.status();
    server = places[*ready];
  }
  const auto arrival = servers_[server].state.view(deadline);
  if (!arrival) return lose(server, arrival.status());
  const Tensor& tensor = arrival->tensor();
  adopt(server, {reinterpret_cast<const std::uint64_t*>(tensor.data()),
                 tensor.bytes() / sizeof(std::uint64_t)});
  return {};
}

// Takes a server's state words; those of a past epoch are ignored.
void AsyncWorker::adopt(std::size_t server, std::span<const std::uint64_t> words) {
  const std::size_t count = StateWords::count(table_.roles.workers.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!table_.is_replicated() && i != server) continue;
    const auto section = words.subspan(table_.is_replicated() ? i * count : 0, count);
    Shard& shard = shards_[i];
    if (section[StateWords::kEpoch] == 0 ||
        section[StateWords::kEpoch] < shard.known[StateWords::kEpoch])
      continue;
    shard.leader = server;
    std::ranges::copy(section, shard.known.begin());
  }
}

// A server's death is no error if others hold its shards. A server that leaves while this worker
// has the table open has given up: servers wait for the workers before they leave.
Status AsyncWorker::lose(std::size_t server, Status status) noexcept {
  const bool has_died =
      status.code() == Code::peer_failed && status.detail().peer == servers_[server].rank;
  if (!table_.is_replicated() || !has_died) return status;
  servers_[server].is_lost = true;
  if (std::ranges::all_of(servers_, &Server::is_lost)) return status;
  return {};
}

// Improves a timeout: a worker that waits for a permit, or for an update to which others
// contribute, waits for another worker rather than for the server.
Status AsyncWorker::name_the_slowest(const Shard& shard, Status status) const noexcept {
  const auto done = std::span(shard.known).subspan(StateWords::kDone);
  std::size_t slowest = self_;
  for (std::size_t i = 0; i < done.size(); ++i)
    if (i != self_ && (slowest == self_ || done[i] < done[slowest])) slowest = i;
  const Consistency& consistency = table_.options.consistency;
  const bool is_in = done[self_] >= pushed_;
  const bool takes_several =
      consistency.kind == Consistency::Kind::bsp || consistency.kind == Consistency::Kind::k_of_n;
  const bool waits_for_workers =
      slowest != self_ && (is_in || (takes_several && done[slowest] < pushed_));
  if (status.code() != Code::timeout || !waits_for_workers) return status;
  return refuse(Code::timeout, [&] {
    // The first push carries the initial parameters and is not a step.
    const auto steps = [](std::uint64_t pushes) { return pushes == 0 ? 0 : pushes - 1; };
    ErrorDetail detail = status.detail();
    detail.operation = "pull";
    detail.peer = table_.roles.workers[slowest];
    detail.message = fmt::format("rank {} has made {} steps, this worker {}: ", detail.peer,
                                 steps(done[slowest]), steps(pushed_));
    if (is_in)
      detail.message += fmt::format("the table allows {} more", consistency.staleness);
    else if (consistency.kind == Consistency::Kind::bsp)
      detail.message += "an update takes the gradients of all workers";
    else
      detail.message += fmt::format("an update takes the gradients of {} workers", consistency.k);
    detail.hint = "let the slower worker go on, or close its table";
    return detail;
  });
}

}  // namespace weft::pslib
