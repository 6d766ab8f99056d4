#include "p2p/transport/sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "p2p/transport/control_message.hpp"
#include "p2p/transport/sim/sim_channel.hpp"

namespace weft::p2p::sim {
namespace {

std::uint64_t number(int rank) noexcept { return static_cast<std::uint64_t>(rank); }

std::uint32_t low_bits(std::uint64_t sequence) noexcept {
  return static_cast<std::uint32_t>(sequence) & ShortSequence::kMask;
}

}  // namespace

Network::Network(int size, const SimOptions& options, Scheduler& scheduler)
    : options_(options), scheduler_(scheduler), sides_(static_cast<std::size_t>(size)) {
  Random& random = scheduler_.random();
  std::vector<std::uint64_t> steps(static_cast<std::size_t>(size), 0);
  const Faults& faults = options_.faults;
  for (int i = 0; i < faults.kills && size > faults.spared; ++i)
    steps[number(faults.spared) + random.below(number(size - faults.spared))] =
        1 + faults.kill_after + random.below(faults.kill_within);
  for (int r = 0; r < size; ++r) {
    ranks_.push_back(std::make_unique<SimRank>(r, scheduler_, options_.faults,
                                               steps[static_cast<std::size_t>(r)],
                                               [this, r] { on_death(r); }));
    side(r).paths.resize(static_cast<std::size_t>(size));
    side(r).ready.resize(static_cast<std::size_t>(size));
  }
  for (int i = 0; i < options_.faults.drops && size > 1; ++i) {
    const int a = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
    const int b = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
    if (a == b) continue;
    scheduler_.at(scheduler_.now() + random.between({}, options_.faults.drop_within),
                  [this, a, b] { drop(a, b); });
  }
}

Network::~Network() = default;

void Network::attach(int rank, LocalRank& local, FabricEvents& events) {
  this->rank(rank).set_local(&local);
  side(rank).events = &events;
}

void Network::detach(int rank) noexcept {
  // The others see the end of what they are connected to; who has said that it leaves is not lost.
  for (const auto& path : side(rank).paths)
    if (path && path->to != rank)
      deliver(path, Behind::all, [rank](FabricEvents& events) { events.lost(rank); });
  this->rank(rank).set_local(nullptr);
  side(rank).events = nullptr;
  side(rank).is_gone = true;
}

void Network::connect(int from, int to) {
  side(from).ready[number(to)] = true;
  if (!rank(to).alive() || side(to).is_gone) return lose(from, to);
  if (!side(to).ready[number(from)]) return;
  const auto make = [this](int a, int b) {
    // Not from 0 on: what is said by mistake must not be right by chance.
    const auto first = static_cast<std::uint32_t>(1 + scheduler_.random().below(1000));
    return std::make_shared<Path>(a, b, first);
  };
  path(from, to) = make(from, to);
  if (from != to) path(to, from) = make(to, from);
  open(path(from, to), *path(to, from));
  if (from != to) open(path(to, from), *path(from, to));
}

void Network::open(const std::shared_ptr<Path>& path, Path& back) {
  const auto when = scheduler_.now() + latency();
  back.opened = when;
  scheduler_.at(when, [this, path] {
    if (side(path->from).events == nullptr || !rank(path->from).alive()) return;
    scheduler_.note("connect", number(path->from), number(path->to), 0);
    rank(path->from).post([this, path] {
      if (FabricEvents* events = side(path->from).events)
        events->connected(path->to, std::make_unique<SimChannel>(*this, path));
    });
  });
}

void Network::drop(int a, int b) {
  if (!path(a, b) || !path(b, a)) return;
  scheduler_.note("drop", number(a), number(b), 0);
  path(a, b)->ends = path(b, a)->ends = scheduler_.now();
  // Neither has ended: that must not be believed of it.
  const Status broke(ErrorDetail{
      .code = Code::path_failed, .operation = "path", .message = "the connection broke"});
  lose(a, b, broke);
  lose(b, a, broke);
}

void Network::fence(int at, int peer) {
  if (path(at, peer))
    drop(at, peer);
  else
    lose(at, peer, Status(ErrorDetail{.code = Code::path_failed, .message = "it was fenced"}));
}

void Network::on_death(int dead) {
  Random& random = scheduler_.random();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == dead) continue;
    // Some operations under way arrive; then the peer hears of the death.
    if (path(dead, peer))
      path(dead, peer)->ends = std::min(
          path(dead, peer)->ends, scheduler_.now() + random.between({}, options_.faults.longest));
    if (path(peer, dead))
      path(peer, dead)->ends = std::min(path(peer, dead)->ends, scheduler_.now());
    if (side(peer).ready[number(dead)]) lose(peer, dead);
  }
}

