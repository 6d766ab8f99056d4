#include "pslib/publication/answer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace weft::pslib {
namespace {

/// System calls before other subscribers get their turn.
constexpr int kTurns = 8;
constexpr std::size_t kPieces = 128;

ssize_t send_pieces(int socket, std::span<iovec> pieces) noexcept {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent;
}

}  // namespace

std::vector<std::byte> record(const wire::Head& head, std::span<const std::byte> rest) {
  const auto bytes = std::as_bytes(std::span(&head, 1));
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Answer::Answer(Snapshots& snapshots, Snapshots::Offer offer)
    : snapshots_(&snapshots),
      lease_(offer.lease),
      from_(offer.from),
      bytes_(snapshots.layout()->bytes(offer.runs)),
      plain_(record({.kind = wire::Head::Kind::values,
                     .count = static_cast<std::uint32_t>(offer.runs.size()),
                     .version = offer.lease.version,
                     .step = offer.step,
                     .from = offer.from,
                     .bytes = bytes_},
                    std::as_bytes(std::span(offer.runs)))) {
  cursor_ = RunCursor(snapshots.layout(), std::move(offer.places), std::move(offer.runs));
}

Answer::Answer(Answer&& other) noexcept
    : snapshots_(std::exchange(other.snapshots_, nullptr)),
      lease_(other.lease_),
      from_(other.from_),
      bytes_(other.bytes_),
      cursor_(std::move(other.cursor_)),
      plain_(std::move(other.plain_)),
      plain_sent_(other.plain_sent_),
      part_(other.part_),
      part_left_(other.part_left_),
      length_left_(other.length_left_),
      is_revoked_(other.is_revoked_) {}

Answer::~Answer() {
  if (snapshots_ != nullptr) snapshots_->end(lease_);
}

Answer::State Answer::send(int socket) {
  for (int turn = 0; turn < kTurns; ++turn) {
    ssize_t sent = 0;
    if (plain_sent_ < plain_.size()) {
      sent = send_plain(socket);
    } else if (is_revoked_) {
      return State::revoked;
    } else if (cursor_.left() == 0) {
      return State::done;
    } else if (!snapshots_->with(lease_, [&] {
                 sent = send_part(socket);
                 return sent > 0;
               })) {
      revoke();
    }
    if (sent < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? State::blocked
                                                                         : State::broken;
  }
  return State::more;
}

ssize_t Answer::send_plain(int socket) noexcept {
  iovec piece{plain_.data() + plain_sent_, plain_.size() - plain_sent_};
  const ssize_t sent = send_pieces(socket, {&piece, 1});
  if (sent > 0) plain_sent_ += static_cast<std::size_t>(sent);
  return sent;
}

ssize_t Answer::send_part(int socket) noexcept {
  if (part_left_ == 0) {
    part_left_ = std::min(cursor_.left(), wire::kMostPart);
    part_ = static_cast<std::uint32_t>(part_left_);
    length_left_ = sizeof part_;
  }
  std::array<iovec, kPieces + 1> pieces;
  auto* const length_end = reinterpret_cast<std::byte*>(&part_) + sizeof part_;
  pieces[0] = {length_end - length_left_, length_left_};
  const std::size_t count = cursor_.next(std::span(pieces).subspan(1), part_left_);
  const ssize_t sent = send_pieces(socket, std::span(pieces).first(count + 1));
  if (sent <= 0) return sent;
  const std::size_t of_length = std::min(static_cast<std::size_t>(sent), length_left_);
  const std::size_t of_runs = static_cast<std::size_t>(sent) - of_length;
  length_left_ -= of_length;
  part_left_ -= of_runs;
  cursor_.advance(of_runs);
  return sent;
}

/// Completes the started part with zeros, then sends the mark.
void Answer::revoke() {
  is_revoked_ = true;
  const auto length = std::as_bytes(std::span(&part_, 1)).last(length_left_);
  // A part has started only if a byte of its length was sent.
  const bool has_begun = part_left_ > 0 && length_left_ < sizeof part_;
  plain_.clear();
  plain_sent_ = 0;
  if (has_begun) {
    plain_.assign(length.begin(), length.end());
    plain_.resize(plain_.size() + part_left_);
  }
  const auto mark = std::as_bytes(std::span(&wire::kRevoked, 1));
  plain_.insert(plain_.end(), mark.begin(), mark.end());
}

}  // namespace weft::pslib
