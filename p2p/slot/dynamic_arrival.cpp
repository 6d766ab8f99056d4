// Arrivals of a dynamic slot: the record says what and where, the owner makes room and reads.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "p2p/slot/slot_state.hpp"
#include "p2p/slot/slot_table.hpp"

namespace weft::detail {

using p2p::DynamicRecord;
using p2p::WaitEnd;

void SlotState::allocate_with(AllocateTensor allocate) {
  if (!dynamic())
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "allocate_with",
                            .message = "this slot's tensors lie in its own buffers",
                            .hint = "expose it with Placement::dynamic",
                            .slot = spec_.name});
  allocate_ = std::move(allocate);
}

Result<Arrival> SlotState::read_dynamic(std::uint64_t wanted, Deadline deadline) noexcept {
  DynamicRecord record;
  const p2p::TailBuffers* tails = arrived_with_tail(wanted);
  const std::byte* lies =
      stride_ == 0 ? line(buffer_).payload : buffers_.data() + buffer_ * stride_;
  std::memcpy(&record, tails == nullptr ? lies : tails->payload(buffer_), bytes_);
  Dynamic* place = nullptr;
  try {
    const auto found =
        std::ranges::find_if(dynamics_, [](const auto& held) { return held->sequence == 0; });
    place = found != dynamics_.end() ? found->get()
                                     : dynamics_.emplace_back(std::make_unique<Dynamic>()).get();
    const Shape shape(std::span<const std::int64_t>(record.dim.data(), spec_.shape.dims()));
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(spec_.dtype);
    place->tensor = allocate_
                        ? allocate_(spec_.dtype, shape)
                        : Tensor(p2p::make_storage(local_.data, bytes), 0, spec_.dtype, shape);
    if (place->tensor.dtype() != spec_.dtype || !(place->tensor.shape() == shape) ||
        !place->tensor.dense())
      return failure(Code::bad_argument, "wait",
                     fmt::format("the allocator given made {} for {}{}", place->tensor.text(),
                                 name(spec_.dtype), shape.text()),
                     "it must make a dense tensor of just that dtype and shape");
  } catch (const Error& error) {
    return failure(error.code(), "wait", error.detail().message, error.detail().hint);
  } catch (const std::exception& error) {
    return failure(Code::exhausted, "wait", error.what(), "the allocator given may throw Error");
  }
  if (const Status status = read_record(record, place->tensor, deadline); !status.ok()) {
    place->tensor = {};
    // What may be tried again waits on. What can't ever be read is told once, and passed over.
    if (status.code() != Code::timeout && status.code() != Code::exhausted) pass(wanted);
    return status;
  }
  place->sequence = wanted;
  pass(wanted);
  counters_.transfers.add(1);
  local_.recorder.data(board::Event::arrived, record.rank, id_, wanted);
  Arrival arrival;
  arrival.tensor_ = &place->tensor;
  arrival.sequence_ = wanted;
  arrival.slot_ = this;
  return arrival;
}

void SlotState::pass(std::uint64_t sequence) noexcept {
  received_ = sequence;
  buffer_ = buffer_ + 1 == spec_.depth ? 0 : buffer_ + 1;
  let_go_.store(sequence, std::memory_order_seq_cst);
  write_credit(1, p2p::Bell::always_rings);
  if (draining_.load(std::memory_order_seq_cst)) [[unlikely]]
    local_.progress.post([self = table_.shared(*this)] {
      if (self) self->let_drained_go();
    });
}

Status SlotState::read_record(const DynamicRecord& record, Tensor& tensor,
                              Deadline deadline) noexcept {
  if (tensor.bytes() == 0) return {};
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const auto from = find(record, tensor.bytes(), until);
  if (!from.ok()) return from.status();
  p2p::Channel& channel = *mesh_.peer(record.rank).channel;
  p2p::OwnedBlock stopover;  // where the allocator given made memory that no fabric reaches
  if (!channel.copies() && !local_.reachable(tensor.data(), tensor.bytes())) {
    try {
      stopover = p2p::OwnedBlock(local_.data, tensor.bytes());
    } catch (const Error& error) {
      return failure(Code::exhausted, "wait", error.detail().message, error.detail().hint);
    }
  }
  const p2p::GetWork whole{stopover ? stopover.data() : tensor.data(), *from, tensor.bytes()};
  if (const Status status = channel.get(std::span(&whole, 1)); !status.ok()) {
    ErrorDetail detail = mesh_.broken_off(record.rank, status).detail();
    detail.slot = spec_.name;
    return Status(std::move(detail));
  }
  if (stopover) {
    std::memcpy(tensor.data(), stopover.data(), tensor.bytes());
    counters_.bytes_copied.add(tensor.bytes());
  }
  counters_.bytes_moved.add(tensor.bytes());
  counters_.work_requests.add(1);
  return {};
}

Result<p2p::RemoteMemory> SlotState::find(const DynamicRecord& record, std::size_t bytes,
                                          Deadline deadline) noexcept {
  if (record.rank < 0 || record.rank >= local_.size)
    return failure(
        Code::system, "wait",
        fmt::format("a tensor of rank {} was announced, in a job of {}", record.rank, local_.size),
        "this is a defect of weft: please report it with WEFT_LOG=debug");
  p2p::Peer& peer = mesh_.peer(record.rank);
  // A process that is gone has no memory of its own left, and its number may be another's.
  if (p2p::sort_of_chunk(record.chunk) == p2p::ArenaSort::adopted && peer.gone()) {
    ErrorDetail detail = mesh_.fate(record.rank).detail();
    detail.operation = "wait";
    detail.slot = spec_.name;
    return Status(std::move(detail));
  }
  Result<p2p::RemoteMemory> found{p2p::RemoteMemory{}};
  const auto known = [&] {
    found = peer.channel->resolve({record.chunk, record.offset, bytes});
    return found.ok();
  };
  if (known() || found.code() != Code::unreachable) return found;
  // First sight of a chunk that the writer's arena has grown by.
  local_.progress.post([&mesh = mesh_, &peer, chunk = record.chunk] {
    mesh.send(peer, p2p::ChunkWantedMessage{.chunk = chunk});
  });
  const WaitEnd end = local_.waiter.wait(
      known, [&] { return peer.gone(); }, deadline, [&] { return waits_for(received_ + 1); });
  if (end == WaitEnd::ready || found.code() != Code::unreachable) return found;
  ErrorDetail detail =
      end == WaitEnd::broken ? mesh_.fate(record.rank).detail() : found.status().detail();
  if (end == WaitEnd::timeout) {
    local_.recorder.control(board::Event::timeout, record.rank, id_, received_ + 1);
    detail.code = Code::timeout;
  }
  detail.operation = "wait";
  detail.slot = spec_.name;
  return Status(std::move(detail));
}

void SlotState::forget_dynamic(std::uint64_t sequence) noexcept {
  for (const auto& held : dynamics_) {
    if (held->sequence != sequence) continue;
    held->sequence = 0;
    held->tensor = {};
  }
}

void SlotState::let_drained_go() noexcept {
  bool some = false;
  for (const auto& seat : seats_) {
    if (seat->leaves_after == 0) continue;
    if (let_go_.load(std::memory_order_seq_cst) >= seat->leaves_after || closed_) {
      seat->leaves_after = 0;
      seat->gate.shut();
    } else {
      some = true;
    }
  }
  draining_.store(some, std::memory_order_seq_cst);
}

}  // namespace weft::detail
