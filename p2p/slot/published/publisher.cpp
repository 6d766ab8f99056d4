#include "p2p/slot/published/publisher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/memory/heap.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::WaitEnd;

namespace {

/// The tensor that the owner of a slot on a GPU fills.
Tensor gpu_tensor(p2p::LocalRank& local, const PublishedSpec& spec) {
  const std::size_t bytes = p2p::payload_bytes(spec);
  if (bytes == 0) return Tensor::wrap(nullptr, spec.dtype, spec.shape, spec.memory);
  return {p2p::make_storage(local.gpus->arena(spec.memory), bytes), 0, spec.dtype, spec.shape};
}

}  // namespace

Publisher::Publisher(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
                     const PublishedSpec& spec, std::uint64_t id)
    : ExposedSlot(local, mesh, table, spec, id),
      spec_(spec),
      stride_(p2p::Heap::rounded(p2p::payload_bytes(spec))),
      words_block_(local.control, p2p::PublishedWords::bytes(spec.depth)),
      words_(words_block_.data()),
      credits_(spec.flow == Flow::credits || local.check_flow) {
  if (stride_ != 0)
    buffers_ = std::make_shared<const p2p::OwnedBlock>(local_.published, stride_ * spec_.depth);
  std::memset(words_block_.data(), 0, p2p::PublishedWords::bytes(spec_.depth));
  std::byte* const first = buffers_ ? buffers_->data() : nullptr;
  for (std::size_t i = 0; i < spec_.depth; ++i)
    tensors_.push_back(Tensor::wrap(first + i * stride_, spec_.dtype, spec_.shape));
  if (spec_.memory.is_gpu())
    gpu_ = std::make_unique<OnGpu>(OnGpu{.tensor = gpu_tensor(local_, spec_), .copy = {}});
}

Status Publisher::grant(p2p::Peer& peer, const p2p::AttachMessage& asked,
                        p2p::AttachedMessage& granted) {
  if (!mesh_.share(peer, words_block_.block().chunk) ||
      (stride_ != 0 && !mesh_.share(peer, buffers_->block().chunk)))
    return not_shared(peer);
  const p2p::Block& words = words_block_.block();
  granted.lines = {words.chunk, words.offset, words.bytes};
  granted.stride = stride_;
  if (stride_ != 0)
    granted.buffers = {buffers_->block().chunk, buffers_->block().offset, buffers_->block().bytes};
  Attachment& attachment = attachments_.free_for(peer);
  attachment.remote_id = asked.remote_id;
  const auto word = resolve_credit_word(attachment, asked);
  if (!word.ok()) return word.status();
  attachment.credit_word = *word;
  // Where this rank can't load from the reader's memory, the reader can't load from here.
  attachment.wants_newest = peer.channel->map(*word) == nullptr;
  const std::size_t bytes = p2p::ReaderWords::bytes(spec_.depth);
  const bool is_new = !attachment.words_block;
  if (is_new) attachment.words_block = p2p::OwnedBlock(local_.control, bytes);
  attachment.words().clear(spec_.depth);
  if (!mesh_.share(peer, attachment.words_block.block().chunk)) return not_shared(peer);
  const std::uint64_t version = p2p::Newest::of(words_.newest().load()).version;
  attachment.words().released().store(version == 0 ? 0 : version - 1);
  attachments_.activate(attachment);
  if (is_new) {
    attachment.next = readers_.load(std::memory_order_relaxed);
    readers_.store(&attachment, std::memory_order_seq_cst);
  }
  // Versions published from here on are announced to it.
  granted.newest = words_.newest().load(std::memory_order_seq_cst);
  granted.sequence = attachment.words().released().load();
  if (spec_.flow != Flow::credits) {
    // The owner may have looked at the readers before this one was there, and be filling a buffer:
    // this reader may not read that buffer's version.
    const std::uint64_t writing = writing_.load(std::memory_order_seq_cst);
    const std::uint64_t overwritten = writing > spec_.depth ? writing - spec_.depth : 0;
    granted.sequence = std::max(granted.sequence, overwritten);
    attachment.words().released().store(granted.sequence, std::memory_order_seq_cst);
  }
  local_.ring();
  const p2p::Block& block = attachment.words_block.block();
  granted.reader_words = {block.chunk, block.offset, bytes};
  granted.attachment_id = attachment.id.load(std::memory_order_relaxed);
  return {};
}

