#include "pslib/async/async_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/fail.hpp"
#include "pslib/replication/replica_words.hpp"
#include "pslib/table/slot_words.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib {
namespace {

std::size_t place_of(const std::vector<int>& servers, int rank) {
  return static_cast<std::size_t>(std::ranges::find(servers, rank) - servers.begin());
}

std::span<std::uint64_t> words_of(const Tensor& tensor) {
  return {reinterpret_cast<std::uint64_t*>(tensor.data()), tensor.bytes() / sizeof(std::uint64_t)};
}

}  // namespace

AsyncServer::AsyncServer(World& world, const Description& table)
    : world_(world),
      table_(table),
      self_(place_of(table.roles.servers, table.roles.rank)),
      // This server may come to hold any shard of a replicated table.
      gradients_(table, table.is_replicated() ? table.homes : std::vector{table.roles.rank}),
      state_(world.expose_published(table.state())),
      replica_sets_(
          first_replica_sets(table.roles.server_hosts, table.homes.size(), table.roles.replicas)) {
  if (table.is_replicated()) {
    words_ = world.expose_published(table.replica_words());
    for (std::size_t shard = 0; shard < table.homes.size(); ++shard)
      held_.emplace_back(shard, self_);
  } else {
    held_.emplace_back(self_, self_);
  }
  hold(table.roles.group.epoch(), true);
  tell().or_throw();
}

void AsyncServer::attach(Deadline deadline) {
  gradients_.attach(world_, deadline);
  if (!table_.is_replicated()) return;
  const auto& servers = table_.roles.servers;
  for (std::size_t server = 0; server < servers.size(); ++server)
    if (server != self_)
      peers_.push_back(
          {server, world_.attach_published(servers[server], table_.replica_words(), deadline)});
}

void AsyncServer::hold(std::uint64_t epoch, bool starts) {
  for (Held& held : held_) {
    held.replica.enter(epoch, replica_sets_.of_shard[held.shard], starts);
    // Release offers of former epochs: a reader that keeps one holds up its primary.
    for (auto& [server, offer] : held.offers)
      if (offer.arrival && load_word(offer.arrival.tensor().data(), OfferWords::kEpoch) < epoch)
        offer.arrival = {};
    if (held.replica.holds() && !held.state) make(held);
  }
  // A replica stays one, so this server holds more and more shards.
  std::vector<int> homes;
  for (const Held& held : held_)
    if (held.state) homes.push_back(home_of(held));
  gradients_.hold(std::move(homes));
}

void AsyncServer::make(Held& held) {
  held.state = std::make_unique<AsyncShard>(world_, table_, held.shard);
  held.checkpointer = make_checkpointer(world_, table_, table_.homes[held.shard]);
  held.saved = table_.first_version();
}

Status AsyncServer::take_peer(std::size_t peer, Deadline deadline) noexcept {
  const auto arrival = peers_[peer].words.view(deadline);
  if (!arrival) return arrival.status();
  const std::span words = words_of(arrival->tensor());
  const std::size_t count = ReplicaWords::count(gradients_.size());
  for (Held& held : held_) {
    const auto message = ReplicaWords::load(words.subspan(held.shard * count, count));
    // Each epoch but the first has fewer ranks than the one before, so epochs are bounded.
    if (message.epoch > table_.roles.group.epoch() + static_cast<std::uint64_t>(world_.size()))
      return refuse(Code::mismatch, [&] {
        return nonsense("serve", table_.roles.servers[peers_[peer].server],
                        peers_[peer].words.spec().name,
                        fmt::format("epoch {} in a job of {} ranks", message.epoch, world_.size()));
      });
    held.replica.receive(peers_[peer].server, message);
  }
  return {};
}

Status AsyncServer::advance() noexcept {
  for (const Held& held : held_)
    if (held.state) held.state->wait_until(until());
  try {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (Held& held : held_) {
        const auto done = step(held);
        if (!done) return done.status();
        goes_on = goes_on || *done;
      }
    }
    release();
    take_again();
    return tell();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return refuse(Code::exhausted,
                  [&] { return error_detail(Code::exhausted, "serve", error.what()); });
  }
}

Result<bool> AsyncServer::step(Held& held) {
  Status status;
  bool goes_on = true;
  switch (held.replica.duty()) {
    case Replica::Duty::none:
      goes_on = held.replica.may_order() && order(held, status);
      break;
    case Replica::Duty::commit:
      status = commit(held);
      break;
    case Replica::Duty::offer:
      status = offer(held);
      break;
    case Replica::Duty::apply:
      goes_on = follow(held, status);
      break;
    case Replica::Duty::fetch:
      return fetch(held);
    case Replica::Duty::lost:
      goes_on = false;
      status = lose(held);
  }
  if (!status) return status;
  return goes_on;
}

