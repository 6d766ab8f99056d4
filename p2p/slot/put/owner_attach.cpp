// The owner's control path: who may put, and until when its memory must stay.
#include <fmt/format.h>

#include <algorithm>

#include "base/os/asymmetric_barrier.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/slot/put/owner.hpp"

namespace weft::detail {

using p2p::AttachedMessage;
using p2p::AttachMessage;

Status PutOwner::grant(p2p::Peer& peer, const AttachMessage& asked, AttachedMessage& granted) {
  if (Status status = writer_taken(peer); !status.ok()) return status;
  if (Status status = in_quarantine(peer); !status.ok()) return status;
  // Words are given new numbers, and the way to the GPU depends on what it still copies.
  if (buffers_.gpu() != nullptr) buffers_.gpu()->expect_no_chunks();
  // First what may fail for want of memory.
  prepare_stage(peer);
  if (notify_ != p2p::Notify::always) buffers_.grant_tails(peer, asked, granted);
  if (!buffers_.share(mesh_, peer)) return not_shared(peer);
  buffers_.grant(granted);
  if (Status status = offer_gpu(peer, granted); !status.ok()) return status;
  buffers_.grant_chunks(mesh_, peer, asked, granted);
  Attachment& attachment = attachments_.free_for(peer);
  attachment.remote_id = asked.remote_id;
  const auto word = resolve_credit_word(attachment, asked);
  if (!word.ok()) return word.status();
  attachment.credit_word = *word;
  granted.sequence = buffers_.highest_sequence();
  if (buffers_.gpu() != nullptr)
    buffers_.gpu()->begin_writer(granted.sequence, granted.gpu_way == p2p::cuda::GpuWay::nic);
  expect_puts(attachment, granted);
  expect_chunks(attachment, granted);
  last_writer_.store(peer.rank, std::memory_order_release);
  row_.set_peer(peer.rank);
  attachment.released_at_attach = released_.all(std::memory_order_acquire);
  attachments_.activate(attachment);
  writer_.store(&attachment, std::memory_order_seq_cst);
  // Credits that the owner released before it could see the attachment are not reported again, so
  // they go with the grant.
  granted.released = released_.all(std::memory_order_seq_cst);
  buffers_.stage_after(granted.sequence);
  granted.attachment_id = attachment.id.load(std::memory_order_relaxed);
  return {};
}

Status PutOwner::offer_gpu(p2p::Peer& peer, AttachedMessage& granted) {
  using p2p::cuda::GpuWay;
  if (buffers_.gpu() == nullptr) return {};
  p2p::GpuOffer& offer = buffers_.gpu()->offer();
  offer.grant(mesh_, peer, buffers_.chunk_words() != nullptr && buffers_.gpu()->is_copying(),
              granted);
  if (!local_.require_gdr || granted.gpu_way == GpuWay::mapped || granted.gpu_way == GpuWay::nic)
    return {};
  return failure(Code::unreachable, "attach",
                 fmt::format("WEFT_REQUIRE=gdr: the slot lies on {}, and its tensors would be "
                             "staged: {}{}{}",
                             spec_.memory.text(), p2p::cuda::reason_of(granted.gpu_way),
                             offer.verdict().empty() ? "" : ": ", offer.verdict()),
                 "fix this, or unset WEFT_REQUIRE to take what there is");
}

Status PutOwner::writer_taken(const p2p::Peer& peer) const {
  const Attachment* holder = writer_.load(std::memory_order_acquire);
  if (holder == nullptr || !holder->active.load()) return {};
  return failure(
      Code::writer_taken, "attach",
      fmt::format(
          "rank {} (host {}) asked to write, and rank {} (host {}) already does: a slot has "
          "one writer",
          peer.rank, peer.host(), holder->peer->rank, holder->peer->host()),
      "expose one slot for each writer");
}

Status PutOwner::in_quarantine(const p2p::Peer& peer) const {
  const int last = last_writer_.load(std::memory_order_acquire);
  if (buffers_.gpu() == nullptr || last < 0 || !buffers_.gpu()->offer().is_in_quarantine(last))
    return {};
  return failure(
      Code::peer_failed, "attach",
      fmt::format("rank {} (host {}) asked to write, and the slot's memory on {} is in quarantine: "
                  "rank {}, which wrote there, is gone, and its GPU may go on writing",
                  peer.rank, peer.host(), spec_.memory.text(), last),
      "the owner closes the slot and exposes another");
}

void PutOwner::prepare_stage(const p2p::Peer& peer) {
  if (!buffers_.prepare_stage(peer)) return;
  local_.log->info(Subsystem::slot,
                   "puts into slot \"{}\" are staged: rank {}'s process can't reach adopted memory "
                   "of this one",
                   spec_.name, peer.rank);
}

void PutOwner::expect_puts(Attachment& attachment, AttachedMessage& granted) {
  const bool tails = granted.tail_stride != 0;
  const bool by_nic = granted.on_gpu != 0 && granted.gpu_way == p2p::cuda::GpuWay::nic;
  p2p::Counter& flushes = row_.gpu_counters().gpu_flushes;
  attachment.notification_id = granted.notification_id =
      attachment.peer->channel->expect({.words = buffers_.words(),
                                        .count = spec_.depth,
                                        .stride = sizeof(p2p::SlotLine),
                                        .in_turn = true,
                                        .last = granted.sequence,
                                        .passed = tails ? &released_.word() : nullptr,
                                        .places = {granted.lines, granted.buffers},
                                        .gpu_flushes = by_nic ? &flushes : nullptr});
  if (!tails) return;
  attachment.tails = true;
  reported_silent_ = granted.sequence;
  local_.waiter.count_silent(1);
  local_.ring();  // a thread that sleeps already must poll by itself from now on
}

void PutOwner::expect_chunks(Attachment& attachment, AttachedMessage& granted) noexcept {
  if (granted.chunk_bytes == 0) return;
  const p2p::ChunkWords& words = *buffers_.chunk_words();
  try {
    attachment.chunk_id = granted.chunk_id =
        attachment.peer->channel->expect({.words = words.data(),
                                          .count = static_cast<std::uint32_t>(words.cut().words()),
                                          .stride = sizeof(std::uint64_t),
                                          .may_lack = true,
                                          .places = {granted.buffers}});
  } catch (...) {
    granted.chunk_bytes = 0;  // tensors go whole
    return;
  }
  // If the writer's GPU may copy into the slot's own buffers, that is found out first.
  if (buffers_.gpu() != nullptr && granted.gpu_way != p2p::cuda::GpuWay::mapped)
    buffers_.gpu()->expect_chunks(granted.chunks_above);
  attachment.chunks_above = granted.chunks_above;
}

void PutOwner::expect_no_more(Attachment& attachment) noexcept {
  if (attachment.chunk_id)
    attachment.peer->channel->expect_no_more(*std::exchange(attachment.chunk_id, {}));
  if (attachment.notification_id)
    attachment.peer->channel->expect_no_more(*std::exchange(attachment.notification_id, {}));
  if (std::exchange(attachment.tails, false)) local_.waiter.count_silent(-1);
}

void PutOwner::refused(const Status& why) {
  refused_.keep(why);
  local_.ring();
}

void PutOwner::ended(Attachment& attachment) noexcept {
  Attachment* leaver = &attachment;
  writer_.compare_exchange_strong(leaver, nullptr);
  // Chunks that it has left bring no tensor any more.
  if (buffers_.gpu() != nullptr) buffers_.gpu()->expect_no_chunks();
  expect_no_more(attachment);
}

void PutOwner::detached(Attachment& attachment) noexcept {
  if (buffers_.gpu() != nullptr) buffers_.gpu()->offer().writer_left();
  const std::uint64_t last = dynamic() && !closed_ ? buffers_.highest_sequence() : 0;
  if (last <= released_.all(std::memory_order_seq_cst)) {
    attachment.gate.shut();
    return;
  }
  // The writer keeps what the owner has not read, and is told when it was.
  attachment.leaves_after = last;
  draining_.store(true, std::memory_order_seq_cst);
  let_drained_go();
}

void PutOwner::let_drained_go() noexcept {
  bool some = false;
  for (const auto& attachment : attachments_) {
    if (attachment->leaves_after == 0) continue;
    if (released_.all(std::memory_order_seq_cst) >= attachment->leaves_after || closed_) {
      attachment->leaves_after = 0;
      attachment->gate.shut();
    } else {
      some = true;
    }
  }
  draining_.store(some, std::memory_order_seq_cst);
}

void PutOwner::credit_wanted(const p2p::Peer& peer, std::uint64_t remote_id) noexcept {
  // A writer that knows of the closing may have given its credit word's memory back.
  if (closed_) return;
  Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (attachment == nullptr || attachment->peer != &peer || attachment->remote_id != remote_id)
    return;
  local_.recorder.control(stats::Event::credit_on_call, peer.rank, id_);
  // If there is nothing to report yet, the next release is reported at once.
  credits_.want(released_.all(std::memory_order_seq_cst) + 1);
  os::heavy_barrier();
  // The application's thread may be reporting too: the last to write must have seen the last value.
  write_all_credits(*attachment);
}

void PutOwner::write_all_credits(const Attachment& attachment) noexcept {
  std::uint64_t all = 0;
  do {
    all = released_.all(std::memory_order_seq_cst);
    attachment.peer->channel->put_word(attachment.credit_word, all, p2p::Notify::always);
    counters_.credit_writes_on_demand.add(1);
    p2p::full_barrier();  // the word is out before the count is looked at once more
  } while (released_.all(std::memory_order_seq_cst) != all);
}

void PutOwner::also_needs(std::span<const int> ranks, Needed needed) {
  // The progress thread reads them where a stream waits.
  const auto lock =
      streams_made_ ? std::unique_lock(streams_made_->mutex) : std::unique_lock<std::mutex>();
  ExposedSlot::also_needs(ranks, needed);
}

void PutOwner::flow_asked(p2p::Peer& peer, const p2p::FlowQuestionMessage& question) {
  if (closed_) return;  // the writer's pending puts end by that
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (attachment == nullptr || attachment->peer != &peer ||
      attachment->remote_id != question.remote_id)
    return;
  mesh_.send(peer, p2p::FlowAnswerMessage{.remote_id = question.remote_id,
                                          .ticket = question.ticket,
                                          .released = released_.all(std::memory_order_acquire)});
}

void PutOwner::put_refused(const p2p::Peer& peer, const p2p::PutRefusedMessage& message) {
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (attachment == nullptr || attachment->peer != &peer ||
      attachment->remote_id != message.remote_id)
    return;
  refused_put_.keep(message);
}

bool PutOwner::gpu_way(p2p::Peer& peer, const p2p::GpuWayMessage& message) noexcept {
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (buffers_.gpu() == nullptr || attachment == nullptr || attachment->peer != &peer ||
      attachment->remote_id != message.remote_id)
    return false;
  p2p::GpuOffer& offer = buffers_.gpu()->offer();
  if (message.way != p2p::cuda::GpuWay::unproven) {
    offer.settle(message.way);
    if (message.way != p2p::cuda::GpuWay::mapped && attachment->chunk_id)
      buffers_.gpu()->expect_chunks(attachment->chunks_above);
    return false;
  }
  offer.begin_check(peer, message);
  return true;
}

bool PutOwner::serve() noexcept {
  const bool is_asked = buffers_.gpu() != nullptr && buffers_.gpu()->offer().serve(mesh_);
  return serve_streams() || is_asked;
}

bool PutOwner::came_silently() noexcept {
  if (!buffers_.made_tails()) return false;
  const std::uint64_t before = reported_silent_;
  while (buffers_.sequence_at(reported_silent_ % spec_.depth) > reported_silent_)
    ++reported_silent_;
  return reported_silent_ != before;
}

void PutOwner::count_quarantine(bool enters) noexcept {
  if (buffers_.gpu() != nullptr) buffers_.gpu()->offer().count_quarantine(enters);
  const p2p::OwnedBlock& block = buffers_.arena_block();
  if (!block) return;
  const auto bytes = static_cast<std::int64_t>(block.block().bytes);
  block.arena()->add_quarantine(enters ? bytes : -bytes);
}

void PutOwner::abandon() noexcept {
  end_streams();
  abandon_streams();
  for (const auto& attachment : attachments_) expect_no_more(*attachment);
  const bool written =
      std::any_of(attachments_.begin(), attachments_.end(),
                  [](const auto& attachment) { return attachment->active.load(); });
  if (!written || !buffers_.keep_user_memory()) return;
  local_.log->warn(Subsystem::slot,
                   "slot \"{}\" lies in adopted memory that its writer may still reach: the memory "
                   "is never given back (close the slot and leave() before the world goes)",
                   spec_.name);
}

}  // namespace weft::detail
