// What comes in: payloads go where they belong, and only there; then words are set.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/os/system_error.hpp"
#include "p2p/tcp/checksum.hpp"
#include "p2p/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {

bool TcpChannel::receive(Rail& rail) noexcept {
  bool ended = false;
  bool came = false;
  Status why;
  bool brought = false;
  {
    const std::lock_guard lock(receive_mutex_);
    if (is_over_) return false;
    Incoming::State state = Incoming::State::failed;
    try {
      const bool was_stalled = stalled_.has_value();
      state = rail.in.turn(rail, kTurn);
      // What was held up behind a put goes on once its last piece has come.
      if (was_stalled && !stalled_ && !is_over_ && rail.index != 0 &&
          state != Incoming::State::failed && state != Incoming::State::ended)
        state = main_rail().in.turn(main_rail(), kTurn);
    } catch (const std::bad_alloc&) {
      return give_up("no memory for what it sends");
    }
    came = rail.in.take_heard();
    if (came && !heard_.load(std::memory_order_relaxed))
      heard_.store(true, std::memory_order_relaxed);
    brought = std::exchange(brought_, false);
    ended = state == Incoming::State::ended || (state == Incoming::State::failed && !is_over_);
    if (ended) {
      is_over_ = true;
      why = Status(ErrorDetail{
          .code = Code::path_failed,
          .operation = "path",
          .message = state == Incoming::State::ended ? "its connection for data was closed"
                     : rail.in.error() == EBADMSG
                         ? "what came by its connection for data is not what it encrypted"
                         : "its connection for data broke: " + os::words(rail.in.error()),
          .hint = "does something between the hosts end connections?",
          .peer = peer_});
    }
  }
  if (brought) rank_.local.ring();
  if (ended) rank_.broke(peer_, true, why);
  return came;
}

bool TcpChannel::give_up(std::string what) {
  is_over_ = true;
  rank_.broke(peer_, false,
              Status(ErrorDetail{.code = Code::system,
                                 .operation = "path",
                                 .message = std::move(what),
                                 .hint = "this is a defect of weft: please report it with "
                                         "WEFT_LOG=debug",
                                 .peer = peer_}));
  return false;
}

void TcpChannel::malformed(const char* trouble) {
  (void)give_up(fmt::format("what it sent is no record: {}", trouble));
}

TcpChannel::PendingGet* TcpChannel::get_of(std::uint32_t number) noexcept {
  const std::lock_guard lock(gets_mutex_);
  const auto found = std::find_if(gets_.begin(), gets_.end(), [number](const PendingGet* get) {
    return get->number == number;
  });
  return found == gets_.end() ? nullptr : *found;
}

bool TcpChannel::begin_record(const Head& head, std::uint64_t already, std::vector<iovec>& places) {
  switch (head.kind) {
    case Kind::put:
    case Kind::piece: {
      // A rank that goes closes its slots before everybody has heard of it.
      std::byte* to = nullptr;
      if (words_.expects(head.index)) {
        to = exports_.find(head.key, head.address, head.bytes, Exports::Access::put);
        if (to == nullptr)
          return give_up(
              fmt::format("it puts {} bytes at {} of chunk {:#x}, which is not its to "
                          "write",
                          head.bytes, head.address, head.key));
      }
      places.push_back({to, head.bytes});
      return true;
    }
    case Kind::reply:
      return begin_reply(head, places);
    case Kind::message:
    case Kind::get:
      places.push_back({message_.data(), head.bytes});  // no longer than that, by its head
      return true;
    default:
      return give_up(fmt::format("a record of kind {} has {} bytes from {} on",
                                 static_cast<int>(head.kind), head.bytes, already));
  }
}

bool TcpChannel::begin_reply(const Head& head, std::vector<iovec>& places) {
  PendingGet* get = get_of(head.index);
  if (get == nullptr) {
    places.push_back({nullptr, head.bytes});  // who asked has given up
    return true;
  }
  std::uint64_t left = head.bytes;
  while (left > 0 && get->piece < get->pieces.size()) {
    const GetWork& piece = get->pieces[get->piece];
    const std::uint64_t some = std::min<std::uint64_t>(left, piece.bytes - get->done);
    if (some > 0) places.push_back({piece.to + get->done, some});
    left -= some;
    get->done += some;
    if (get->done < piece.bytes) break;
    ++get->piece;
    get->done = 0;
  }
  return left == 0 || give_up("it answers a get with more than was asked for");
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
    case WordTable::Arrival::set:
      return true;
    case WordTable::Arrival::unknown:
      rank_.local.log->debug(Subsystem::path, "rank {} has put into a slot that is gone", peer_);
      return true;
    case WordTable::Arrival::out_of_turn:
      break;
  }
  return give_up(
      fmt::format("it has put out of turn (word {}, sequence {})", head.index, head.sequence));
}

