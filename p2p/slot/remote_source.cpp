// What a put moves: memory as it lies, or a copy of it where the fabric can't reach it.
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "p2p/slot/grant.hpp"
#include "p2p/slot/remote_slot_state.hpp"

namespace weft::detail {
namespace {

void pack(const Tensor& tensor, std::byte* to) noexcept {
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

}  // namespace

bool RemoteSlotState::reachable_outside(const Tensor& tensor) const noexcept {
  if (tensor.bytes() == 0) return true;
  if (tensor.arena() == local_.adopted.get())
    return owner_.channel->capabilities().copies ||
           owner_.channel->capabilities().peer_reaches_adopted.load();
  return local_.reachable(tensor.data(), tensor.extent());
}

void RemoteSlotState::say_staged(const char* why) noexcept {
  if (said_staged_) return;
  said_staged_ = true;
  local_.recorder.control(stats::Event::staged_put, owner_.rank, id_, bytes_);
  local_.log->info(Subsystem::slot, "puts into slot \"{}\" of rank {} are staged: {}", spec_.name,
                   owner_.rank, why);
}

Status RemoteSlotState::gather(Moving moving, p2p::PutWork& work) noexcept {
  bool reached = true;
  for (const Tensor& part : moving.parts) reached = reached && reachable(part);
  if (reached) {
    work.parts = moving.parts;
    return {};
  }
  work.source = pack_.data();
  if (moving.ticket != 0 && prepared_ == moving.ticket) return {};
  if (const Status status = make_pack(); !status.ok()) return status;
  work.source = pack_.data();
  std::byte* to = pack_.data();
  for (const Tensor& part : moving.parts) {
    pack(part, to);
    to += part.bytes();
  }
  counters_.bytes_copied.add(static_cast<std::uint64_t>(to - pack_.data()));
  return {};
}

Status RemoteSlotState::make_pack() noexcept {
  if (!pack_) pack_ = in_flight_.take_pack();
  if (pack_) return {};
  try {
    pack_ = p2p::OwnedBlock(local_.staging, bytes_);
  } catch (const Error& error) {
    return failure(Code::exhausted, "put", error.detail().message, error.detail().hint);
  }
  say_staged("the tensor lies outside the arena (World::allocate, World::adopt)");
  return {};
}

Status RemoteSlotState::announce(Moving moving, p2p::PutWork& work) noexcept {
  p2p::DynamicRecord& record = record_of(index_);
  work.source = reinterpret_cast<const std::byte*>(&record);
  return prepared_ == moving.ticket ? Status{} : lend(moving.parts.front(), record);
}

Status RemoteSlotState::lend(const Tensor& tensor, p2p::DynamicRecord& record) noexcept {
  record = {.rank = local_.rank};
  for (std::size_t i = 0; i < tensor.shape().dims(); ++i) record.dim[i] = tensor.shape()[i];
  Lent& lent = lent_[index_];
  lent = {tensor, {}};
  if (tensor.bytes() == 0) return {};
  auto place = tensor.dense() ? local_.locate(tensor) : std::nullopt;
  if (place && p2p::sort_of_chunk(place->chunk) == p2p::ArenaSort::adopted &&
      !owner_.channel->capabilities().peer_reaches_adopted.load())
    place.reset();
  if (!place) {
    try {
      lent.packed = p2p::OwnedBlock(local_.data, tensor.bytes());
    } catch (const Error& error) {
      return error.status();
    }
    if (!tensor.dense())
      say_staged("an owner reads a dynamic tensor in one piece: strides are packed");
    else
      say_staged(tensor.arena() == local_.adopted.get()
                     ? "the owner's process can't reach adopted memory of this one"
                     : "the tensor lies outside the arena (World::allocate, World::adopt)");
    pack(tensor, lent.packed.data());
    lent.tensor = {};
    counters_.bytes_copied.add(tensor.bytes());
    const p2p::Block& block = lent.packed.block();
    place = p2p::MemoryRef{block.chunk, block.offset, tensor.bytes()};
  }
  record.chunk = place->chunk;
  record.offset = place->offset;
  return {};
}

void RemoteSlotState::take_back_lent() noexcept {
  const std::uint64_t all = known_released_.load(std::memory_order_relaxed);
  for (; taken_back_ < all; ++taken_back_) lent_[taken_back_ % spec_.depth] = {};
}

/// A request of a dynamic slot has ended once the owner has read the tensor.
bool RemoteSlotState::read_by_owner(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_mutex_);
  if (done_ticket_.load(std::memory_order_relaxed) < ticket) drain();
  return is_read(ticket);
}

bool RemoteSlotState::is_read(std::uint64_t ticket) noexcept {
  const Pending& pending = (*pending_)[ticket % kMaxPending];
  if (pending.ticket != ticket || pending.cancelled || !pending.outcome.ok()) return true;
  if (done_ticket_.load(std::memory_order_relaxed) < ticket) return false;
  // Looked at before the word: what the owner has read before it closed its end counts as read.
  const bool is_over = gate_.is_shut() || owner_.gone();
  const std::uint64_t word = credit_word().load(std::memory_order_seq_cst);
  if (word > known_released_.load(std::memory_order_relaxed) &&
      p2p::is_credible(word, sent_.load()))
    known_released_.store(word, std::memory_order_relaxed);
  take_back_lent();
  if (taken_back_ >= pending.sequence) return true;
  // Nobody reads what lies there any more.
  Status why = is_over ? usable("put") : Status{};
  if (why.ok()) return false;
  (*pending_)[ticket % kMaxPending].outcome = std::move(why);
  return true;
}

}  // namespace weft::detail
