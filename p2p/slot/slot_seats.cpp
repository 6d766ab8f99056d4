// Who sits at a slot: attach, detach and teardown, on the owner's progress thread.
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
  if (asked.take_declared == 0 && !p2p::same_contract(spec_, *expected)) {
    const Status status(ErrorDetail{
        .code = Code::mismatch,
        .operation = "attach",
        .message =
            fmt::format("rank {} (host {}) expects {}; the owner, rank {} (host {}), exposes {}",
                        peer.rank, peer.host(), p2p::describe(*expected), local_.rank,
                        mesh_.peer(local_.rank).host(), p2p::describe(spec_)),
        .hint = "give both ends the same SlotSpec",
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
  Seat& seat = free_seat(peer);
  seat.remote_id = asked.remote_id;
  const Status status = spec_.writer == Writer::peer ? admit_writer(seat, asked, granted)
                                                     : admit_reader(seat, asked, granted);
  if (!status.ok()) return status;
  // What came before this writer lies in the slot's own memory, not in the stage.
  if (stage_) {
    std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    staged_after_.compare_exchange_strong(none, granted.sequence);
  }
  granted.remote_id = asked.remote_id;
  granted.slot_id = id_;
  granted.seat_id = seat.id.load(std::memory_order_relaxed);
  granted.spec = p2p::to_wire(spec_);
  counters_.control_messages.add(1);
  row_.set_fabric(peer.channel->fabric());
  local_.recorder.control(board::Event::seated, peer.rank, id_, granted.sequence);
  return {};
}

Seat& SlotState::free_seat(p2p::Peer& peer) {
  // Only a seat of the same peer: the application's thread may still look at whose it was.
  const auto left = std::ranges::find_if(seats_, [&](const auto& seat) {
    return seat->peer == &peer && !seat->active.load() && seat->gate.is_drained();
  });
  if (left != seats_.end()) return **left;
  Seat& seat = *seats_.emplace_back(std::make_unique<Seat>());
  seat.peer = &peer;
  // What runs when the last credit write to a remote end that left is done.
  seat.gate.on_drained([&local = local_, &mesh = mesh_, &seat] {
    local.progress.post([&mesh, &peer = *seat.peer, id = seat.remote_id] {
      mesh.send(peer, p2p::DetachedMessage{.remote_id = id});
    });
  });
  return seat;
}

void SlotState::seat(Seat& seat) noexcept {
  seat.id.store(next_seat_++, std::memory_order_relaxed);
  seat.leaves_after = 0;
  seat.active.store(true, std::memory_order_release);
  seat.gate.open();
}

Status SlotState::writer_taken(const p2p::Peer& peer) const {
  const Seat* holder = writer_.load(std::memory_order_acquire);
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
  if (stage_ || stride_ == 0 || memory_.empty() || peer.channel->adopted_reach().by_peer ||
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

Status SlotState::admit_writer(Seat& seat, const AttachMessage& asked, AttachedMessage& granted) {
  const auto word = resolve_credit_word(seat, asked);
  if (!word.ok()) return word.status();
  seat.credit_word = *word;
  granted.sequence = highest_sequence();
  expect_puts(seat, granted);
  last_writer_.store(seat.peer->rank, std::memory_order_release);
  row_.set_peer(seat.peer->rank);
  seat.let_go_at_attach = let_go_.load(std::memory_order_acquire);
  this->seat(seat);
  writer_.store(&seat, std::memory_order_seq_cst);
  // What the owner let go before it could see the seat is not reported again: told here.
  granted.let_go = let_go_.load(std::memory_order_seq_cst);
  return {};
}

Status SlotState::admit_reader(Seat& seat, const AttachMessage& asked, AttachedMessage& granted) {
  const auto word = resolve_credit_word(seat, asked);
  if (!word.ok()) return word.status();
  seat.credit_word = *word;
  // Where this rank can't load from the reader's memory, the reader can't load from here.
  seat.wants_newest = seat.peer->channel->direct(*word) == nullptr;
  const std::size_t bytes = p2p::ReaderWords::bytes(spec_.depth);
  const bool is_new = !seat.words_block;
  if (is_new) seat.words_block = p2p::OwnedBlock(local_.control, bytes);
  seat.words().clear(spec_.depth);
  if (!mesh_.share(*seat.peer, seat.words_block.block().chunk)) return not_shared(*seat.peer);
  const std::uint64_t version = p2p::Newest::of(published_words_.newest().load()).version;
  seat.words().let_go().store(version == 0 ? 0 : version - 1);
  this->seat(seat);
  if (is_new) {
    seat.next = readers_.load(std::memory_order_relaxed);
    readers_.store(&seat, std::memory_order_seq_cst);
  }
  // What is published from here on is announced to it.
  granted.newest = published_words_.newest().load(std::memory_order_seq_cst);
  granted.sequence = seat.words().let_go().load();
  if (spec_.flow != Flow::credits) {
    // The owner may have looked at the readers before this one was there, and be filling a buffer:
    // what lies in it is not for this reader.
    const std::uint64_t writing = writing_.load(std::memory_order_seq_cst);
    const std::uint64_t overwritten = writing > spec_.depth ? writing - spec_.depth : 0;
    granted.sequence = std::max(granted.sequence, overwritten);
    seat.words().let_go().store(granted.sequence, std::memory_order_seq_cst);
  }
  local_.ring();
  const p2p::Block& block = seat.words_block.block();
  granted.reader_words = {block.chunk, block.offset, bytes};
  return {};
}

Result<p2p::RemoteMemory> SlotState::resolve_credit_word(const Seat& seat,
                                                         const AttachMessage& asked) const {
  if (p2p::sort_of_chunk(asked.credit_word.chunk) != p2p::ArenaSort::control ||
      asked.credit_word.bytes != sizeof(std::uint64_t) ||
      asked.credit_word.offset % sizeof(std::uint64_t) != 0)
    return failure(Code::bad_argument, "attach", "the asker's credit word is malformed", "");
  return seat.peer->channel->resolve(asked.credit_word);
}

void SlotState::remember_refusal(const Status& status) {
  local_.log->error(Subsystem::slot, "{}", status.text());
  if (spec_.writer != Writer::peer) return;
  {
    const std::lock_guard lock(refusal_mutex_);
    refusal_ = status;
  }
  refused_.store(true, std::memory_order_release);
  local_.ring();
}

bool SlotState::unseat(const p2p::Peer& peer, std::uint64_t remote_id) noexcept {
  for (const auto& seat : seats_) {
    if (seat->peer != &peer || seat->remote_id != remote_id || !seat->active.exchange(false))
      continue;
    Seat* leaver = seat.get();
    writer_.compare_exchange_strong(leaver, nullptr);
    expect_no_more(*seat);
    if (closed_) --to_agree_;
    local_.recorder.control(board::Event::unseated, peer.rank, id_);
    local_.ring();
    if (dynamic() && !closed_ && highest_sequence() > let_go_.load(std::memory_order_seq_cst)) {
      // The writer keeps what the owner has not read, and is told when it was.
      seat->leaves_after = highest_sequence();
      draining_.store(true, std::memory_order_seq_cst);
      let_drained_go();
    } else {
      seat->gate.shut();
    }
    return true;
  }
  return false;
}

void SlotState::credit_wanted(const p2p::Peer& peer, std::uint64_t remote_id) noexcept {
  // A writer that knows of the closing has given its word to somebody else.
  if (closed_) return;
  Seat* seat = writer_.load(std::memory_order_acquire);
  if (seat == nullptr || seat->peer != &peer || seat->remote_id != remote_id) return;
  local_.recorder.control(board::Event::credit_on_call, peer.rank, id_);
  // Perhaps there is nothing to report yet: then the next one is not put off.
  wanted_from_.store(let_go_.load(std::memory_order_seq_cst) + 1, std::memory_order_seq_cst);
  os::heavy_barrier();
  // The application's thread may be reporting too: the last to write must have seen the last value.
  std::uint64_t all = 0;
  do {
    all = let_go_.load(std::memory_order_seq_cst);
    seat->peer->channel->write_word(seat->credit_word, all, p2p::Bell::always_rings);
    counters_.credit_writes_on_demand.add(1);
    p2p::full_barrier();  // the word is out before the count is looked at once more
  } while (let_go_.load(std::memory_order_seq_cst) != all);
}

int SlotState::begin_close() {
  closed_ = true;
  let_drained_go();
  for (const auto& seat : seats_) {
    // One whose rank was declared dead may still write: its end counts as agreement.
    if (!seat->active.load()) continue;
    ++to_agree_;
    counters_.control_messages.add(1);
    mesh_.send(*seat->peer, p2p::ClosedMessage{.remote_id = seat->remote_id});
  }
  return to_agree_;
}

bool SlotState::agreed(const p2p::Peer& peer, std::uint64_t seat_id) noexcept {
  local_.recorder.control(board::Event::close_agreed, peer.rank, id_);
  for (const auto& seat : seats_)
    if (seat->id.load(std::memory_order_relaxed) == seat_id && seat->peer == &peer &&
        seat->active.exchange(false)) {
      expect_no_more(*seat);
      if (closed_) --to_agree_;
    }
  return is_free();
}

bool SlotState::peer_gone(const p2p::Peer& peer) noexcept {
  bool any = false;
  for (const auto& seat : seats_) {
    if (seat->peer != &peer || !seat->active.exchange(false)) continue;
    any = true;
    expect_no_more(*seat);
    Seat* leaver = seat.get();
    writer_.compare_exchange_strong(leaver, nullptr);
    if (closed_) --to_agree_;
  }
  return any && is_free();
}

void SlotState::count_limbo(bool enters) noexcept {
  if (!buffers_) return;
  const auto bytes = static_cast<std::int64_t>(buffers_.block().bytes);
  buffers_.arena()->add_limbo(enters ? bytes : -bytes);
}

}  // namespace weft::detail
