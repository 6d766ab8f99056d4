#include "p2p/transport/tcp/send_queue.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/stop_point.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/transport/tcp/checksum.hpp"

namespace weft::p2p::tcp {
namespace {

/// Stands for memory that was given back before a reply had read it.
alignas(64) constexpr std::array<std::byte, 4096> kZeros{};

/// The unit in which a stop point counts.
constexpr std::size_t kStopPiece = 256u << 10;

iovec part(const void* data, std::size_t bytes) noexcept {
  return {const_cast<void*>(data), bytes};
}

/// Aligned words are read whole, each at once: their owner may be writing them.
void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  using Word = std::atomic<std::uint64_t>;
  std::size_t done = 0;
  if (reinterpret_cast<std::uintptr_t>(from) % alignof(Word) == 0)
    for (; done + sizeof(Word) <= bytes; done += sizeof(Word)) {
      const std::uint64_t word =
          reinterpret_cast<const Word*>(from + done)->load(std::memory_order_acquire);
      std::memcpy(to + done, &word, sizeof word);
    }
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

/// The parts of one system call.
class SendQueue::Gathered {
 public:
  explicit Gathered(std::size_t most) noexcept : room_(most) {}

  bool full() const noexcept { return count_ >= kMostParts || room_ == 0; }
  /// Adds what lies behind the first `skip` bytes of the range, and takes those off `skip`.
  void add(const void* data, std::uint64_t bytes, std::uint64_t& skip) noexcept {
    const std::uint64_t skipped = std::min(skip, bytes);
    skip -= skipped;
    bytes -= skipped;
    if (bytes == 0 || full()) return;
    const std::size_t taken = std::min<std::uint64_t>(bytes, room_);
    parts_[count_++] = part(static_cast<const std::byte*>(data) + skipped, taken);
    room_ -= taken;
    bytes_ += taken;
  }
  /// A word that may change is read once, here; null: there is no room for more of them.
  std::byte* copy(const std::byte* data, std::size_t bytes) noexcept {
    if (copied_ + bytes > copies_.size() || full()) return nullptr;
    std::byte* at = copies_.data() + copied_;
    copy_words(at, data, bytes);
    load_barrier();
    copied_ += bytes;
    return at;
  }
  std::span<const iovec> parts() const noexcept { return {parts_.data(), count_}; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Memory that only the system call reads, after what copy() will read next.
  bool reads_memory = false;
  /// Part of it belongs to a get: its owner may be writing it.
  Pipe::Memory memory = Pipe::Memory::settled;

 private:
  std::array<iovec, kMostParts> parts_;
  std::size_t count_ = 0;
  std::size_t room_;
  std::size_t bytes_ = 0;
  std::array<std::byte, 1024> copies_;
  std::size_t copied_ = 0;
};

SendQueue::SendQueue(Pipe& pipe, const Exports& exports) : pipe_(pipe), exports_(exports) {}

std::size_t SendQueue::send_now(const Head& head, std::span<const iovec> runs) noexcept {
  std::array<iovec, kMostParts> parts;
  parts[0] = part(&head, sizeof head);
  const std::size_t count = std::min(runs.size(), kMostParts - 1);
  std::copy_n(runs.begin(), count, parts.begin() + 1);
  const Pipe::Moved sent = pipe_.send(std::span(parts).first(1 + count));
  if (sent.error != 0) error_ = sent.error;
  lacks_room_ = sent.bytes != sizeof head + head.bytes;
  if (!lacks_room_) sent_.store(++begun_, std::memory_order_release);
  return sent.bytes;
}

Record& SendQueue::add(const Head& head) {
  Record& record = ring_.add(head);
  ++begun_;
  if (head.kind == Kind::part) ++parts_;
  if (is_of_messages(head.kind)) ++messages_;
  return record;
}

Record& SendQueue::add_urgent(const Head& head) {
  was_urgent_ = true;
  return urgent_.add(head);
}

void SendQueue::add(Record&& record) {
  const Kind kind = record.head.kind;
  ring_.add(std::move(record));
  ++begun_;
  if (kind == Kind::part) ++parts_;
  if (is_of_messages(kind)) ++messages_;
}

Record* SendQueue::find_urgent(Kind kind, std::uint64_t address, std::uint32_t key) noexcept {
  for (std::size_t i = 0; i < urgent_.size(); ++i) {
    Record& record = urgent_.at(i);
    if (record.done == 0 && record.head.kind == kind && record.head.address == address &&
        record.head.key == key)
      return &record;
  }
  return nullptr;
}

/// A record that has begun comes first, then urgent ones.
Record& SendQueue::next(std::size_t index) noexcept {
  const std::size_t begun = has_begun() ? 1 : 0;
  if (index < begun) return ring_.at(0);
  if (index < begun + urgent_.size()) return urgent_.at(index - begun);
  return ring_.at(index - urgent_.size());
}

/// Whether the record is all there, so that the next one may follow.
bool SendQueue::gather(Record& record, Gathered& into) noexcept {
  std::uint64_t skip = record.done;
  if (record.rest_bytes != 0) {
    std::uint64_t none = 0;
    into.add(record.rest.data(), record.rest_bytes, none);
    return false;  // alone: what follows is counted from its end
  }
  into.add(&record.head, sizeof record.head, skip);
  if (!record.pieces.empty()) return gather_reply(record, skip, into);
  if (record.is_small)
    into.add(record.small.data(), record.head.bytes, skip);
  else if (!record.copy.empty())
    into.add(record.copy.data(), record.copy.size(), skip);
  else
    for (const iovec& run : record.runs) into.add(run.iov_base, run.iov_len, skip);
  into.reads_memory = into.reads_memory || !record.runs.empty();
  return !into.full();
}

/// Each piece is read after the one before it: a reader proves by its last that the others were
/// whole.
bool SendQueue::gather_reply(Record& record, std::uint64_t skip, Gathered& into) noexcept {
  for (const GetPiece& piece : record.pieces) {
    if (skip >= piece.bytes) {
      skip -= piece.bytes;
      continue;
    }
    const std::byte* from =
        exports_.find(piece.key, piece.address, piece.bytes, Exports::Access::get);
    if (from == nullptr) {
      record.is_whole = false;
      std::uint64_t left = piece.bytes - skip;
      for (skip = 0; left > 0 && !into.full();) {
        const std::uint64_t some = std::min<std::uint64_t>(left, kZeros.size());
        into.add(kZeros.data(), some, skip);
        left -= some;
      }
    } else if (piece.bytes <= Record::kSmall) {
      if (into.reads_memory) return false;
      from = into.copy(from, piece.bytes);
      if (from == nullptr) return false;
      into.add(from, piece.bytes, skip);
    } else {
      into.add(from, piece.bytes, skip);
      into.reads_memory = true;
      into.memory = Pipe::Memory::unproved;
    }
    if (into.full()) return false;
  }
  Head end{.kind = Kind::reply_end, .index = record.head.index};
  end.flags = record.is_whole ? 1 : 0;
  if (checksums_) end.head_sum = head_sum(end);
  const std::byte* copied = into.copy(reinterpret_cast<const std::byte*>(&end), sizeof end);
  if (copied == nullptr) return false;
  into.add(copied, sizeof end, skip);
  return !into.full();
}

bool SendQueue::flush(std::size_t most) noexcept {
  bool moved = false;
  if (pipe_.holds()) {
    if (const Pipe::Moved sent = pipe_.send({}); sent.error != 0) error_ = sent.error;
    if (pipe_.holds()) return false;
    moved = true;
  }
  while (ring_.size() + urgent_.size() > 0 && error_ == 0 && most > 0) {
    Gathered gathered(most);
    const std::size_t count = ring_.size() + urgent_.size();
    for (std::size_t i = 0; i < count && !gathered.full(); ++i)
      if (!gather(next(i), gathered)) break;
    if (has_begun() || (!ring_.empty() && ring_.at(0).head.kind == Kind::piece))
      pass_stop_point("tcp", (pieces_out_ + ring_.at(0).done) / kStopPiece);
    const Pipe::Moved sent = pipe_.send(gathered.parts(), gathered.memory);
    if (sent.error != 0) error_ = sent.error;
    advance(gathered, sent.bytes);
    moved = moved || sent.bytes > 0;
    most -= std::min(most, sent.bytes);
    lacks_room_ = sent.bytes < gathered.bytes();
    if (lacks_room_) break;
  }
  return moved;
}

void SendQueue::advance(const Gathered& gathered, std::size_t bytes) noexcept {
  // A copied word that is only half out must not be read anew for its other half.
  std::size_t before = 0;
  const iovec* torn = nullptr;
  for (const iovec& one : gathered.parts()) {
    if (bytes > before && bytes < before + one.iov_len) torn = &one;
    if (bytes <= before + one.iov_len) break;
    before += one.iov_len;
  }
  const std::size_t torn_at = bytes - before;
  while (bytes > 0) {
    Record& record = next(0);
    if (record.rest_bytes != 0) {
      const std::size_t taken = std::min(bytes, record.rest_bytes);
      std::memmove(record.rest.data(), record.rest.data() + taken, record.rest_bytes - taken);
      record.rest_bytes -= taken;
      record.done += taken;
      bytes -= taken;
      if (record.done == record.bytes()) pop();
      continue;
    }
    const std::uint64_t left = record.bytes() - record.done;
    if (bytes < left) {
      record.done += bytes;
      if (torn != nullptr && !record.pieces.empty() && record.done > sizeof(Head) &&
          torn->iov_len - torn_at <= Record::kSmall && torn->iov_len <= Record::kSmall) {
        record.rest_bytes = torn->iov_len - torn_at;
        std::memcpy(record.rest.data(), static_cast<const std::byte*>(torn->iov_base) + torn_at,
                    record.rest_bytes);
      }
      return;
    }
    bytes -= left;
    pop();
  }
}

/// The next one is out.
void SendQueue::pop() noexcept {
  if (!has_begun() && !urgent_.empty()) return leave(urgent_);
  if (ring_.at(0).head.kind == Kind::part) --parts_;
  if (is_of_messages(ring_.at(0).head.kind)) --messages_;
  leave(ring_);
  // Records in this ring are the last ones begun.
  sent_.store(begun_ - ring_.size(), std::memory_order_release);
}

/// The first of the ring is out.
void SendQueue::leave(RecordRing& ring) noexcept {
  Record& out = ring.at(0);
  if (out.head.kind == Kind::piece)
    pieces_out_ += out.head.bytes;
  else if (!is_urgent(out.head.kind))
    pieces_out_ = 0;
  // One that can't be remembered could not be sent again: the rail's connection is given up.
  if (keeps_ && out.head.kind != Kind::taken) try {
      kept_.add(std::move(out));
    } catch (const std::bad_alloc&) {
      error_ = ENOMEM;
    }
  ring.pop();
}

void SendQueue::drop() noexcept {
  while (!kept_.empty()) kept_.pop();
  while (!ring_.empty()) ring_.pop();
  while (!urgent_.empty()) urgent_.pop();
  parts_ = messages_ = 0;
}

}  // namespace weft::p2p::tcp
