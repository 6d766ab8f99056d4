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
  if (width == Width::gpu) {
    constexpr auto kPieces = static_cast<std::uint32_t>(PieceSchedule::ahead(Piece::kLong));
    return {.name = name_ + std::to_string(writer) + " (gpu)",
            .dtype = DType::u8,
            .shape = bytes_of(Piece::kLong),
            .depth = 2 * kPieces + 1};
  }
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
  return is_open(widths.out, widths.in, widths) &&
         (widths.gpu == nullptr || is_open(Width::gpu, Width::gpu, widths));
}

void SlotLink::open(const Widths& widths) {
  open(widths.out, widths.in, widths);
  if (widths.gpu != nullptr) open(Width::gpu, Width::gpu, widths);
}

void SlotLink::open(Width out_width, Width in_width, const Widths& widths) {
  In& in = ins_[index(in_width)];
  if (widths.takes && !in.slot) {
    SlotSpec made = spec(peer_, in_width);
    if (in_width == Width::gpu) made.memory = widths.gpu->gpu()->memory();
    // Notify::always: the alternative is a word behind the payload, at the end of a whole piece,
    // but pieces may be shorter.
    in.slot = slots_.expose(made, {}, p2p::Notify::always);
  }
  Out& out = outs_[index(out_width)];
  if (!widths.sends || out.remote) return;
  if (out_width != Width::gpu) {
    const std::size_t staged = out_width == Width::wide ? Piece::kUsual : kNarrow;
    out.stage = Tensor(p2p::make_storage(local_.data, staged), 0, DType::u8, bytes_of(staged));
  }
  out.remote = slots_.begin_attach(peer_, spec(local_.rank, out_width));
}

std::optional<p2p::cuda::GpuWay> SlotLink::way_to_gpu(const SlotGpu& gpu) noexcept {
  Out& out = outs_[index(Width::gpu)];
  using State = p2p::AttachAnswer::State;
  const State state = out.remote ? out.remote->answer().state() : State::refused;
  // WEFT_REQUIRE=gdr refuses what would be staged. The call goes by host memory, and the link
  // serves it.
  if (state == State::refused) return p2p::cuda::GpuWay::nic_refused;
  out.granted = state == State::granted;
  return out.granted ? out.remote->map_step(gpu.gpu()) : std::nullopt;
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
  const auto opens = [this](Width width) {
    Out& out = outs_[index(width)];
    if (!out.remote || out.granted) return false;
    learn_answer(out);
    return !out.granted;
  };
  if (!widths_.sends) return false;
  const bool one = opens(widths_.out);
  return (widths_.gpu != nullptr && opens(Width::gpu)) || one;
}

