#include "runtime/collective/slot_link.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"

namespace weft::detail {
namespace {

Shape bytes_of(std::size_t size) { return {static_cast<std::int64_t>(size)}; }

}  // namespace

SlotLink::~SlotLink() {
  held_.release();
  for (In& in : ins_) {
    in.ahead.release();
    if (in.slot) slots_.close(std::move(in.slot));
  }
  for (Out& out : outs_)
    if (out.remote) slots_.detach(std::move(out.remote));
}

SlotSpec SlotLink::spec(int writer, Width width) const {
  const bool wide = width == Width::wide;
  // Buffers for the pieces that may be ahead in both parts, and one more if they are few: then the
  // credits of a call of two pieces wait for the next call's put.
  const auto ahead = static_cast<std::uint32_t>(PieceSchedule::ahead(wide ? usual_ : kNarrow));
  return {.name = name_ + std::to_string(writer) + (wide ? " (wide)" : ""),
          .dtype = DType::u8,
          .shape = bytes_of(wide ? std::max(usual_, Piece::kMost) : kNarrow),
          .depth = ahead < PieceSchedule::kAhead ? 2 * ahead + 1 : 2 * ahead};
}

bool SlotLink::is_open(const Widths& widths) const noexcept {
  return (!widths.takes || ins_[index(widths.in)].slot) &&
         (!widths.sends || outs_[index(widths.out)].remote);
}

void SlotLink::open(const Widths& widths) {
  In& in = ins_[index(widths.in)];
  // Notify::always: the alternative is a word behind the payload, at the end of a whole piece, but
  // pieces may be shorter.
  if (widths.takes && !in.slot)
    in.slot = slots_.expose(spec(peer_, widths.in), {}, p2p::Notify::always);
  Out& out = outs_[index(widths.out)];
  if (!widths.sends || out.remote) return;
  const std::size_t staged = widths.out == Width::wide ? Piece::kUsual : kNarrow;
  out.stage = Tensor(p2p::make_storage(local_.data, staged), 0, DType::u8, bytes_of(staged));
  out.remote = slots_.begin_attach(peer_, spec(local_.rank, widths.out));
}

void SlotLink::learn_answer(Out& out) noexcept {
  using State = p2p::AttachAnswer::State;
  const State state = out.remote->answer().state();
  out.granted = state == State::granted;
  if (state != State::refused || !status_.ok()) return;
  status_ = altered(out.remote->answer().refusal(), [&](ErrorDetail& detail) {
    detail.operation = "attach";
    detail.rank = local_.rank;
  });
}

bool SlotLink::opens() noexcept {
  Out& out = outs_[index(widths_.out)];
  if (!widths_.sends || !out.remote || out.granted) return false;
  learn_answer(out);
  return !out.granted;
}

void SlotLink::expect(const PieceHead& head, const Widths& widths, const Sending& sending,
                      const Taking& taking) noexcept {
  head_ = head;
  head_.total = sending.piece_schedule.first_bytes();
  in_total_ = taking.piece_schedule.first_bytes();
  widths_ = widths;
  sending_ = sending;
  taking_ = taking;
  first_put_ = put_;
}

void SlotLink::expect(const PieceHead& head, const Widths& widths, std::uint64_t out_total,
                      std::uint64_t in_total) noexcept {
  expect(head, widths, Sending{}, Taking{});
  head_.total = out_total;
  in_total_ = in_total;
}

bool SlotLink::step(std::size_t results) noexcept {
  const bool sent = send_some(results);
  if (reap().ok()) (void)take_some();
  return sent;
}

bool SlotLink::send_some(std::size_t results) noexcept {
  while (!sending_.piece_schedule.over()) {
    const Piece piece = sending_.piece_schedule.next();
    if ((piece.second && piece.number >= results) || !has_room()) return false;
    const Source& part = piece.second ? sending_.second : sending_.first;
    sending_.piece_schedule.pass(piece);
    const bool more = piece.headed && sending_.piece_schedule.has_first();
    put({part.bytes, part.offset + piece.offset}, piece.bytes, piece.headed, more);
    if (piece.bytes > Piece::kFirst) return true;
  }
  return false;
}

bool SlotLink::has_room() noexcept {
  Out& out = outs_[index(widths_.out)];
  if (out.remote && !out.granted) learn_answer(out);
  // A pending put would be left to the progress thread, which would have to be woken for it, and
  // the put could not start before its credit comes.
  if (!out.granted || !out.remote->may_put()) return false;
  if (put_ - oldest_ < requests_.size()) return true;
  return reap().ok() && put_ - oldest_ < requests_.size();
}

void SlotLink::put(const Source& source, std::size_t bytes, bool headed, bool more) noexcept {
  // Beside a short piece a report would cost as much as the piece.
  if (PutOwner* const reads = ins_[index(Width::wide)].slot.get();
      reads && widths_.out == Width::wide)
    reads->report_with_next_put();
  Request& request = requests_[put_++ % requests_.size()];
  Out& out = outs_[index(widths_.out)];
  if (!headed) {
    request = out.remote->put_front(
        source.bytes->part(static_cast<std::int64_t>(source.offset), bytes_of(bytes)), more);
    return;
  }
  std::memcpy(out.stage.data(), &head_, sizeof head_);
  if (bytes > 0)
    std::memcpy(out.stage.data() + Piece::kHead, source.bytes->data() + source.offset, bytes);
  copied_ += bytes;
  request = out.remote->put_front(out.stage.part(0, bytes_of(Piece::kHead + bytes)), more);
}

Status SlotLink::reap() noexcept {
  for (; oldest_ < put_; ++oldest_) {
    Request& request = requests_[oldest_ % requests_.size()];
    if (!request.test()) break;
    if (Status status = request.wait(Deadline::at({})); !status.ok()) {
      status_ = status;
      return status;
    }
  }
  return {};
}

Result<Arrival> SlotLink::next_arrival() noexcept {
  In& in = ins_[index(widths_.in)];
  if (in.ahead) return std::move(in.ahead);
  return in.slot->wait({});
}

const std::byte* SlotLink::hold(bool headed) noexcept {
  if (!held_) {
    if (!has_come()) {
      if (headed) watch_other();
      return nullptr;
    }
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
  for (In& in : ins_) watch(in);
}

void SlotLink::watch(In& in) noexcept {
  if (!in.slot || in.ahead || !in.slot->ready()) return;
  Result<Arrival> arrival = in.slot->wait({});
  if (!arrival.ok()) {
    status_ = arrival.status();
    return;
  }
  PieceHead head;
  std::memcpy(&head, arrival->tensor().data(), sizeof head);
  in.ahead = std::move(*arrival);
  if (head.word >> 32 == head_.word >> 32) unexpected_ = head;
}

bool SlotLink::quiet() noexcept { return !reap().ok() || !busy(); }

Status SlotLink::take_some() noexcept {
  while (!taking_.piece_schedule.over() && !held_ && !unexpected_) {
    const Piece piece = taking_.piece_schedule.next();
    if (!has_come()) {
      if (piece.headed) watch_other();
      return status_;
    }
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