// Tells the backups first, so that they apply the record at the same time.
bool AsyncServer::order(Held& held, Status& status) {
  auto pushes = held.state->next_record(gradients_);
  if (pushes.empty()) return false;
  held.replica.order(std::move(pushes));
  status = tell();
  if (status) status = held.state->apply(held.replica.record().pushes, gradients_);
  if (status) held.replica.applied();
  return true;
}

// False if a gradient is still to come.
bool AsyncServer::follow(Held& held, Status& status) {
  const auto& pushes = held.replica.record().pushes;
  for (const RecordedPush& push : pushes) {
    const std::uint64_t taken = gradients_.taken(push.worker);
    if (taken == push.sequence && gradients_.has(push.worker, home_of(held))) continue;
    if (gradients_.is_to_come(push.worker, push.sequence)) return false;
    held.replica.could_not_apply();
    return true;
  }
  status = held.state->apply(pushes, gradients_);
  if (status) status = held.state->publish();
  if (status) held.replica.applied();
  return true;
}

Status AsyncServer::commit(Held& held) {
  held.replica.committed();
  if (Status status = held.state->publish(); !status) return status;
  acknowledge(held);
  if (Status status = publish_state(); !status) return status;
  return save(held);
}

// Every shard saves the same versions, so they form one checkpoint, although saved at different
// times.
Status AsyncServer::save(Held& held) noexcept {
  const std::uint64_t version = held.state->version();
  if (!held.checkpointer || !held.state->has_parameters() || version == held.saved) return {};
  held.saved = version;
  return held.state->write(*held.checkpointer);
}

// Copies the committed values, which every replica has.
void AsyncServer::acknowledge(Held& held) {
  auto& words = held.acknowledged;
  words.resize(StateWords::count(gradients_.size()));
  words[StateWords::kEpoch] = held.replica.epoch() + 1;
  words[StateWords::kVersion] = held.state->version();
  words[StateWords::kPermit] = held.state->permit(gradients_);
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker)
    words[StateWords::kDone + worker] = held.state->done(worker);
}

// True if a server has left: servers leave once every worker has closed the table.
bool AsyncServer::is_ending() const noexcept {
  return std::ranges::any_of(peers_, [this](const Peer& peer) {
    const int rank = table_.roles.servers[peer.server];
    const Status status = world_.alive(std::span(&rank, 1));
    return !status && (status.code() != Code::peer_failed || status.detail().peer != rank);
  });
}

// Another server may have left because the table has ended; the workers' ends are then on their way
// here too. If they do not arrive within 1 s, that server has given up.
Status AsyncServer::lose(Held& held) const {
  constexpr std::chrono::seconds kUnderWay{1};
  if (!is_ending()) return lost(held);
  if (held.lost_at.is_default()) held.lost_at = Deadline::after(kUnderWay);
  return held.lost_at.passed() ? lost(held) : Status{};
}

Deadline AsyncServer::advance_at() const noexcept {
  const auto found =
      std::ranges::find_if(held_, [](const Held& held) { return !held.lost_at.is_default(); });
  return found == held_.end() ? Deadline{} : found->lost_at;
}

Status AsyncServer::lost(const Held& held) const {
  ErrorDetail detail =
      error_detail(Code::peer_failed, "serve",
                   fmt::format("all servers that held shard {} of table \"{}\" have died or left",
                               held.shard, table_.table),
                   "more replicas survive more deaths at a time; a checkpoint survives all");
  detail.rank = world_.rank();
  detail.peer = table_.homes[held.shard];
  return Status(std::move(detail));
}

// Releases the gradients that every shard here is done with.
void AsyncServer::release() noexcept {
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker) {
    const auto is_done = [&](const Held& held) {
      return !held.replica.has_state() || held.state->done(worker) >= gradients_.taken(worker);
    };
    if (gradients_.has(worker) && std::ranges::all_of(held_, is_done)) gradients_.release(worker);
  }
}

// Takes gradients again for a shard that this server has come to hold since: the shard's state may
// precede a push that the other shards here are done with, or that was read for them alone.
void AsyncServer::take_again() noexcept {
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker) {
    const auto lacks_it = [&](const Held& held) {
      return held.replica.has_state() && held.state->done(worker) < gradients_.taken(worker) &&
             !gradients_.has(worker, home_of(held));
    };
    if (!gradients_.is_gone(worker) && std::ranges::any_of(held_, lacks_it))
      gradients_.take_again(worker);
  }
}