void SlotLink::expect(const PieceHead& head, const Widths& widths, const Sending& sending,
                      const Taking& taking) noexcept {
  head_ = head;
  head_.total = sending.piece_schedule.first_bytes() + sending.by_put;
  in_total_ = taking.piece_schedule.first_bytes() + taking.by_hold;
  widths_ = widths;
  sending_ = sending;
  taking_ = taking;
  first_put_ = put_;
  has_head_ = false;
  copy_.pass();
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

bool SlotLink::may_put(Width width) noexcept {
  Out& out = outs_[index(width)];
  if (out.remote && !out.granted) learn_answer(out);
  // A pending put would be left to the progress thread, which would have to be woken for it, and
  // the put could not start before its credit comes.
  return out.granted && out.remote->may_put();
}

bool SlotLink::has_room() noexcept {
  if (!may_put(widths_.out) || (widths_.gpu != nullptr && !may_put(Width::gpu))) return false;
  // On a GPU a piece with a head is two puts.
  const std::size_t most = requests_.size() - (widths_.gpu != nullptr ? 1 : 0);
  if (put_ - oldest_ < most) return true;
  return reap().ok() && put_ - oldest_ < most;
}

void SlotLink::put(const Source& source, std::size_t bytes, bool headed, bool more) noexcept {
  // Beside a short piece a report would cost as much as the piece.
  const Width long_pieces = widths_.gpu != nullptr ? Width::gpu : Width::wide;
  if (PutOwner* const reads = ins_[index(long_pieces)].slot.get();
      reads && (widths_.gpu != nullptr || widths_.out == Width::wide))
    reads->report_with_next_put();
  const Width by = widths_.gpu != nullptr ? Width::gpu : widths_.out;
  const auto payload = [&] {
    return source.bytes->part(static_cast<std::int64_t>(source.offset), bytes_of(bytes));
  };
  if (headed && widths_.gpu != nullptr) put_head(0, false);
  if (headed && widths_.gpu == nullptr) {
    if (bytes > 0)
      std::memcpy(outs_[index(by)].stage.data() + Piece::kHead,
                  source.bytes->data() + source.offset, bytes);
    copied_ += bytes;
    put_head(bytes, more);
  } else if (!headed || bytes > 0) {
    next_request() = outs_[index(by)].remote->put_front(payload(), more);
  }
}

void SlotLink::put_head(std::size_t payload, bool more) noexcept {
  Out& out = outs_[index(widths_.out)];
  std::memcpy(out.stage.data(), &head_, sizeof head_);
  next_request() = out.remote->put_front(out.stage.part(0, bytes_of(Piece::kHead + payload)), more);
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

Result<Arrival> SlotLink::next_arrival(Width width) noexcept {
  In& in = ins_[index(width)];
  if (in.ahead) return std::move(in.ahead);
  return in.slot->wait({});
}

const std::byte* SlotLink::hold(bool headed, std::size_t bytes) noexcept {
  if (widths_.gpu != nullptr) return hold_on_gpu(headed, bytes);
  if (!held_) {
    if (!has_come()) {
      if (headed) watch_other();
      return nullptr;
    }
    Result<Arrival> arrival = next_arrival(widths_.in);
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

const std::byte* SlotLink::hold_on_gpu(bool headed, std::size_t bytes) noexcept {
  const auto take = [this](Width width) {
    Result<Arrival> arrival = next_arrival(width);
    if (!arrival.ok()) status_ = arrival.status();
    return arrival.ok() ? std::move(*arrival) : Arrival();
  };
  if (held_) return held();
  if (headed && !has_head_) {
    if (!has_come()) {
      watch_other();
      return nullptr;
    }
    Arrival head = take(widths_.in);
    if (!head || !accepts(head.tensor().data())) return nullptr;
    has_head_ = true;
    // A piece without bytes has come with its head.
    held_at_ = Piece::kHead;
    if (bytes == 0) held_ = std::move(head);
  }
  if (!held_ && has_come(Width::gpu)) {
    held_at_ = 0;
    held_ = take(Width::gpu);
  }
  return held();
}

// Only the slots that heads come by.
void SlotLink::watch() noexcept {
  watch(ins_[index(Width::narrow)]);
  watch(ins_[index(Width::wide)]);
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

Status SlotLink::take_some_by_gpu() noexcept {
  SlotGpu& gpu = *widths_.gpu;
  while (!taking_.piece_schedule.over() && !unexpected_) {
    const Piece piece = taking_.piece_schedule.next();
    std::byte* const to = piece.second ? taking_.second : taking_.first;
    const bool is_to_combine = !piece.second && to == nullptr;
    if (!copy_.has_begun()) {
      if (held_) break;  // until all ranks' pieces are combined
      const std::byte* const from = hold_on_gpu(piece.headed, piece.bytes);
      if (from == nullptr) return status_;
      if (!is_to_combine && piece.bytes > 0)
        gpu.copy(copy_, to + piece.offset, from, piece.bytes, held_.tensor());
    }
    if (copy_.has_begun() && !gpu.has_ended(copy_)) return status_;
    if (!gpu.failure().ok()) return status_;
    copy_.pass();
    if (!is_to_combine) release();
    taking_.piece_schedule.pass(piece);
  }
  if (taking_.piece_schedule.over() && !held_) watch();
  return status_;
}

Status SlotLink::take_some() noexcept {
  if (widths_.gpu != nullptr) return take_some_by_gpu();
  while (!taking_.piece_schedule.over() && !held_ && !unexpected_) {
    const Piece piece = taking_.piece_schedule.next();
    if (!has_come()) {
      if (piece.headed) watch_other();
      return status_;
    }
    Result<Arrival> arrival = next_arrival(widths_.in);
    if (!arrival.ok()) return arrival.status();
    const std::byte* data = arrival->tensor().data();
    if (piece.headed && !accepts(data)) return {};
    const std::size_t ahead = piece.headed ? Piece::kHead : 0;
    std::byte* to = piece.second ? taking_.second : taking_.first;
    if (!piece.second && to == nullptr) {
      held_ = std::move(*arrival);
      held_at_ = ahead;
    } else if (piece.bytes > 0) {
      std::memcpy(to + piece.offset, data + ahead, piece.bytes);
      copied_ += piece.bytes;
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
  return held_ && !copy_.has_begun() ? held_.tensor().data() + held_at_ : nullptr;
}

bool SlotLink::has_sent(std::size_t piece) noexcept {
  if (sending_.piece_schedule.has_first_left(piece)) return false;
  if (sending_.piece_schedule.first_bytes() == 0) return true;
  // The first piece was copied, or is two puts.
  const bool on_gpu = widths_.gpu != nullptr;
  if (piece == 0 && !on_gpu) return true;
  const std::size_t put = first_put_ + piece + (on_gpu ? 1 : 0);
  if (oldest_ > put) return true;
  return reap().ok() && oldest_ > put;
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
