// The receiving side: payloads go where they belong, and only there; then words are set.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/tcp/checksum.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {

bool TcpChannel::receive(Rail& rail) noexcept {
  bool ended = false;
  bool came = false;
  Status why;
  bool brought = false;
  bool lost_one = false;
  std::uint32_t connection = 0;
  {
    const std::lock_guard lock(receiving_.mutex);
    if (is_over_ || !rail.reads) return false;
    RecordReader::State state = RecordReader::State::failed;
    try {
      state = rail.in.turn(rail, kTurn);
      if (rail.tells) tell_taken(rail);
    } catch (const std::bad_alloc&) {
      return give_up("no memory for what it sends");
    }
    came = rail.in.take_heard();
    if (came && !heard_.load(std::memory_order_relaxed))
      heard_.store(true, std::memory_order_relaxed);
    brought = std::exchange(receiving_.brought, false);
    ended =
        state == RecordReader::State::ended || (state == RecordReader::State::failed && !is_over_);
    if (ended) {
      rail.reads = false;
      rail.was_closed = state == RecordReader::State::ended || rail.in.error() == ECONNRESET ||
                        rail.in.error() == EPIPE;
      lost_one = lanes_ && rail.in.error() != EBADMSG && has_other_rail(rail);
      connection = rail.connection;
      if (!lost_one) is_over_ = true;
      why = refuse(Code::path_failed, [&] {
        const int error = rail.in.error();
        return ErrorDetail{
            .operation = "path",
            .message = state == RecordReader::State::ended ? "its connection for data was closed"
                       : error == EBADMSG
                           ? "what came by its connection for data is not what it encrypted"
                           : "its connection for data broke: " + os::words(error),
            .hint = error == EBADMSG ? "something between the hosts changes data"
                                     : "does something between the hosts end connections?",
            .peer = peer_};
      });
    }
  }
  if (brought) rank_.local.ring();
  if (lost_one)
    rank_.rail_broke(peer_, rail.index, connection, why);
  else if (ended)
    rank_.broke(peer_, true, why);
  return came;
}

bool TcpChannel::give_up(std::string_view what) noexcept {
  is_over_ = true;
  rank_.broke(peer_, false, refuse(Code::system, [&] {
                return ErrorDetail{.operation = "path",
                                   .message = std::string(what),
                                   .hint =
                                       "this is a defect of weft: please report it with "
                                       "WEFT_LOG=debug",
                                   .peer = peer_};
              }));
  return false;
}

void TcpChannel::malformed(const char* trouble) {
  (void)give_up(fmt::format("what it sent is no record: {}", trouble));
}

/// Where the payload of a put belongs; null: it is dropped, or it has no place to go.
std::byte* TcpChannel::place_of_put(const Head& head) const noexcept {
  const MemoryRef place{head.key, head.address, head.bytes};
  if (words_.judge(head.index, head.sequence, place) != NotificationTable::Place::granted)
    return nullptr;
  return exports_.find(head.key, head.address, head.bytes, Exports::Access::put);
}

bool TcpChannel::begin_record(Rail& rail, const Head& head, std::uint64_t already,
                              std::vector<iovec>& places) {
  switch (head.kind) {
    case Kind::put:
    case Kind::piece:
    case Kind::part: {
      std::byte* const to = place_of_put(head);
      // A rank that goes closes its slots before everybody has heard of it: then it is dropped.
      if (to == nullptr &&
          words_.judge(head.index, head.sequence, {head.key, head.address, head.bytes}) ==
              NotificationTable::Place::elsewhere)
        return give_up(
            fmt::format("it puts {} bytes at {} of chunk {:#x}, which was not granted "
                        "for word {}",
                        head.bytes, head.address, head.key, head.index));
      places.push_back({to, head.bytes});
      return true;
    }
    case Kind::reply:
      if (already == 0) mark_reply(rail, head);
      return begin_reply(head, places);
    case Kind::message:
    case Kind::get:
      places.push_back(
          {receiving_.message.data(), head.bytes});  // no longer than that, by its head
      return true;
    default:
      return give_up(fmt::format("a record of kind {} has {} bytes from {} on",
                                 static_cast<int>(head.kind), head.bytes, already));
  }
}

bool TcpChannel::set_word(const Head& head) {
  std::byte* at =
      exports_.find(head.key, head.address, sizeof(std::uint64_t), Exports::Access::word);
  if (at == nullptr || reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint64_t) != 0)
    return give_up(fmt::format("it writes a word at {} of chunk {:#x}, which is not its to write",
                               head.address, head.key));
  reinterpret_cast<std::atomic<std::uint64_t>*>(at)->store(head.sequence,
                                                           std::memory_order_seq_cst);
  return true;
}

bool TcpChannel::end_put(const Head& head) {
  switch (words_.arrived(head.index, head.sequence)) {
    case NotificationTable::Arrival::set:
    case NotificationTable::Arrival::partly:
      return true;
    case NotificationTable::Arrival::unknown:
      rank_.local.log->debug(Subsystem::path, "rank {} has put into a slot that is gone", peer_);
      return true;
    case NotificationTable::Arrival::out_of_turn:
      break;
  }
  return give_up(
      fmt::format("it has put out of turn (word {}, sequence {})", head.index, head.sequence));
}