const Attachment* Publisher::pinning_reader(std::uint64_t buffer) const noexcept {
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts() &&
        attachment->words().pins(buffer).load(std::memory_order_acquire) != 0)
      return attachment;
  return nullptr;
}

const Attachment* Publisher::lagging_reader(std::uint64_t release_needed) const noexcept {
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    // A reader that can't store its words here reads copies, and holds nothing for long.
    if (attachment->counts() && !attachment->wants_newest &&
        attachment->words().released().load(std::memory_order_acquire) < release_needed)
      return attachment;
  return nullptr;
}

bool Publisher::take(std::uint64_t buffer) noexcept {
  if (streams_.is_used && (filling_ == buffer || streams_.uses(buffer))) return false;
  if (pinning_reader(buffer) != nullptr) return false;
  auto& word = words_.version(buffer);
  const std::uint64_t version = word.load(std::memory_order_relaxed);
  word.store(0, std::memory_order_relaxed);
  // A reader that pins after this point sees that the buffer is being filled and unpins it; a
  // reader that pinned before is seen below.
  p2p::full_barrier();
  if (pinning_reader(buffer) != nullptr) {
    word.store(version, std::memory_order_release);
    wake_readers();
    return false;
  }
  return true;
}

void Publisher::wake_readers() noexcept {
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts()) attachment->peer->channel->notify();
}

std::optional<std::uint64_t> Publisher::take_any() noexcept {
  // The oldest value first; the newest only where there is no other buffer.
  const std::uint64_t newest = newest_.buffer;
  const std::uint64_t others =
      newest_.version == 0 || spec_.depth == 1 ? spec_.depth : spec_.depth - 1;
  for (std::uint64_t i = 1; i <= others; ++i)
    if (take((newest + i) % spec_.depth)) return (newest + i) % spec_.depth;
  return std::nullopt;
}

Result<Tensor> Publisher::next(Deadline deadline) noexcept {
  if (streams_.is_used) [[unlikely]]
    if (Status earlier = take_stream_failure(); !earlier.ok()) return earlier;
  if (filling_) {
    // It may be written again, so the copy of its former contents counts no more.
    if (gpu_ && gpu_->copy) {
      gpu_->copy.reset();
      gpu_->copies_go_on = true;
    }
    return to_fill();
  }
  if (const Status status = take_buffer(deadline); !status.ok()) return status;
  if (streams_.is_used) [[unlikely]]
    if (Status earlier = take_stream_failure(); !earlier.ok()) return earlier;
  return to_fill();
}

Status Publisher::take_buffer(Deadline deadline) noexcept {
  if (spec_.flow != Flow::credits) {
    if (!await_streams(deadline.resolve(local_.waiter.default_timeout()), true))
      return late_stream("next");
    const Status overrun = begin_turn("next");
    if (!overrun.ok()) {
      const auto lock = lock_streams();
      filling_.reset();
    }
    return overrun;
  }
  const WaitEnd end = local_.waiter.wait(
      [this] {
        const auto lock = lock_streams();
        filling_ = take_any();
        return filling_.has_value();
      },
      [this] { return !needs_.status().ok(); }, deadline,
      [this] {
        const p2p::Newest newest = this->newest();
        const Attachment* attachment = pinning_reader((newest.buffer + 1) % spec_.depth);
        return stats::WaitAbout{.operation = stats::Operation::next,
                                .peer = attachment == nullptr ? -1 : attachment->peer->rank,
                                .slot = id_,
                                .sequence = newest.version + 1};
      });
  return end == WaitEnd::ready ? Status() : next_failure(end);
}

