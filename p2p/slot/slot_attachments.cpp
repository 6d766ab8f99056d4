// The attachments of a slot: attach, detach and teardown, on the owner's progress thread.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/os/asymmetric_barrier.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/slot/grant.hpp"
#include "p2p/slot/slot_state.hpp"

namespace weft::detail {

using p2p::AttachedMessage;
using p2p::AttachMessage;

Status SlotState::admit(p2p::Peer& peer, const AttachMessage& asked, AttachedMessage& granted) {
  const auto expected = p2p::from_wire(asked.spec);
  if (!expected)
    return failure(Code::bad_argument, "attach", "the asker's contract is malformed", "");
  const bool same_kind = expected->writer == spec_.writer;
  const bool fits = asked.take_declared != 0 ? same_kind : p2p::same_contract(spec_, *expected);
  if (!fits) {
    const std::string wanted = asked.take_declared != 0
                                   ? fmt::format("a slot {}", p2p::written_by(expected->writer))
                                   : p2p::describe(*expected);
    const Status status(ErrorDetail{
        .code = Code::mismatch,
        .operation = "attach",
        .message = fmt::format(
            "rank {} (host {}) expects {}; the owner, rank {} (host {}), exposes {}", peer.rank,
            peer.host(), wanted, local_.rank, mesh_.peer(local_.rank).host(), p2p::describe(spec_)),
        .hint = same_kind ? "give both ends the same specification"
                          : "attach() goes with expose(), attach_published() with "
                            "expose_published()",
        .rank = local_.rank,
        .peer = peer.rank,
        .host = peer.host(),
        .slot = spec_.name});
    remember_refusal(status);
    return status;
  }
  if (const Status status = writer_taken(peer); !status.ok()) return status;
  // First: what may fail for want of memory.
  prepare_stage(peer);
  grant_tails(peer, asked, granted);
  if (const Status status = share_memory(peer); !status.ok()) return status;
  granted.lines = {lines_.block().chunk, lines_.block().offset, lines_.block().bytes};
  granted.stride = stride_;
  if (stride_ != 0 && !memory_.empty()) {
    grant_memory(granted);
  } else if (stride_ != 0) {
    granted.buffers = {buffers_.block().chunk, buffers_.block().offset, buffers_.block().bytes};
  }
  Attachment& attachment = free_attachment(peer);
  attachment.remote_id = asked.remote_id;
  const Status status = spec_.writer == p2p::Writer::peer
                            ? admit_writer(attachment, asked, granted)
                            : admit_reader(attachment, asked, granted);
  if (!status.ok()) return status;
  // Tensors that arrived before this writer lie in the slot's own memory, not in the stage.
  if (stage_) {
    std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    staged_after_.compare_exchange_strong(none, granted.sequence);
  }
  granted.remote_id = asked.remote_id;
  granted.slot_id = id_;
  granted.attachment_id = attachment.id.load(std::memory_order_relaxed);
  granted.spec = p2p::to_wire(spec_);
  counters_.control_messages.add(1);
  row_.set_fabric(p2p::name(peer.channel->fabric()));
  local_.recorder.control(stats::Event::attachment_made, peer.rank, id_, granted.sequence);
  return {};
}

Attachment& SlotState::free_attachment(p2p::Peer& peer) {
  // Only an attachment of the same peer: the application's thread may still look at whose it was.
  const auto left = std::ranges::find_if(attachments_, [&](const auto& attachment) {
    return attachment->peer == &peer && !attachment->active.load() && attachment->gate.is_drained();
  });
  if (left != attachments_.end()) return **left;
  Attachment& attachment = *attachments_.emplace_back(std::make_unique<Attachment>());
  attachment.peer = &peer;
  // Runs when the last credit write to a remote end that left is done.
  attachment.gate.on_drained([&local = local_, &mesh = mesh_, &attachment] {
    local.progress.post([&mesh, &peer = *attachment.peer, id = attachment.remote_id] {
      mesh.send(peer, p2p::DetachedMessage{.remote_id = id});
    });
  });
  return attachment;
}

void SlotState::activate(Attachment& attachment) noexcept {
  attachment.id.store(next_attachment_++, std::memory_order_relaxed);
  attachment.leaves_after = 0;
  attachment.active.store(true, std::memory_order_release);
  attachment.gate.open();
}

Status SlotState::writer_taken(const p2p::Peer& peer) const {
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

void SlotState::prepare_stage(const p2p::Peer& peer) {
  if (stage_ || stride_ == 0 || memory_.empty() ||
      peer.channel->capabilities().peer_reaches_adopted.load() ||
      memory_.arena() != local_.adopted.get())
    return;
  stage_ = p2p::OwnedBlock(local_.data, p2p::Heap::rounded(bytes_) * spec_.depth);
  local_.log->info(Subsystem::slot,
                   "puts into slot \"{}\" are staged: rank {}'s process can't reach adopted memory "
                   "of this one",
                   spec_.name, peer.rank);
}

Status SlotState::share_memory(p2p::Peer& peer) {
  const auto buffers = [&] {
    if (stage_) return stage_.block().chunk;
    return memory_.empty() ? buffers_.block().chunk : local_.locate(memory_).value().chunk;
  };
  const bool shared = mesh_.share(peer, lines_.block().chunk) &&
                      (stride_ == 0 || mesh_.share(peer, buffers())) &&
                      (!tails_made_ || mesh_.share(peer, tails_made_->ref().chunk));
  return shared ? Status{} : not_shared(peer);
}

Status SlotState::not_shared(const p2p::Peer& peer) const {
  return failure(
      Code::exhausted, "attach",
      fmt::format("rank {} (host {}) can't let rank {} (host {}) reach the slot's memory",
                  local_.rank, mesh_.peer(local_.rank).host(), peer.rank, peer.host()),
      "the owner's log says why; more memory may be registered: ulimit -l");
}

void SlotState::grant_memory(AttachedMessage& granted) {
  if (!stage_) {
    granted.buffers = local_.locate(memory_).value();
    return;
  }
  const p2p::Block& block = stage_.block();
  granted.stride = p2p::Heap::rounded(bytes_);
  granted.buffers = {block.chunk, block.offset, block.bytes};
}

std::uint64_t SlotState::highest_sequence() const noexcept {
  std::uint64_t highest = 0;
  for (std::size_t i = 0; i < line_count_; ++i) highest = std::max(highest, sequence_at(i));
  return highest;
}

Status SlotState::admit_writer(Attachment& attachment, const AttachMessage& asked,
                               AttachedMessage& granted) {
  const auto word = resolve_credit_word(attachment, asked);
  if (!word.ok()) return word.status();
  attachment.credit_word = *word;
  granted.sequence = highest_sequence();
  expect_puts(attachment, granted);
  last_writer_.store(attachment.peer->rank, std::memory_order_release);
  row_.set_peer(attachment.peer->rank);
  attachment.released_at_attach = released_.load(std::memory_order_acquire);
  activate(attachment);
  writer_.store(&attachment, std::memory_order_seq_cst);
  // Credits that the owner released before it could see the attachment are not reported again, so
  // they go with the grant.
  granted.released = released_.load(std::memory_order_seq_cst);
  return {};
}

Status SlotState::admit_reader(Attachment& attachment, const AttachMessage& asked,
                               AttachedMessage& granted) {
  const auto word = resolve_credit_word(attachment, asked);
  if (!word.ok()) return word.status();
  attachment.credit_word = *word;
  // Where this rank can't load from the reader's memory, the reader can't load from here.
  attachment.wants_newest = attachment.peer->channel->map(*word) == nullptr;
  const std::size_t bytes = p2p::ReaderWords::bytes(spec_.depth);
  const bool is_new = !attachment.words_block;
  if (is_new) attachment.words_block = p2p::OwnedBlock(local_.control, bytes);
  attachment.words().clear(spec_.depth);
  if (!mesh_.share(*attachment.peer, attachment.words_block.block().chunk))
    return not_shared(*attachment.peer);
  const std::uint64_t version = p2p::Newest::of(published_words_.newest().load()).version;
  attachment.words().released().store(version == 0 ? 0 : version - 1);
  activate(attachment);
  if (is_new) {
    attachment.next = readers_.load(std::memory_order_relaxed);
    readers_.store(&attachment, std::memory_order_seq_cst);
  }
  // Versions published from here on are announced to it.
  granted.newest = published_words_.newest().load(std::memory_order_seq_cst);
  granted.sequence = attachment.words().released().load();
  if (spec_.flow != Flow::credits) {
    // The owner may have looked at the readers before this one was there, and be filling a buffer:
    // what lies in it is not for this reader.
    const std::uint64_t writing = writing_.load(std::memory_order_seq_cst);
    const std::uint64_t overwritten = writing > spec_.depth ? writing - spec_.depth : 0;
    granted.sequence = std::max(granted.sequence, overwritten);
    attachment.words().released().store(granted.sequence, std::memory_order_seq_cst);
  }
  local_.ring();
  const p2p::Block& block = attachment.words_block.block();
  granted.reader_words = {block.chunk, block.offset, bytes};
  return {};
}

Result<p2p::RemoteMemory> SlotState::resolve_credit_word(const Attachment& attachment,
                                                         const AttachMessage& asked) const {
  if (p2p::sort_of_chunk(asked.credit_word.chunk) != p2p::ArenaSort::control ||
      asked.credit_word.bytes != sizeof(std::uint64_t) ||
      asked.credit_word.offset % sizeof(std::uint64_t) != 0)
    return failure(Code::bad_argument, "attach", "the asker's credit word is malformed", "");
  return attachment.peer->channel->resolve(asked.credit_word);
}

void SlotState::remember_refusal(const Status& status) {
  local_.log->error(Subsystem::slot, "{}", status.text());
  if (spec_.writer != p2p::Writer::peer) return;
  {
    const std::lock_guard lock(refusal_mutex_);
    refusal_ = status;
  }
  refused_.store(true, std::memory_order_release);
  local_.ring();
}

bool SlotState::detach_peer(const p2p::Peer& peer, std::uint64_t remote_id) noexcept {
  for (const auto& attachment : attachments_) {
    if (attachment->peer != &peer || attachment->remote_id != remote_id ||
        !attachment->active.exchange(false))
      continue;
    Attachment* leaver = attachment.get();
    writer_.compare_exchange_strong(leaver, nullptr);
    expect_no_more(*attachment);
    if (closed_) --to_agree_;
    local_.recorder.control(stats::Event::attachment_removed, peer.rank, id_);
    local_.ring();
    if (dynamic() && !closed_ && highest_sequence() > released_.load(std::memory_order_seq_cst)) {
      // The writer keeps what the owner has not read, and is told when it was.
      attachment->leaves_after = highest_sequence();
      draining_.store(true, std::memory_order_seq_cst);
      let_drained_go();
    } else {
      attachment->gate.shut();
    }
    return true;
  }
  return false;
}

void SlotState::credit_wanted(const p2p::Peer& peer, std::uint64_t remote_id) noexcept {
  // A writer that knows of the closing has given its word to somebody else.
  if (closed_) return;
  Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (attachment == nullptr || attachment->peer != &peer || attachment->remote_id != remote_id)
    return;
  local_.recorder.control(stats::Event::credit_on_call, peer.rank, id_);
  // Perhaps there is nothing to report yet: then the next one is not put off.
  wanted_from_.store(released_.load(std::memory_order_seq_cst) + 1, std::memory_order_seq_cst);
  os::heavy_barrier();
  // The application's thread may be reporting too: the last to write must have seen the last value.
  std::uint64_t all = 0;
  do {
    all = released_.load(std::memory_order_seq_cst);
    attachment->peer->channel->put_word(attachment->credit_word, all, p2p::Notify::always);
    counters_.credit_writes_on_demand.add(1);
    p2p::full_barrier();  // the word is out before the count is looked at once more
  } while (released_.load(std::memory_order_seq_cst) != all);
}

int SlotState::begin_close() {
  closed_ = true;
  let_drained_go();
  for (const auto& attachment : attachments_) {
    // One whose rank was declared dead may still write: its end counts as agreement.
    if (!attachment->active.load()) continue;
    ++to_agree_;
    counters_.control_messages.add(1);
    mesh_.send(*attachment->peer, p2p::ClosedMessage{.remote_id = attachment->remote_id});
  }
  return to_agree_;
}

bool SlotState::agreed(const p2p::Peer& peer, std::uint64_t attachment_id) noexcept {
  local_.recorder.control(stats::Event::close_agreed, peer.rank, id_);
  for (const auto& attachment : attachments_)
    if (attachment->id.load(std::memory_order_relaxed) == attachment_id &&
        attachment->peer == &peer && attachment->active.exchange(false)) {
      expect_no_more(*attachment);
      if (closed_) --to_agree_;
    }
  return is_free();
}

bool SlotState::peer_gone(const p2p::Peer& peer) noexcept {
  bool any = false;
  for (const auto& attachment : attachments_) {
    if (attachment->peer != &peer || !attachment->active.exchange(false)) continue;
    any = true;
    expect_no_more(*attachment);
    Attachment* leaver = attachment.get();
    writer_.compare_exchange_strong(leaver, nullptr);
    if (closed_) --to_agree_;
  }
  return any && is_free();
}

void SlotState::count_quarantine(bool enters) noexcept {
  if (!buffers_) return;
  const auto bytes = static_cast<std::int64_t>(buffers_.block().bytes);
  buffers_.arena()->add_quarantine(enters ? bytes : -bytes);
}

}  // namespace weft::detail