void Network::lose(int at, int peer, const Status& why) {
  auto when = scheduler_.now() + latency();
  if (path(peer, at) && path(peer, at)->ends != Path::Time::max())
    when = std::max(when, path(peer, at)->ends + std::chrono::nanoseconds(1));
  scheduler_.at(when, [this, at, peer, why] {
    if (side(at).events == nullptr || !rank(at).alive()) return;
    scheduler_.note("lost", number(at), number(peer), 0);
    if (path(at, peer)) path(at, peer)->ends = std::min(path(at, peer)->ends, scheduler_.now());
    rank(at).post([this, at, peer, why] {
      if (side(at).events != nullptr) side(at).events->lost(peer, why);
    });
    rank(at).ring();  // a get under way ends
  });
}

std::chrono::nanoseconds Network::latency() {
  const Faults& faults = options_.faults;
  Random& random = scheduler_.random();
  return random.chance(faults.delayed) ? random.between(faults.typical, faults.longest)
                                       : random.between(faults.typical / 4, faults.typical * 2);
}

Path::Time Network::arrival(Path& path) {
  const auto alone = scheduler_.now() + latency();
  if (scheduler_.random().chance(options_.faults.reordered)) return alone;
  return path.last_operation = std::max(alone, path.last_operation);
}

std::byte* Network::memory(const Path& path, RemoteMemory at) {
  LocalRank* local = rank(path.to).local();
  if (local == nullptr || scheduler_.now() > path.ends) return nullptr;
  return local->arena_of(at.key)->chunk_data(at.key) + at.address;
}

void Network::arrive(std::shared_ptr<Path> path, Path::Time when, RemoteMemory at,
                     std::function<void(std::byte*)> act) {
  scheduler_.at(when, [this, path = std::move(path), at, act = std::move(act)] {
    std::byte* to = memory(*path, at);
    scheduler_.note(to == nullptr ? "vanish" : "arrive", number(path->from), number(path->to),
                    at.address);
    if (to != nullptr) act(to);
  });
}

bool Network::notify(const Path& path, std::uint32_t notification_id, std::uint64_t sequence,
                     RemoteMemory word) {
  const std::byte* at = memory(path, word);
  scheduler_.note(at == nullptr ? "vanish" : "signal", number(path.from), number(path.to),
                  notification_id);
  if (at == nullptr) return false;
  // As by a NIC: only the low bits travel. They must lead to this word, and to this value.
  using Arrival = NotificationTable::Arrival;
  const auto arrival = this->path(path.to, path.from)
                           ->expected.arrived(notification_id, ShortSequence{low_bits(sequence)});
  const std::uint64_t value =
      reinterpret_cast<const std::atomic<std::uint64_t>*>(at)->load(std::memory_order_relaxed);
  if (arrival == Arrival::set && value == sequence) return true;
  const char* wrong = arrival == Arrival::unknown       ? "is not expected"
                      : arrival == Arrival::out_of_turn ? "is out of turn"
                                                        : "set another word, or another value";
  defect(fmt::format("a put of rank {} to rank {}: signal {} with sequence {} {}", path.from,
                     path.to, notification_id, sequence, wrong));
  return true;
}

void Network::ring(const std::shared_ptr<Path>& path, Path::Time when) {
  Random& random = scheduler_.random();
  const auto bell = [this, path] {
    scheduler_.note("ring", number(path->from), number(path->to), 0);
    if (scheduler_.now() <= path->ends) rank(path->to).ring();
  };
  if (random.chance(options_.faults.duplicated)) scheduler_.at(when + latency(), bell);
  scheduler_.at(when, bell);
}

void Network::deliver(const std::shared_ptr<Path>& path, Behind behind,
                      std::function<void(FabricEvents&)> act) {
  auto when = std::max({scheduler_.now() + latency(), path->last_message, path->opened});
  if (behind == Behind::all) when = std::max(when, path->settled);
  path->last_message = when + std::chrono::nanoseconds(1);
  scheduler_.at(path->last_message, [this, path, act = std::move(act)] {
    scheduler_.note("message", number(path->from), number(path->to), 0);
    if (scheduler_.now() > path->ends || !rank(path->to).alive()) return;
    rank(path->to).post([this, path, act] {
      if (FabricEvents* events = side(path->to).events) act(*events);
    });
  });
}

void Network::send(const std::shared_ptr<Path>& path, std::span<const std::byte> message) {
  const bool overtakes = may_overtake_puts(message) && scheduler_.random().chance(0.5);
  deliver(path, overtakes ? Behind::messages : Behind::all,
          [from = path->from, bytes = std::vector<std::byte>(message.begin(), message.end())](
              FabricEvents& events) { events.message(from, bytes); });
}

void Network::share(const std::shared_ptr<Path>& path, std::uint32_t chunk, std::size_t bytes) {
  deliver(path, Behind::messages,
          [this, from = path->from, to = path->to, chunk, bytes](FabricEvents&) {
            if (const auto& back = this->path(to, from)) back->known.add(chunk, {0, chunk}, bytes);
            rank(to).wake();  // it may wait for just this chunk
          });
}

}  // namespace weft::p2p::sim