bool TcpChannel::end_get(const Head& head) {
  const std::size_t count = head.bytes / sizeof(GetPiece);
  std::array<GetPiece, kMostPieces> asked;
  std::memcpy(asked.data(), message_.data(), head.bytes);
  std::uint64_t bytes = 0;
  bool allowed = true;
  for (const GetPiece& piece : std::span(asked).first(count)) {
    allowed = allowed && piece.bytes <= kMostPayload - bytes &&
              exports_.find(piece.key, piece.address, piece.bytes, Exports::Access::get) != nullptr;
    bytes += allowed ? piece.bytes : 0;
  }
  const std::lock_guard lock(send_mutex_);
  if (!is_open()) return true;
  if (!allowed || bytes == 0) {
    transmit({.kind = Kind::reply_end,
              .flags = static_cast<std::uint8_t>(allowed ? 1 : 0),
              .index = head.index},
             {});
    return true;
  }
  Rail& rail = main_rail();
  Record& record = rail.out.add({.kind = Kind::reply, .index = head.index, .bytes = bytes});
  record.pieces.assign(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(count));
  rail.out.flush(kTurn);
  after_sending(rail);
  return true;
}

void TcpChannel::end_reply(const Head& head) {
  PendingGet* get = get_of(head.index);
  if (get == nullptr) return;
  get->whole = get->whole && head.flags == 1;
  if (--get->requests > 0) return;
  get->is_over.store(true, std::memory_order_release);
}

bool TcpChannel::is_whole(const Head& head) {
  if (!checksums_ || head.kind == Kind::reply || head.kind == Kind::reply_end) return true;
  iovec part{message_.data(), head.bytes};
  if (head.kind == Kind::put || head.kind == Kind::piece)
    part.iov_base = exports_.find(head.key, head.address, head.bytes, Exports::Access::put);
  const bool is_dropped =
      part.iov_base == nullptr ||
      ((head.kind == Kind::put || head.kind == Kind::piece) && !words_.expects(head.index));
  if (is_dropped) return true;
  const std::uint64_t sum = checksum(head, std::span(&part, head.bytes == 0 ? 0 : 1));
  if (sum == head.checksum) return true;
  is_over_ = true;
  rank_.broke(
      peer_, false,
      Status(ErrorDetail{
          .code = Code::path_failed,
          .operation = "path",
          .message = fmt::format("what it sent arrived damaged: {} bytes for word {} (sequence "
                                 "{}), at offset {} of chunk {:#x}, bear the checksum {:016x} and "
                                 "have {:016x}",
                                 head.bytes, head.index, head.sequence, head.address, head.key,
                                 head.checksum, sum),
          .hint = "something between the hosts changes data: cables, a NIC's offloads, memory",
          .peer = peer_}));
  return false;
}

bool TcpChannel::end_record(Rail& rail, const Head& head) {
  brought_ = true;
  if (!is_whole(head)) return false;
  switch (head.kind) {
    case Kind::put:
      if (head.flags == 0) return end_put(head);
      ++stripes_seen_;
      if (has_all_pieces()) return end_put(head);
      stalled_ = head;
      return true;
    case Kind::piece:
      return end_piece(rail);
    case Kind::word:
      return set_word(head);
    case Kind::get:
      return end_get(head);
    case Kind::reply_end:
      end_reply(head);
      return true;
    case Kind::message: {
      const auto bytes = std::span(message_).first(head.bytes);
      {
        const std::lock_guard lock(inbox_mutex_);
        inbox_.emplace_back(bytes.begin(), bytes.end());
      }
      rank_.has_message(peer_);
      return true;
    }
    case Kind::chunk: {
      const std::lock_guard lock(chunks_mutex_);
      chunks_[head.key] = head.address;
      counters().registrations.add(1);
      rank_.local.recorder.control(board::Event::chunk_mapped, peer_, 0, head.key);
      return true;
    }
    case Kind::chunk_gone: {
      const std::lock_guard lock(chunks_mutex_);
      chunks_.erase(head.key);
      return true;
    }
    case Kind::ack_wanted: {
      const std::lock_guard lock(send_mutex_);
      if (is_open()) transmit({.kind = Kind::ack, .sequence = head.sequence}, {});
      return true;
    }
    case Kind::ack:
      acked_.store(std::max(acked_.load(std::memory_order_relaxed), head.sequence),
                   std::memory_order_release);
      return true;
    case Kind::bell:
    case Kind::reply:
      break;
  }
  return true;
}

}  // namespace weft::p2p::tcp
