// A rail that fails and comes back. Each end stops taking anything of it and tells the other, by
// another rail, how many of its records it has taken; the rest is then sent by the other rails. So
// nothing is lost, nothing comes twice, and no late byte hits a tensor that is being sent again.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <utility>

#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {
namespace {

Status last_rail(int peer, const std::string& why) {
  return Status(ErrorDetail{.code = Code::path_failed,
                            .operation = "path",
                            .message = "the last of its rails failed: " + why,
                            .hint = "does something between the hosts end connections?",
                            .peer = peer});
}

}  // namespace

bool TcpChannel::has_other_rail(const Rail& rail) const noexcept {
  return std::any_of(rails_.begin(), rails_.end(), [&](const auto& other) {
    return other.get() != &rail && other->is_in_use() && other->reads;
  });
}

std::optional<std::size_t> TcpChannel::first_up() const noexcept {
  for (const auto& rail : rails_)
    if (rail->link.load() == Link::up) return rail->index;
  return std::nullopt;
}

RailEvent TcpChannel::lose_rail(std::size_t index, std::uint32_t connection, std::string why) {
  if (!lanes_ || index >= rails_.size()) return {};
  Rail& rail = *rails_[index];
  {
    const std::scoped_lock locks(receiving_.mutex, sending_.mutex);
    if (!is_open() || rail.connection != connection || !rail.is_in_use()) return {};
    if (!has_other_rail(rail))
      return {.kind = RailEvent::Kind::path_lost, .status = last_rail(peer_, why)};
    if (rail.link.load() == Link::proving) {
      // Nothing went by it. Should the peer think otherwise, it will find out, and say so.
      rail.link = std::exchange(rail.is_owed, false) ? Link::fencing : Link::down;
      rail.reads = false;
      rail.pipe.shut();
    } else {
      fence_rail(rail, std::move(why));
    }
  }
  unwatch(rail);
  return {};
}

/// Takes nothing of the rail any more, and tells the peer.
void TcpChannel::fence_rail(Rail& rail, std::string why) {
  const bool was_up = rail.link.load() == Link::up;
  rail.link = Link::fencing;
  rail.reads = false;
  rail.why = std::move(why);
  lanes_->pool.use(rail.index, false);
  rail.pipe.shut();
  if (rail.reply) {
    // The part of an answer that came comes again.
    if (Get* get = gets_.find(rail.reply->get); get != nullptr) {
      get->piece = rail.reply->piece;
      get->done = rail.reply->done;
    }
    rail.reply.reset();
  }
  const std::optional<std::size_t> other = first_up();
  if (was_up && rail.index == main_) {
    if (!lanes_->fenced) lanes_->fenced = rail.index;
    if (other) main_ = *other;
  }
  rail.is_untold = !other;
  if (other) tell_down(rail, *rails_[*other]);
}

void TcpChannel::tell_down(Rail& lost, Rail& by) noexcept {
  lost.is_untold = false;
  send_by(by, {.kind = Kind::rail_down,
               .flags = kTell,
               .index = static_cast<std::uint32_t>(lost.index),
               .key = lost.connection,
               .sequence = lost.finished});
}

RailEvent TcpChannel::on_rail_said(const Head& head) {
  Rail& rail = *rails_[head.index];
  if (head.kind == Kind::rail_down) return on_rail_down(rail, head);
  // Deal with the records that came too early.
  for (const Head& earlier : std::exchange(later_, {})) rank_.rail_said(peer_, earlier);
  const std::lock_guard lock(receiving_.mutex);
  if (!std::exchange(rail.was_replaced, false)) return is_up(rail);
  rank_.local.ring();  // puts may have ended
  return {
      .kind = RailEvent::Kind::replaced, .rail = head.index, .why = rail.why, .address = rail.peer};
}

/// The peer takes nothing of the rail any more. Dealt with at once: a thread that receives may hear
/// of the next connection meanwhile.
RailEvent TcpChannel::on_rail_down(Rail& rail, const Head& head) {
  RailEvent event{.kind = RailEvent::Kind::down, .rail = head.index};
  bool was_in_use = false;
  bool has_ended = false;
  {
    const std::scoped_lock locks(receiving_.mutex, sending_.mutex);
    if (!is_open() || head.key < rail.connection) return {};
    if (!has_other_rail(rail))
      return {.kind = RailEvent::Kind::path_lost,
              .status = last_rail(peer_, "the peer has lost it")};
    // It tells of the next connection, before the end of this one was told.
    if (head.key > rail.connection) {
      keep_for_later(head);
      return {};
    }
    was_in_use = rail.is_in_use() && !rail.is_owed;
    // A connection that this end has not used is no news.
    const Link link = rail.is_owed ? Link::fencing : rail.link.load();
    if (link == Link::down || link == Link::proving) event.kind = RailEvent::Kind::none;
    if (link != Link::fencing) fence_rail(rail, "the peer has lost it");
    // By none can be sent again what this one carried, until another one is proved.
    if (!first_up()) {
      keep_for_later(head);
      event.kind = RailEvent::Kind::none;
    } else if (!send_again(rail, head.sequence, rail.is_owed ? Link::proving : Link::down)) {
      return {};
    } else {
      event.why = rail.why;
      event.address = rail.peer;
      has_ended = true;
    }
  }
  if (was_in_use) unwatch(rail);
  if (has_ended) {
    rank_.local.ring();  // puts may have ended
    for (const Head& earlier : std::exchange(later_, {})) rank_.rail_said(peer_, earlier);
  }
  return event;
}