bool TcpChannel::end_get(const Head& head) {
  const std::size_t count = head.bytes / sizeof(GetPiece);
  std::array<GetPiece, kMostPieces> asked;
  std::memcpy(asked.data(), receiving_.message.data(), head.bytes);
  std::uint64_t bytes = 0;
  bool allowed = true;
  for (const GetPiece& piece : std::span(asked).first(count)) {
    allowed = allowed && piece.bytes <= kMostPayload - bytes &&
              exports_.find(piece.key, piece.address, piece.bytes, Exports::Access::get) != nullptr;
    bytes += allowed ? piece.bytes : 0;
  }
  const std::lock_guard lock(sending_.mutex);
  if (!is_open()) return true;
  if (!allowed || bytes == 0) {
    transmit({.kind = Kind::reply_end,
              .flags = static_cast<std::uint8_t>(allowed ? 1 : 0),
              .index = head.index},
             {});
    return true;
  }
  const Head reply = summed({.kind = Kind::reply, .index = head.index, .bytes = bytes}, {});
  Rail& rail = main_rail();
  Record& record = lanes_ ? lane_record(reply) : rail.out.add(reply);
  record.pieces.assign(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(count));
  if (rail.link.load() == Link::up) rail.out.flush(kTurn);
  after_sending(rail);
  return true;
}

bool TcpChannel::damaged(const Head& head, std::uint64_t expected, std::uint64_t found) {
  is_over_ = true;
  rank_.broke(
      peer_, false,
      Status(ErrorDetail{
          .code = Code::path_failed,
          .operation = "path",
          .message = fmt::format(
              "what it sent arrived damaged: {} bytes for word {} (sequence {}), at offset {} of "
              "chunk {:#x}, were sent with the checksum {:016x} and have {:016x} here",
              head.bytes, head.index, head.sequence, head.address, head.key, expected, found),
          .hint = "something between the hosts changes data: cables, a NIC's offloads, memory",
          .peer = peer_}));
  return false;
}

/// Before anything that the head says is believed.
bool TcpChannel::is_undamaged(const Head& head) {
  const std::uint32_t expected = checksums_ ? head_sum(head) : 0;
  if (head.head_sum == expected) return true;
  if (checksums_) return damaged(head, head.head_sum, expected);
  malformed("it has a checksum, and none were agreed on");
  return false;
}

bool TcpChannel::is_whole(const Head& head) {
  if (!checksums_ || head.kind == Kind::reply || head.kind == Kind::reply_end) return true;
  iovec part{receiving_.message.data(), head.bytes};
  if (head.kind == Kind::put || head.kind == Kind::piece || head.kind == Kind::part) {
    part.iov_base = place_of_put(head);
    if (part.iov_base == nullptr) return true;  // it was dropped
  }
  const std::uint64_t sum = checksum(head, std::span(&part, head.bytes == 0 ? 0 : 1));
  return sum == head.checksum || damaged(head, head.checksum, sum);
}

bool TcpChannel::end_record(Rail& rail, const Head& head) {
  receiving_.brought = true;
  if (!is_whole(head)) return false;
  if (lanes_) {
    if (!end_by_lanes(rail, head)) return false;
    count_finished(rail, head);
    return true;
  }
  switch (head.kind) {
    case Kind::striped:
    case Kind::piece:
    case Kind::taken:
    case Kind::rail_down:
    case Kind::rail_up:
      return give_up("it sends by several rails, and there is one");
    default:
      return end_one(head);
  }
}

bool TcpChannel::end_by_lanes(Rail& rail, const Head& head) {
  switch (head.kind) {
    case Kind::striped:
      if (receiving_.striped.size() >= receiving_.pieces.size())
        return give_up("it has too many tensors in pieces under way");
      receiving_.striped.push_back(head);
      return settle_stripes();
    case Kind::piece:
      ++receiving_.pieces[head.flags];
      return settle_stripes();
    case Kind::message:
      if (!receiving_.striped.empty() &&
          !may_overtake_puts(std::span(receiving_.message).first(head.bytes)))
        return give_up("it overtakes a tensor in pieces");
      return end_one(head);
    case Kind::put:
    case Kind::part:
      if (!receiving_.striped.empty()) return give_up("it overtakes a tensor in pieces");
      return end_one(head);
    case Kind::taken:
      return on_taken(rail, head.sequence);
    case Kind::rail_down:
      if (head.index >= rails_.size()) return give_up("it tells of a rail that there is not");
      rank_.rail_said(peer_, head);
      return true;
    case Kind::rail_up:
      return on_rail_up(rail, head);
    case Kind::reply_end:
      rail.reply.reset();
      return end_one(head);
    default:
      return end_one(head);
  }
}

bool TcpChannel::end_one(const Head& head) {
  switch (head.kind) {
    case Kind::put:
      return end_put(head);
    case Kind::word:
      return set_word(head);
    case Kind::get:
      return end_get(head);
    case Kind::reply_end:
      gets_.answered(head.index, head.flags == 1);
      return true;
    case Kind::message:
      inbox_.add(std::span(receiving_.message).first(head.bytes));
      rank_.has_message(peer_);
      return true;
    case Kind::chunk:
      chunks_.add(head.key, {0, head.key}, head.address);
      counters().registrations.add(1);
      rank_.local.recorder.control(stats::Event::chunk_mapped, peer_, 0, head.key);
      return true;
    case Kind::chunk_gone:
      chunks_.remove(head.key);
      return true;
    case Kind::ack_wanted: {
      const std::lock_guard lock(sending_.mutex);
      // Of several rails none is idle while the peer has not said that it took this one.
      if (is_open())
        transmit({.kind = Kind::ack,
                  .flags = lanes_ ? kTell : std::uint8_t{0},
                  .sequence = head.sequence},
                 {});
      return true;
    }
    case Kind::ack:
      acked_.store(std::max(acked_.load(std::memory_order_relaxed), head.sequence),
                   std::memory_order_release);
      return true;
    case Kind::bell:
    default:
      break;
  }
  return true;
}

}  // namespace weft::p2p::tcp