Status AsyncServer::tell() noexcept {
  const auto is_told = [](const Held& held) { return held.told == held.replica.revision(); };
  if (!table_.is_replicated() || std::ranges::all_of(held_, is_told)) return {};
  auto buffer = words_.next(until());
  if (!buffer) return buffer.status();
  const std::size_t count = ReplicaWords::count(gradients_.size());
  for (Held& held : held_) {
    held.told = held.replica.revision();
    ReplicaWords::store(held.replica.message(),
                        words_of(*buffer).subspan(held.shard * count, count));
  }
  return words_.publish();
}

Status AsyncServer::publish_state() noexcept {
  auto buffer = state_.next(until());
  if (!buffer) return buffer.status();
  const std::span words = words_of(*buffer);
  const std::size_t count = StateWords::count(gradients_.size());
  std::ranges::fill(words, 0);
  for (std::size_t i = 0; i < held_.size(); ++i)
    std::ranges::copy(held_[i].acknowledged, words.subspan(i * count, count).begin());
  return state_.publish();
}

bool AsyncServer::needs_all() const noexcept {
  if (table_.options.consistency.kind != Consistency::Kind::bsp) return false;
  return std::ranges::any_of(held_, [&](const Held& held) {
    if (!held.replica.has_state()) return false;
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (gradients_.taken(i) > held.state->done(i)) return true;
    return false;
  });
}

Status AsyncServer::drop(std::size_t worker) noexcept {
  gradients_.drop(worker);
  const bool has_begun = std::ranges::all_of(held_, [](const Held& held) {
    return !held.replica.has_state() || held.state->has_parameters();
  });
  if (!has_begun)
    return refuse(Code::closed, [&] {
      ErrorDetail detail = error_detail(Code::closed, "serve",
                                        "a worker was lost before the table had its parameters",
                                        "let every worker call initialize()");
      detail.peer = table_.roles.workers[worker];
      return detail;
    });
  // The worker no longer holds back the others.
  if (Status status = advance(); !status) return status;
  for (Held& held : held_)
    if (held.replica.may_order()) acknowledge(held);
  return publish_state();
}

bool AsyncServer::is_outdated(const Group& group) const noexcept {
  if (!table_.is_replicated()) return false;
  return std::ranges::any_of(peers_,
                             [&](const Peer& peer) {
                               const int rank = table_.roles.servers[peer.server];
                               return group.contains(rank) &&
                                      world_.alive(std::span(&rank, 1)).code() == Code::peer_failed;
                             }) ||
         std::ranges::any_of(
             held_, [&](const Held& held) { return held.replica.newest_epoch() > group.epoch(); });
}

Status AsyncServer::enter(const Group& group) noexcept {
  if (!table_.is_replicated()) return {};
  try {
    const auto& servers = table_.roles.servers;
    std::vector<bool> live;
    for (const int rank : servers) live.push_back(group.contains(rank));
    replica_sets_ = next_replica_sets(replica_sets_, group.epoch(), live, table_.roles.server_hosts,
                                      table_.roles.replicas);
    hold(group.epoch(), false);
  } catch (...) {
    return caught_status();
  }
  log_of(world_)->warn(
      Subsystem::ps, "table \"{}\" goes on in epoch {} with {} of {} servers", table_.table,
      group.epoch(),
      std::ranges::count_if(table_.roles.servers, [&](int s) { return group.contains(s); }),
      table_.roles.servers.size());
  if (Status status = tell(); !status) return status;
  return advance();
}

std::uint64_t AsyncServer::version() const noexcept {
  std::uint64_t newest = 0;
  for (const Held& held : held_)
    if (held.replica.has_state()) newest = std::max(newest, held.state->version());
  return newest;
}

ShardLoad AsyncServer::load() const noexcept {
  ShardLoad load;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    load.requests += gradients_.taken(i);
    load.queue += gradients_.has(i) ? 1 : 0;
  }
  for (const Held& held : held_) {
    if (!held.state) continue;
    load.bytes_read += load.requests * held.state->bytes_read();
    load.bytes_written += held.state->version() * held.state->bytes_written();
    load.memory += held.state->memory();
  }
  return load;
}

TableStatistics AsyncServer::statistics() const {
  TableStatistics sum;
  for (const Held& held : held_) {
    if (!held.replica.is_primary()) continue;
    const TableStatistics& one = held.state->statistics();
    sum.applied += one.applied;
    sum.folded += one.folded;
    sum.dropped += one.dropped;
    sum.skipped += one.skipped;
    for (std::size_t i = 0; i < sum.staleness.size(); ++i) sum.staleness[i] += one.staleness[i];
  }
  return sum;
}

}  // namespace weft::pslib