/// An honest peer tells of two connections of a rail at most before this end can deal with it.
void TcpChannel::keep_for_later(const Head& head) {
  if (later_.size() < 4 * rails_.size())
    later_.push_back(head);
  else
    (void)give_up("it tells again and again of rails that failed");
}

/// The peer takes nothing of the rail's connection any more, and has taken that many of its
/// records. A rail is up: this one, by `then`, or another. False: the path has been given up.
bool TcpChannel::send_again(Rail& rail, std::uint64_t taken, Link then) {
  Lanes& lanes = *lanes_;
  if (!drop_taken(rail, taken)) return give_up("it has taken more than was sent to it");
  if (const auto by = first_up(); by && rail.is_untold) tell_down(rail, *rails_[*by]);
  rail.link = then;
  rail.is_owed = false;
  ++rail.connection;
  rail.told = rail.finished;
  rail.finished = rail.reported = 0;
  rail.tells = false;
  const bool was_main = lanes.fenced == rail.index;
  const std::optional<std::size_t> other = first_up();
  if (was_main) {
    lanes.fenced.reset();
    if (other) main_ = *other;
  }
  // All first: they may go by this rail again.
  std::vector<Record> back;
  rail.out.take_back([&](Record&& record) { back.push_back(std::move(record)); });
  SendQueue& out = main_rail().out;
  std::vector<PiecePool::Piece> pieces;
  for (Record& record : back) {
    switch (record.head.kind) {
      case Kind::taken:
      case Kind::rail_up:
        break;  // they were for this connection alone
      case Kind::piece:
        pieces.push_back({record.head, record.runs.front(), record.put});
        break;
      case Kind::rail_down:
        if (other) send_by(*rails_[*other], record.head);
        break;
      default:
        is_urgent(record.head.kind) ? out.add_urgent(std::move(record))
                                    : out.add(std::move(record));
    }
  }
  std::for_each(pieces.rbegin(), pieces.rend(), [&](const auto& one) { lanes.pool.put_back(one); });
  rail.waits.store(false, std::memory_order_relaxed);
  release_held();
  flush_main();
  feed_all();
  return true;
}

RailEvent TcpChannel::renew_rail(std::size_t index, Pipe pipe, bool called) {
  if (!lanes_ || index >= rails_.size()) return {};
  Rail& rail = *rails_[index];
  if (rail.link.load() == Link::proving) unwatch(rail);
  {
    const std::scoped_lock locks(receiving_.mutex, sending_.mutex);
    if (!is_open()) return {};
    // The peer calls again once it has this end's word; its own may be lost with another rail.
    if (rail.link.load() == Link::up || rail.is_untold) return {};
    rail.is_owed = rail.link.load() == Link::fencing;
    rail.pipe = std::move(pipe);
    // One that has ended already has no addresses any more.
    if (const IpAddress own = address_of(rail.pipe.in(), ::getsockname); own != IpAddress{})
      rail.own = own;
    if (const IpAddress peer = address_of(rail.pipe.in(), ::getpeername); peer != IpAddress{})
      rail.peer = peer;
    rail.in.restart();
    if (!rail.is_owed) rail.finished = rail.reported = 0;
    rail.reads = true;
    rail.was_closed = false;
    rail.link = called ? Link::up : Link::proving;
    if (called) {
      // First of all: until the other end has it, that end can't know that this is the connection.
      send_by(rail, {.kind = Kind::rail_up,
                     .flags = kTell,
                     .index = static_cast<std::uint32_t>(index),
                     .key = rail.connection,
                     .sequence = rail.told});
      use_rail(rail);
    }
  }
  watch(rail);
  return called ? is_up(rail) : RailEvent{};
}

RailEvent TcpChannel::is_up(Rail& rail) {
  if (std::exchange(rail.has_been_up, true))
    return {.kind = RailEvent::Kind::up, .rail = rail.index};
  return {.kind = RailEvent::Kind::joined,
          .rail = rail.index,
          .why = text(rail.own),
          .address = rail.peer};
}

void TcpChannel::use_rail(Rail& rail) {
  if (rails_[main_]->link.load() != Link::up) main_ = rail.index;
  if (std::exchange(lanes_->awaits_first, false)) {
    lanes_->fenced.reset();
    release_held();
  }
  for (const auto& other : rails_)
    if (other->is_untold && other->link.load() == Link::fencing) tell_down(*other, rail);
  lanes_->pool.use(rail.index, true);
  feed(rail);
  move_main();
}

