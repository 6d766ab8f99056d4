#include "runtime/collective/slot_link.hpp"

#include <cstring>

namespace weft::detail {
namespace {

/// Slots for the pieces that may be ahead in both parts.
constexpr std::uint32_t kDepth = 2 * PieceSchedule::kAhead;

Shape bytes_of(std::size_t size) { return {static_cast<std::int64_t>(size)}; }

}  // namespace

SlotLink::SlotLink(p2p::LocalRank& local, p2p::SlotTable& slots, const std::string& name, int peer)
    : local_(local), slots_(slots), name_(name), peer_(peer) {
  // Notify::always: the alternative is a word behind the payload, at the end of a whole piece, but
  // pieces may be shorter.
  slot_ = slots_.expose(spec(peer), {}, p2p::Notify::always);
  stage_ =
      Tensor(p2p::make_storage(local.data, Piece::kUsual), 0, DType::u8, bytes_of(Piece::kUsual));
}

SlotLink::~SlotLink() {
  held_.release();
  ahead_.release();
  slots_.close(std::move(slot_));
  if (remote_) slots_.detach(std::move(remote_));
}

SlotSpec SlotLink::spec(int writer) const {
  return {.name = name_ + std::to_string(writer),
          .dtype = DType::u8,
          .shape = bytes_of(Piece::kMost),
          .depth = kDepth};
}

void SlotLink::attach(Deadline deadline) {
  remote_ = slots_.attach(peer_, spec(local_.rank), false, deadline);
}

void SlotLink::expect(const PieceHead& head, const Sending& sending,
                      const Taking& taking) noexcept {
  head_ = head;
  head_.total = sending.piece_schedule.first_bytes();
  in_total_ = taking.piece_schedule.first_bytes();
  sending_ = sending;
  taking_ = taking;
  first_put_ = put_;
}

void SlotLink::expect(const PieceHead& head, std::uint64_t out_total,
                      std::uint64_t in_total) noexcept {
  expect(head, Sending{}, Taking{});
  head_.total = out_total;
  in_total_ = in_total;
}

Status SlotLink::step(std::size_t results) noexcept {
  const Status sent = send_some(results);
  return sent.ok() ? take_some() : sent;
}

Status SlotLink::send_some(std::size_t results) noexcept {
  while (!sending_.piece_schedule.over()) {
    const Piece piece = sending_.piece_schedule.next();
    if (piece.second && piece.number >= results) break;
    if (!has_room()) return status_;
    const Source& part = piece.second ? sending_.second : sending_.first;
    sending_.piece_schedule.pass(piece);
    const bool more = piece.headed && sending_.piece_schedule.has_first();
    put({part.bytes, part.offset + piece.offset}, piece.bytes, piece.headed, more);
  }
  return reap();
}

bool SlotLink::has_room() noexcept {
  // A pending put would be left to the progress thread, which would have to be woken for it, and
  // the put could not start before its credit comes.
  if (!remote_->may_put()) return false;
  if (put_ - oldest_ < requests_.size()) return true;
  return reap().ok() && put_ - oldest_ < requests_.size();
}

void SlotLink::put(const Source& source, std::size_t bytes, bool headed, bool more) noexcept {
  Request& request = requests_[put_++ % requests_.size()];
  if (!headed) {
    request = remote_->put_front(
        source.bytes->part(static_cast<std::int64_t>(source.offset), bytes_of(bytes)), more);
    return;
  }
  std::memcpy(stage_.data(), &head_, sizeof head_);
  if (bytes > 0)
    std::memcpy(stage_.data() + Piece::kHead, source.bytes->data() + source.offset, bytes);
  copied_ += bytes;
  request = remote_->put_front(stage_.part(0, bytes_of(Piece::kHead + bytes)), more);
}

Status SlotLink::reap() noexcept {
  for (; oldest_ < put_; ++oldest_) {
    Request& request = requests_[oldest_ % requests_.size()];
    if (!request.test()) break;
    if (Status status = request.wait(); !status.ok()) {
      status_ = status;
      return status;
    }
  }
  return {};
}

Result<Arrival> SlotLink::next_arrival() noexcept {
  if (ahead_) return std::move(ahead_);
  return slot_->wait({});
}

const std::byte* SlotLink::hold(bool headed) noexcept {
  if (!held_) {
    if (!has_come()) return nullptr;
    Result<Arrival> arrival = next_arrival();
    if (!arrival.ok()) {
      status_ = arrival.status();
      return nullptr;
    }
    if (headed && !accepts(arrival->tensor().data())) return nullptr;
    held_ = std::move(*arrival);
    held_at_ = headed ? Piece::kHead : 0;
  }
  return held();
}

void SlotLink::copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
  copied_ += bytes;
}

void SlotLink::watch() noexcept {
  if (ahead_ || !slot_->ready()) return;
  Result<Arrival> arrival = slot_->wait({});
  if (!arrival.ok()) {
    status_ = arrival.status();
    return;
  }
  PieceHead head;
  std::memcpy(&head, arrival->tensor().data(), sizeof head);
  ahead_ = std::move(*arrival);
  if (head.word >> 32 == head_.word >> 32) unexpected_ = head;
}

bool SlotLink::quiet() noexcept { return !reap().ok() || !busy(); }

Status SlotLink::take_some() noexcept {
  while (!taking_.piece_schedule.over() && !held_ && !unexpected_) {
    const Piece piece = taking_.piece_schedule.next();
    if (!has_come()) return {};
    Result<Arrival> arrival = next_arrival();
    if (!arrival.ok()) return arrival.status();
    const std::byte* data = arrival->tensor().data();
    if (piece.headed && !accepts(data)) return {};
    const std::size_t ahead = piece.headed ? Piece::kHead : 0;
    std::byte* to = piece.second ? taking_.second : taking_.first;
    if (!piece.second && to == nullptr) {
      held_ = std::move(*arrival);
      held_at_ = ahead;
    } else if (piece.bytes > 0) {
      copy(to + piece.offset, data + ahead, piece.bytes);
    }
    taking_.piece_schedule.pass(piece);
  }
  if (taking_.piece_schedule.over() && !held_) watch();
  return status_;
}

bool SlotLink::accepts(const std::byte* data) noexcept {
  PieceHead head;
  std::memcpy(&head, data, sizeof head);
  if (head.word == head_.word && head.total == in_total_) return true;
  unexpected_ = head;
  return false;
}

const std::byte* SlotLink::held() const noexcept {
  return held_ ? held_.tensor().data() + held_at_ : nullptr;
}

bool SlotLink::has_sent(std::size_t piece) noexcept {
  if (sending_.piece_schedule.has_first_left(piece)) return false;
  // The first piece was copied.
  if (piece == 0 || sending_.piece_schedule.first_bytes() == 0) return true;
  if (oldest_ > first_put_ + piece) return true;
  return reap().ok() && oldest_ > first_put_ + piece;
}

bool SlotLink::at_rest() noexcept {
  for (std::size_t i = oldest_; i < put_; ++i)
    if (!requests_[i % requests_.size()].test()) return false;
  return true;
}

void SlotLink::end_sending() noexcept {
  for (std::size_t i = oldest_; i < put_; ++i) {
    Request& request = requests_[i % requests_.size()];
    if (!request.test()) (void)request.cancel();
  }
}

}  // namespace weft::detail
