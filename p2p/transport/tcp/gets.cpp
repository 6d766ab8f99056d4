// Gets: asked for here, answered by the peer, and given up at any time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/fail.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {

void TcpChannel::get(Get& get) noexcept {
  get.engine = this;
  get.piece = 0;
  get.done = 0;
  get.number = 0;
  get.left = static_cast<std::uint32_t>((get.pieces.size() + kMostPieces - 1) / kMostPieces);
  get.asked = false;
  get.whole = true;
  get.end = {};
  get.is_over.store(get.pieces.empty(), std::memory_order_release);
  if (!get.pieces.empty()) ask(get);
}

void TcpChannel::ask(Get& get) noexcept {
  if (!is_open() || !gets_.has_room()) return;
  get.asked = true;
  try {
    gets_.add(get);
  } catch (const std::bad_alloc&) {
    get.number = 0;
    get.end = refuse(Code::exhausted, [&] {
      return ErrorDetail{
          .operation = "get", .message = "no memory to remember what is asked for", .peer = peer_};
    });
    get.is_over.store(true, std::memory_order_release);
    return;
  }
  std::array<GetPiece, kMostPieces> asked;
  for (std::size_t first = 0; first < get.pieces.size(); first += kMostPieces) {
    const std::size_t count = std::min(kMostPieces, get.pieces.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const GetWork& piece = get.pieces[first + i];
      asked[i] = {.address = piece.from.address, .bytes = piece.bytes, .key = piece.from.key};
    }
    const auto payload = std::as_bytes(std::span(asked).first(count));
    const std::lock_guard lock(sending_.mutex);
    if (!is_open()) break;
    transmit({.kind = Kind::get,
              .index = static_cast<std::uint32_t>(get.number),
              .bytes = payload.size()},
             payload);
  }
}

std::optional<Status> TcpChannel::poll_get(Get& get) noexcept {
  if (!get.is_over.load(std::memory_order_acquire)) {
    if (!is_open()) {
      (void)cancel_get(get);  // no thread receives into its pieces any more
      if (!get.is_over.load(std::memory_order_acquire)) {
        get.end = broken("get");
        get.is_over.store(true, std::memory_order_release);
      }
    } else if (!get.asked) {
      ask(get);
    }
  }
  if (!get.is_over.load(std::memory_order_acquire)) return std::nullopt;
  if (!get.end.ok() || get.whole) return get.end;
  return refuse(Code::closed, [&] {
    return ErrorDetail{
        .code = Code::closed,
        .operation = "get",
        .message = fmt::format("rank {} has given back the memory that was to be read", peer_),
        .hint = "the owner must keep the tensor until it was used",
        .peer = peer_};
  });
}

bool TcpChannel::cancel_get(Get& get) noexcept {
  if (get.number == 0) return true;
  const std::lock_guard turn(receiving_.mutex);  // no thread receives into its pieces
  if (!gets_.cancel(get)) return true;           // it had ended
  for (const auto& rail : rails_) {
    const Head* head = rail->in.under_way();
    if (head == nullptr || head->kind != Kind::reply || head->index != get.number) continue;
    for (iovec& place : rail->in.places()) place.iov_base = nullptr;
  }
  return true;
}

/// Should its rail fail, the answer comes again from here.
void TcpChannel::mark_reply(Rail& rail, const Head& head) noexcept {
  const Get* get = gets_.find(head.index);
  rail.reply.reset();
  if (get != nullptr) rail.reply = {head.index, get->piece, get->done};
}

bool TcpChannel::begin_reply(const Head& head, std::vector<iovec>& places) {
  Get* get = gets_.find(head.index);
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

}  // namespace weft::p2p::tcp