/// The first rail that is up is to be the main one, once the peer has taken what went by a later
/// one.
void TcpChannel::move_main() {
  Rail& from = main_rail();
  if (lanes_->fenced || from.link.load() != Link::up || *first_up() >= main_) return;
  from.out.add(summed({.kind = Kind::ack_wanted, .flags = kTell}, {}));
  flush_main();
  lanes_->fenced = from.index;
}

/// The first record of a rail that the peer has connected anew.
bool TcpChannel::on_rail_up(Rail& rail, const Head& head) {
  if (head.index != rail.index || rail.link.load() != Link::proving)
    return give_up("it opens a rail that was not closed");
  const std::lock_guard lock(sending_.mutex);
  if (!is_open()) return true;
  // The peer has long given up this connection.
  if (head.key != rail.connection + (rail.is_owed ? 1 : 0)) return false;
  if (rail.is_owed) {
    rail.was_replaced = true;
    if (!send_again(rail, head.sequence, Link::up)) return false;
  }
  rail.link = Link::up;
  rail.out.flush(kTurn);  // a cipher's header
  use_rail(rail);
  rank_.rail_said(peer_, head);
  return true;
}

void TcpChannel::tell_taken(Rail& rail) {
  rail.tells = false;
  const std::lock_guard lock(sending_.mutex);
  if (!is_open() || rail.link.load() != Link::up) return;
  rail.reported = rail.finished;
  if (Record* record = rail.out.find_urgent(Kind::taken, 0, 0)) {
    record->head.sequence = rail.finished;
    record->head = summed(record->head, {});
    return;
  }
  send_by(rail, {.kind = Kind::taken, .sequence = rail.finished});
}

/// Counts a record that was dealt with.
void TcpChannel::count_finished(Rail& rail, const Head& head) noexcept {
  constexpr std::uint64_t kUnreported = 32;
  if (!SendQueue::is_counted(head.kind)) return;
  ++rail.finished;
  const bool asked = (head.flags & kTell) != 0 && head.kind != Kind::reply_end;
  if (asked || head.kind == Kind::piece || head.kind == Kind::striped ||
      rail.finished - rail.reported >= kUnreported)
    rail.tells = true;
}

bool TcpChannel::settle_stripes() {
  auto& waiting = receiving_.striped;
  while (!waiting.empty()) {
    const Head put = waiting.front();
    std::uint64_t& come = receiving_.pieces[put.key % receiving_.pieces.size()];
    if (come < put.address) return true;
    come = 0;
    waiting.pop_front();
    if (!end_put(put)) return false;
  }
  return true;
}

RailEvent TcpChannel::check_rails(std::chrono::nanoseconds since_last,
                                  std::chrono::nanoseconds patience) {
  if (!lanes_ || !is_open()) return {};
  std::vector<RailSign> signs;
  bool was_closed = false;
  bool is_proving = false;
  for (const auto& rail : rails_) {
    signs.push_back(sign_of(*rail));
    was_closed = was_closed || (rail->link.load() == Link::fencing && rail->was_closed.load());
    is_proving = is_proving || rail->link.load() == Link::proving;
  }
  const SilenceJudge::Verdict verdict =
      silence_.judge(signs, was_closed && !is_proving, since_last, patience);
  for (const std::size_t index : verdict.ask) ask(*rails_[index]);
  if (verdict.path_lost)
    return {.kind = RailEvent::Kind::path_lost,
            .status = last_rail(peer_, "one was closed by the other end, and the rest are silent")};
  if (!verdict.lost) return {};
  return lose_rail(
      *verdict.lost, rails_[*verdict.lost]->connection,
      fmt::format("nothing that it carried was acknowledged for {} ms",
                  std::chrono::duration_cast<std::chrono::milliseconds>(verdict.silent).count()));
}

RailSign TcpChannel::sign_of(const Rail& rail) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (rail.link.load() != Link::up ||
      ::getsockopt(rail.pipe.out(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return {};
  // Packets that this host itself drops, its link being down, don't count as under way: only
  // unanswered probes tell. Probes of a full window are answered.
  return {.up = true,
          .awaits_answer = info.tcpi_unacked != 0 || info.tcpi_probes != 0,
          .last_heard = std::chrono::milliseconds(
              std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)),
          .round_trip = std::chrono::microseconds(info.tcpi_rtt)};
}

/// Sends something that the other end's kernel acknowledges.
void TcpChannel::ask(Rail& rail) noexcept {
  const std::lock_guard lock(sending_.mutex);
  if (is_open() && rail.link.load() == Link::up && rail.out.is_empty())
    send_by(rail, {.kind = Kind::bell, .flags = kTell});
}

std::vector<RailReport> TcpChannel::rails() const {
  const std::lock_guard lock(sending_.mutex);
  std::vector<RailReport> reports;
  for (const auto& rail : rails_)
    if (rail->own != IpAddress{})
      reports.push_back({text(rail->own), text(rail->peer), rail->is_in_use()});
  return reports;
}

}  // namespace weft::p2p::tcp
