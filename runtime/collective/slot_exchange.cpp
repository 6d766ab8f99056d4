#include "runtime/collective/slot_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace weft::detail {

SlotLink::SlotLink(p2p::LocalRank& local, p2p::SlotTable& slots, const std::string& name, int peer)
    : local_(local), slots_(slots), name_(name), peer_(peer) {
  slot_ = slots_.expose(spec(peer), {});
  for (Outgoing& out : outgoing_)
    out.piece = Tensor(p2p::make_storage(local.data, kPiece), 0, DType::u8,
                       Shape{static_cast<std::int64_t>(kPiece)});
}

SlotLink::~SlotLink() {
  slots_.close(std::move(slot_));
  if (remote_) slots_.detach(std::move(remote_));
}

SlotSpec SlotLink::spec(int writer) const {
  return {.name = name_ + std::to_string(writer),
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(kPiece)},
          .depth = kDepth};
}

void SlotLink::attach(Deadline deadline) {
  remote_ = slots_.attach(peer_, spec(local_.rank), false, deadline);
}

void SlotLink::expect(const PieceHead& head, const std::byte* from, std::size_t from_bytes,
                      bool sends, std::byte* to, std::size_t to_bytes, bool receives) noexcept {
  head_ = head;
  head_.total = from_bytes;
  from_ = from;
  from_left_ = from_bytes;
  sends_ = sends;
  to_ = to;
  to_left_ = to_bytes_ = to_bytes;
  receives_ = receives;
}

Status SlotLink::step() noexcept {
  const Status sent = send_some();
  return sent.ok() ? receive_some() : sent;
}

Status SlotLink::send_some() noexcept {
  while (sends_) {
    Outgoing& out = outgoing_[next_];
    if (!out.request.test()) return {};
    const Status before = out.request.wait();
    if (!before.ok()) return before;
    const std::size_t some = std::min(from_left_, kPayload);
    head_.bytes = some;
    std::memcpy(out.piece.data(), &head_, sizeof head_);
    if (some > 0) std::memcpy(out.piece.data() + kHead, from_, some);
    copied_ += some;
    out.request = remote_->put(out.piece, Until::reusable);
    next_ = (next_ + 1) % kDepth;
    from_left_ -= some;
    from_ += some;
    sends_ = from_left_ > 0;
  }
  return {};
}

Status SlotLink::receive_some() noexcept {
  while (receives_ && !stranger_) {
    if (!slot_->ready()) return {};
    Result<Arrival> arrival = slot_->wait({});
    if (!arrival.ok()) return arrival.status();
    PieceHead head;
    std::memcpy(&head, arrival->tensor().data(), sizeof head);
    if (head.word != head_.word || head.total != to_bytes_ ||
        head.bytes != std::min(to_left_, kPayload)) {
      stranger_ = head;
      return {};
    }
    if (head.bytes > 0) std::memcpy(to_, arrival->tensor().data() + kHead, head.bytes);
    copied_ += head.bytes;
    to_ += head.bytes;
    to_left_ -= head.bytes;
    receives_ = to_left_ > 0;
  }
  return {};
}

}  // namespace weft::detail