Status Publisher::next_failure(WaitEnd end) noexcept {
  if (end == WaitEnd::broken)
    return altered(needs_.status(), [this](ErrorDetail& detail) {
      detail.operation = "next";
      detail.slot = spec_.name;
    });
  const p2p::Newest newest = this->newest();
  const std::uint64_t oldest = (newest.buffer + 1) % spec_.depth;
  if (pinning_reader(oldest) == nullptr && streams_.is_used && is_awaiting_streams())
    return late_stream("next");
  return refuse(Code::timeout, [&] {
    ErrorDetail detail;
    const Attachment* attachment = pinning_reader(oldest);
    local_.recorder.control(stats::Event::timeout, -1, id_, newest.version + 1);
    detail.rank = local_.rank;
    detail.hint =
        "readers let a version go by destroying its Arrival; more depth allows more views";
    detail.message = "every buffer was being viewed";
    if (attachment != nullptr) {
      const std::uint64_t version = words_.version(oldest).load();
      detail.peer = attachment->peer->rank;
      detail.host = attachment->peer->host();
      detail.sequence_expected = detail.sequence_seen = version;
      detail.message = fmt::format("rank {} (host {}) has not let go of version {}{}", detail.peer,
                                   detail.host, version, mesh_.suspicion(detail.peer));
    }
    detail.operation = "next";
    detail.slot = spec_.name;
    return detail;
  });
}

Status Publisher::begin_turn(const char* operation) noexcept {
  const std::uint64_t version = newest_.version + 1;
  // Announced before the readers are looked at: who attaches meanwhile keeps away from the buffer.
  writing_.store(version, std::memory_order_seq_cst);
  if (credits_ && version > spec_.depth)
    if (const Attachment* attachment = lagging_reader(version - spec_.depth); attachment != nullptr)
      return failure(Code::flow_overrun, operation,
                     formatted("rank {} still reads version {} of this synchronous slot",
                               attachment->peer->rank, version - spec_.depth),
                     "the loop does not guarantee consumption: use Flow::credits");
  return {};
}

Status Publisher::publish(Deadline deadline) noexcept {
  if (!filling_)
    return failure(Code::bad_argument, "publish", "there is no buffer from next() to publish",
                   "call next(), fill the tensor, then publish()");
  if (streams_.is_used) [[unlikely]] {
    if (Status earlier = take_stream_failure(); !earlier.ok()) return earlier;
    deadline = deadline.resolve(local_.waiter.default_timeout());
    if (!await_streams(deadline)) return late_stream("publish");
  }
  if (is_copied()) [[unlikely]]
    if (Status status = bring_from_gpu(deadline); !status.ok()) return status;
  const auto lock = lock_streams();
  make_newest(*filling_);
  filling_.reset();
  return {};
}

void Publisher::make_newest(std::uint64_t buffer) noexcept {
  newest_ = {newest_.version + 1, buffer};
  if (gpu_) gpu_->is_newest_whole = true;
  words_.version(newest_.buffer).store(newest_.version, std::memory_order_release);
  words_.newest().store(newest_.word(), std::memory_order_release);
  counters_.transfers.add(1);
  local_.recorder.data(stats::Event::published, -1, id_, newest_.version);
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts()) announce(*attachment);
}

void Publisher::announce(Attachment& attachment) noexcept {
  if (!attachment.wants_newest) return attachment.peer->channel->notify();
  if (!attachment.gate.enter()) return;
  attachment.peer->channel->put_word(attachment.credit_word, newest_.word(), p2p::Notify::always);
  counters_.credit_writes.add(1);
  attachment.gate.leave();
}

int Publisher::readers() const noexcept {
  int count = 0;
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts()) ++count;
  return count;
}

void Publisher::count_quarantine(bool enters) noexcept {
  if (!buffers_) return;
  const auto bytes = static_cast<std::int64_t>(buffers_->block().bytes);
  buffers_->arena()->add_quarantine(enters ? bytes : -bytes);
}

EdgeReport Publisher::report() const {
  EdgeReport edge;
  edge.slot = spec_.name;
  edge.role = Role::publishes;
  const Attachment* reader = readers_.load(std::memory_order_acquire);
  if (reader != nullptr) edge.fabric = p2p::name(reader->peer->channel->fabric());
  edge.counters = row_.read_counters();
  if (gpu_) {
    edge.way = "staged";
    edge.reason = "the owner fills its versions on a GPU, and readers reach host memory alone";
  }
  return edge;
}

}  // namespace weft::detail
