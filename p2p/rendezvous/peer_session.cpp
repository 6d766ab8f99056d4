// Opening a session, its turns, and the messages that they read.
#include "p2p/rendezvous/peer_session.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "base/fail.hpp"

namespace weft::p2p::rendezvous {

PeerSession::PeerSession(LocalRank& local, Mesh& mesh, SlotTable& slots, Peer& peer,
                         const RendezvousSpec& spec, const std::string& shared_name, Totals& totals)
    : context_{.local = local,
               .mesh = mesh,
               .slots = slots,
               .peer = peer,
               .spec = spec,
               .shared_name = shared_name},
      share_(totals),
      inbox_(context_),
      outbox_(context_),
      receiver_(context_, outbox_),
      sender_(context_, outbox_) {}

Status PeerSession::share() noexcept {
  try {
    const Peer& peer = context_.peer;
    if (!context_.mesh.share(context_.peer, outbox_.chunk()) || !receiver_.share())
      return failure(Code::exhausted, "open", {},
                     fmt::format("this rank's memory can't be made accessible to rank {} (host {})",
                                 peer.rank, peer.host()),
                     "the log says why; raise ulimit -l to register more");
    return {};
  } catch (...) {
    return caught_status();
  }
}

void PeerSession::attach(Deadline deadline) {
  outbox_.attach(deadline);
  // The peer read what share() sent before it granted the attach, so it knows the chunk.
  receiver_.add_known_chunk(outbox_.chunk());
}

void PeerSession::send_hello() noexcept {
  const SessionLock lock(*this);
  MessageWriter writer(outbox_.draft(), RendezvousMessage::hello, 0, 0);
  writer.add(receiver_.hello());
  context_.observe(RendezvousMessage::hello, true, {});
  open_.store(true);
  run([&] { outbox_.post(writer.finish()); });
  work();
}

PeerSession::SessionLock::SessionLock(PeerSession& session) noexcept : session_(session) {
  session_.mutex_.lock();
}

PeerSession::SessionLock::~SessionLock() {
  session_.unlock();
  if (session_.again_.exchange(false)) session_.try_turn();
}

void PeerSession::unlock() noexcept {
  settle();
  const bool changed = std::exchange(context_.changed, false);
  mutex_.unlock();
  if (changed) context_.local.ring();
}

void PeerSession::try_turn() noexcept {
  do {
    if (!mutex_.try_lock()) {
      // The thread that holds the session checks `again_` after unlocking. If it has checked
      // already, the lock is free.
      again_.store(true);
      if (!mutex_.try_lock()) return;
    }
    work();
    unlock();
  } while (again_.exchange(false));
}

bool PeerSession::wants_turn() const noexcept {
  if (!open_.load(std::memory_order_acquire)) return false;
  if (needs_turn_.load()) return true;
  if (ended_.load(std::memory_order_relaxed)) return false;
  return inbox_.has_arrival() || broken();
}

void PeerSession::work() noexcept {
  run([this] { take_turn(); });
}

void PeerSession::take_turn() {
  if (!open_.load(std::memory_order_relaxed)) return;
  needs_turn_.store(false);
  sender_.land();
  if (ended_.load(std::memory_order_relaxed)) return;
  const bool is_broken = broken();
  if (!outbox_.stopped()) {
    outbox_.flush();
    if (!outbox_.is_full() && sender_.unmoved() != 0) sender_.move_on();
    read();
  }
  if (is_broken) return end();
  receiver_.reap();
}

void PeerSession::read() {
  const auto handle_one = [this](std::span<const std::byte> bytes) { handle(bytes); };
  do {
    if (!inbox_.read_slot(handle_one)) {
      // Reached only if the peer violates the protocol; nothing more is read from it.
      context_.complain("a message out of turn");
      outbox_.stop();
    }
    // Messages before the peer's hello are kept.
    if (sender_.met()) inbox_.read_control(handle_one);
  } while (inbox_.arm() && !outbox_.stopped());
  inbox_.before_wait();
}

void PeerSession::end() {
  ended_.store(true);
  sender_.drop();
  outbox_.drop();
  if (outbox_.peer_writes_no_more()) receiver_.drop();
  context_.changed = true;
}

void PeerSession::begin_close() noexcept {
  run([this] {
    sender_.begin_close();
    receiver_.begin_close();
  });
  work();
}

void PeerSession::settle() noexcept {
  const bool ended = ended_.load();
  const auto unmoved = sender_.unmoved();
  const auto under_way = static_cast<std::int64_t>(sender_.under_way());
  const auto offered = static_cast<std::int64_t>(sender_.unfetched() + unmoved);
  const bool held_up = outbox_.is_held_up() || unmoved != 0 || under_way != 0;
  const auto attention = ended ? under_way
                               : offered + static_cast<std::int64_t>(receiver_.left_behind()) +
                                     static_cast<std::int64_t>(held_up);
  // Nothing rings the doorbell when a queue has room again, and a put's end does not always ring
  // it.
  const bool is_full = !ended && (unmoved != 0 || outbox_.is_full());
  const bool refused = is_full || under_way != 0;
  share_.set(offered, attention, refused ? 1 : 0);
  if (held_up) needs_turn_.store(true);
  if (refused) context_.local.progress.turn_soon();
}

void PeerSession::on_control(std::span<const std::byte> bytes) {
  if (!inbox_.on_control(bytes)) return;
  needs_turn_.store(true);
  context_.local.ring();
}

void PeerSession::handle(std::span<const std::byte> bytes) {
  context_.received.control_messages.add(1);
  MessageReader reader(bytes);
  const auto id = [&](std::uint32_t item) {
    return RequestId{reader.group(), reader.generation(), item};
  };
  if (reader.valid() && (reader.type() == RendezvousMessage::hello) == sender_.met())
    return context_.complain("a message before its hello, or a second hello");
  switch (reader.type()) {
    case RendezvousMessage::tensor_request:
      while (const auto ask = reader.ask()) sender_.on_ask(id(ask->item), *ask);
      break;
    case RendezvousMessage::meta_data_response:
      while (const auto answer = reader.metadata())
        receiver_.on_metadata(id(answer->item), *answer);
      break;
    case RendezvousMessage::tensor_re_request:
      while (const auto ask = reader.ask_again()) sender_.on_ask_again(id(ask->item), *ask);
      break;
    case RendezvousMessage::error_status:
      while (const auto error = reader.error()) receiver_.on_error(id(error->item), *error);
      break;
    case RendezvousMessage::cancel:
      while (const auto cancel = reader.cancel()) sender_.on_cancel(id(cancel->item));
      break;
    case RendezvousMessage::hello:
      while (const auto hello = reader.hello()) on_hello(*hello);
      break;
    case RendezvousMessage::tensor:
      break;
  }
  if (!reader.valid()) context_.complain("a malformed message");
}

void PeerSession::on_hello(const Hello& hello) {
  context_.observe(RendezvousMessage::hello, false, {});
  const auto words = context_.peer.channel->resolve(hello.words);
  if (!words.ok() || sort_of_chunk(hello.words.chunk) != ArenaSort::control ||
      hello.words.offset % sizeof(std::uint64_t) != 0)
    return context_.complain("completion words that are not mapped here");
  sender_.meet(*words, hello.notification_id, hello.groups);
  met_.store(true, std::memory_order_release);
  context_.changed = true;
  needs_turn_.store(true);  // control messages may have waited for the hello
}

}  // namespace weft::p2p::rendezvous
