#include "p2p/transport/tcp/tcp_channel.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "p2p/transport/control_message.hpp"

namespace weft::p2p::tcp {

TcpChannel::Rail::Rail(TcpChannel& owner, Pipe connection, std::size_t number)
    : channel(owner),
      index(number),
      pipe(std::move(connection)),
      own(address_of(pipe.in(), ::getsockname)),
      peer(address_of(pipe.in(), ::getpeername)),
      out(pipe, owner.exports_),
      in(pipe) {}

TcpChannel::TcpChannel(TcpRank& rank, int peer)
    : Channel(FabricKind::tcp, rank.local.stats->path(peer).counters, &words_),
      rank_(rank),
      peer_(peer) {
  capabilities_.peer_reaches_adopted = true;
}

TcpChannel::~TcpChannel() { unwatch(); }

void TcpChannel::open(std::vector<Pipe> rails, bool checksums) {
  std::vector<std::unique_ptr<Rail>> made;
  for (std::size_t i = 0; i < rails.size(); ++i)
    made.push_back(std::make_unique<Rail>(*this, std::move(rails[i]), i));
  if (!open_rails(std::move(made), checksums)) return;
  for (const auto& rail : rails_) watch(*rail);
}

void TcpChannel::open(std::size_t rails, bool checksums) {
  std::vector<std::unique_ptr<Rail>> made;
  for (std::size_t i = 0; i < rails; ++i) {
    Rail& rail = *made.emplace_back(std::make_unique<Rail>(*this, Pipe(os::Fd()), i));
    rail.link = Link::down;
    rail.reads = rail.has_been_up = false;
  }
  (void)open_rails(std::move(made), checksums);
}

/// False: the path has failed already.
bool TcpChannel::open_rails(std::vector<std::unique_ptr<Rail>> rails, bool checksums) {
  if (checksums)
    for (const auto& rail : rails) rail->out.use_checksums();
  {
    // Memory may be retracted by any thread meanwhile.
    const std::scoped_lock locks(sending_.mutex, receiving_.mutex);
    checksums_ = checksums;
    rails_ = std::move(rails);
    if (rails_.size() > 1) {
      lanes_ = std::make_unique<Lanes>();
      for (const auto& rail : rails_) {
        rail->out.keep();
        lanes_->pool.use(rail->index, rail->link.load() == Link::up);
      }
      if (lanes_->awaits_first = !first_up(); lanes_->awaits_first) lanes_->fenced = main_;
    }
  }
  const std::lock_guard lock(sending_.mutex);
  // A failure may have come first, and stays.
  const auto open = [this] { state_.store(State::open, std::memory_order_release); };
  if (!end_.unless_decided(open)) return false;
  for (const auto& [head, payload] : sending_.unsent) transmit(head, payload);
  for (const auto& rail : rails_) {
    if (rail->link.load() != Link::up) continue;
    rail->out.flush(kTurn);  // a cipher's header
    after_sending(*rail);
  }
  sending_.unsent = {};
  return true;
}

void TcpChannel::watch(Rail& rail) {
  rank_.sockets.add(rail.pipe.in(), rail.pipe.out(), rail);
  rail.is_watched = true;
  if (rail.waits.load()) rank_.sockets.want_room(rail.pipe.in(), true);
}

void TcpChannel::unwatch() noexcept {
  for (const auto& rail : rails_) unwatch(*rail);
}

void TcpChannel::unwatch(Rail& rail) noexcept {
  if (std::exchange(rail.is_watched, false)) rank_.sockets.remove(rail.pipe.in(), rail.pipe.out());
}

bool TcpChannel::export_region(std::uint32_t chunk) {
  if (shared_.contains(chunk)) return true;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  if (sort_of_chunk(chunk) == ArenaSort::adopted) {
    const auto region = rank_.local.adopted->region(chunk);
    if (!region) return true;  // who looks for it finds that it was given back
    data = region->data;
    bytes = region->bytes;
  } else {
    const Arena& arena = *rank_.local.arena_of(chunk);
    data = arena.chunk_data(chunk);
    bytes = arena.chunk_bytes(chunk);
  }
  exports_.add(chunk, data, bytes);
  shared_.insert(chunk);
  rank_.local.recorder.control(stats::Event::chunk_shared, peer_, 0, chunk);
  counters().control_messages.add(1);
  post({.kind = Kind::chunk, .address = bytes, .key = chunk});
  return true;
}

void TcpChannel::unshare(std::uint32_t chunk) {
  if (shared_.erase(chunk) == 0) return;
  counters().control_messages.add(1);
  post({.kind = Kind::chunk_gone, .key = chunk});
}

void TcpChannel::retract(std::uint32_t chunk) noexcept {
  exports_.remove(chunk);
  // A thread that reads or writes it now does so within a turn.
  { const std::lock_guard lock(sending_.mutex); }
  const std::lock_guard lock(receiving_.mutex);
  for (const auto& rail : rails_) {
    const Head* head = rail->in.under_way();
    if (head == nullptr || head->key != chunk || head->kind == Kind::reply) continue;
    for (iovec& place : rail->in.places()) place.iov_base = nullptr;
  }
}

void TcpChannel::fail(Status why) noexcept {
  if (!end_.decide(std::move(why))) return;
  {
    const std::lock_guard lock(sending_.mutex);
    state_.store(State::failed, std::memory_order_release);
    for (const auto& rail : rails_) rail->out.drop();
    if (lanes_) lanes_->drop();
    sending_.unsent = {};
  }
  {
    // No thread writes into what a get lent once it sees that the path has failed.
    const std::lock_guard lock(receiving_.mutex);
    is_over_ = true;
    for (const auto& rail : rails_) rail->pipe.shut();
  }
  rank_.local.ring();
}

bool TcpChannel::take_heard() noexcept {
  if (heard_.exchange(false, std::memory_order_relaxed)) return true;
  // Something may be there that is too little to be worth a turn.
  for (const auto& rail : rails_) {
    {
      const std::lock_guard lock(receiving_.mutex);
      if (rail->reads) rail->in.take_any();
    }
    receive(*rail);
  }
  if (heard_.exchange(false, std::memory_order_relaxed)) return true;
  if (lanes_) {
    // The network of the signs of life may be another one than that of the rails that are left.
    const std::lock_guard lock(sending_.mutex);
    if (is_open() && find_waiting(Kind::bell, 0, 0) == nullptr)
      transmit({.kind = Kind::bell, .flags = kTell}, {});
  }
  return false;
}

bool TcpChannel::drain() noexcept {
  // More than sockets hold.
  constexpr int kTurns = 64;
  for (int i = 0; i < kTurns && !is_over_.load(); ++i)
    for (const auto& rail : rails_) receive(*rail);
  return is_over_.load();
}

std::optional<Status> TcpChannel::poll_put(std::uint64_t posted) noexcept {
  if (lanes_) return outcome_by_lanes(posted);
  return outcome_of(posted & ~kDelivered, (posted & kDelivered) != 0);
}

std::optional<Status> TcpChannel::outcome_of(std::uint64_t number, bool delivered) noexcept {
  const auto has_ended = [&] {
    return delivered ? acked_.load(std::memory_order_acquire) >= number
                     : main_rail().out.sent() >= number;
  };
  if (has_ended()) return Status{};
  if (has_failed()) return broken("put");
  flush();
  if (delivered && !has_ended()) {
    const std::lock_guard lock(sending_.mutex);
    if (is_open() && sending_.ack_asked < number) {
      sending_.ack_asked = main_rail().out.begun();
      transmit({.kind = Kind::ack_wanted, .sequence = sending_.ack_asked}, {});
    }
  }
  if (!has_ended()) rank_.sockets.poll_once();
  if (has_ended()) return Status{};
  return std::nullopt;
}

bool TcpChannel::is_idle() noexcept {
  // A peer that has closed its end has read all that it will read, and answers no more.
  if (!is_open() || is_over_.load()) return true;
  if (lanes_) return is_idle_by_lanes();
  {
    // From now on only answers to the peer are sent.
    const std::lock_guard lock(sending_.mutex);
    SendQueue& out = main_rail().out;
    if (!sending_.last_said && out.begun() == 0 && !out.has_been_urgent()) return true;
    if (!sending_.last_said) {
      // Behind all of it, urgent or not.
      sending_.last_said = sending_.ack_asked = out.begun() + 1;
      transmit({.kind = Kind::ack_wanted, .sequence = *sending_.last_said}, {});
    }
  }
  return outcome_of(*sending_.last_said, true).has_value();
}

void TcpChannel::take_messages(const std::function<void(std::span<const std::byte>)>& take) {
  inbox_.take(take);
}

}  // namespace weft::p2p::tcp
