// Arrivals of a dynamic slot: the record says what and where, the owner makes room and reads.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "p2p/memory/copy_once.hpp"
#include "p2p/slot/grant.hpp"
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
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (being_read_.sequence != wanted)
    if (Status status = begin_dynamic(wanted, until); !status.ok()) return status;
  Dynamic& place = *being_read_.place;
  const int from = being_read_.record.rank;
  if (const Status status = read_announced(until); !status.ok()) {
    // A late read goes on; the next wait resumes it.
    if (status.code() == Code::timeout) return status;
    end_reading();
    place.tensor = {};
    // A read that may succeed later stays pending. One that never can is reported once and skipped.
    if (status.code() != Code::exhausted) pass(wanted);
    return status;
  }
  end_reading();
  place.sequence = wanted;
  pass(wanted);
  counters_.transfers.add(1);
  local_.recorder.data(stats::Event::arrived, from, id_, wanted);
  return SlotAccess::received(static_cast<PutOwner&>(*this), place.tensor, wanted);
}

Status SlotState::begin_dynamic(std::uint64_t wanted, Deadline until) noexcept {
  end_reading();
  DynamicRecord& record = being_read_.record;
  const p2p::TailBuffers* tails = arrived_with_tail(wanted);
  const std::byte* lies =
      stride_ == 0 ? line(buffer_).payload : buffers_.data() + buffer_ * stride_;
  // Copied first: the writer can still write what it has put.
  std::memcpy(&record, tails == nullptr ? lies : tails->payload(buffer_), bytes_);
  record = p2p::copy_once<DynamicRecord>(&record);
  const auto announced = p2p::shape_of(record, spec_.shape.dims(), local_.size);
  if (!announced) {
    const int writer = last_writer_.load(std::memory_order_acquire);
    pass(wanted);
    ErrorDetail detail =
        failure(Code::system, "wait",
                fmt::format("rank {} announced a tensor that can't be one", writer),
                "this is a defect of weft: please report it with WEFT_LOG=debug")
            .detail();
    detail.peer = writer;
    return Status(std::move(detail));
  }
  const Shape& shape = *announced;
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(spec_.dtype);
  // Before room is made: of what lies nowhere no size is believed.
  if (const Status found = bytes == 0 ? Status{} : find(record, bytes, until).status();
      !found.ok()) {
    if (found.code() != Code::timeout) pass(wanted);
    return found;
  }
  try {
    const auto found =
        std::ranges::find_if(dynamics_, [](const auto& held) { return held->sequence == 0; });
    Dynamic* const place = found != dynamics_.end()
                               ? found->get()
                               : dynamics_.emplace_back(std::make_unique<Dynamic>()).get();
    place->tensor = allocate_
                        ? allocate_(spec_.dtype, shape)
                        : Tensor(p2p::make_storage(local_.data, bytes), 0, spec_.dtype, shape);
    if (place->tensor.dtype() != spec_.dtype || !(place->tensor.shape() == shape) ||
        !place->tensor.dense())
      return failure(Code::bad_argument, "wait",
                     fmt::format("the allocator given made {} for {}{}", place->tensor.text(),
                                 name(spec_.dtype), shape.text()),
                     "it must make a dense tensor of just that dtype and shape");
    if (!being_read_.reading) being_read_.reading = std::make_unique<p2p::Reading>();
    being_read_.place = place;
    being_read_.sequence = wanted;
    return {};
  } catch (const Error& error) {
    return failure(error.code(), "wait",
                   fmt::format("no room for {}{} of rank {}: {}", name(spec_.dtype), shape.text(),
                               record.rank, error.detail().message),
                   error.detail().hint);
  } catch (const std::exception& error) {
    return failure(Code::exhausted, "wait", error.what(), "the allocator given may throw Error");
  }
}

void SlotState::pass(std::uint64_t sequence) noexcept {
  received_ = sequence;
  buffer_ = buffer_ + 1 == spec_.depth ? 0 : buffer_ + 1;
  released_.store(sequence, std::memory_order_seq_cst);
  write_credit(1, p2p::Notify::always);
  if (draining_.load(std::memory_order_seq_cst)) [[unlikely]]
    local_.progress.post([self = table_.shared(*this)] {
      if (self) self->let_drained_go();
    });
}

Status SlotState::read_announced(Deadline until) noexcept {
  const DynamicRecord& record = being_read_.record;
  Tensor& tensor = being_read_.place->tensor;
  if (tensor.bytes() == 0) return {};
  p2p::Reading& reading = *being_read_.reading;
  if (!being_read_.started) {
    const auto from = find(record, tensor.bytes(), until);
    if (!from.ok()) return from.status();
    if (const Status status = start_reading(*from); !status.ok()) return status;
  }
  const auto end =
      await_get(local_.waiter, reading.get, until, [&] { return waits_for(received_ + 1); });
  if (!end) {
    local_.recorder.control(stats::Event::timeout, record.rank, id_, received_ + 1);
    ErrorDetail detail =
        failure(Code::timeout, "wait",
                fmt::format("rank {} (host {}) has not answered: its tensor of {} bytes is being "
                            "read{}",
                            record.rank, mesh_.peer(record.rank).host(), tensor.bytes(),
                            mesh_.suspicion(record.rank)),
                "is its process stopped, or its host gone? a longer deadline: WEFT_TIMEOUT")
            .detail();
    detail.peer = record.rank;
    detail.host = mesh_.peer(record.rank).host();
    return Status(std::move(detail));
  }
  being_read_.started = false;
  if (!end->ok()) {
    ErrorDetail detail = mesh_.disconnected(record.rank, *end).detail();
    detail.slot = spec_.name;
    return Status(std::move(detail));
  }
  if (reading.landing) {
    std::memcpy(tensor.data(), reading.landing.data(), tensor.bytes());
    counters_.bytes_copied.add(tensor.bytes());
  }
  counters_.bytes_moved.add(tensor.bytes());
  counters_.work_requests.add(1);
  return {};
}

Status SlotState::start_reading(const p2p::RemoteMemory& from) noexcept {
  p2p::Channel& channel = *mesh_.peer(being_read_.record.rank).channel;
  p2p::Reading& reading = *being_read_.reading;
  const Tensor& tensor = being_read_.place->tensor;
  try {
    // Where the allocator given made memory that no fabric reaches.
    reading.landing = {};
    if (!channel.capabilities().copies && !local_.reachable(tensor.data(), tensor.bytes()))
      reading.landing = p2p::OwnedBlock(local_.data, tensor.bytes());
    reading.pieces.assign(
        1, {reading.landing ? reading.landing.data() : tensor.data(), from, tensor.bytes()});
  } catch (const Error& error) {
    return failure(Code::exhausted, "wait", error.detail().message, error.detail().hint);
  } catch (const std::bad_alloc&) {
    return failure(Code::exhausted, "wait", "no memory for what is to be read", "");
  }
  reading.get.pieces = reading.pieces;
  being_read_.started = true;
  channel.get(reading.get);
  return {};
}

void SlotState::end_reading() noexcept {
  being_read_.sequence = 0;
  p2p::Reading* const reading = being_read_.reading.get();
  if (reading == nullptr) return;
  if (std::exchange(being_read_.started, false)) {
    reading->tensor = being_read_.place->tensor;
    if (!reading->get.cancel()) return local_.strays.keep(std::move(being_read_.reading), id_);
    reading->tensor = {};
  }
  reading->landing = {};
}

Result<p2p::RemoteMemory> SlotState::find(const DynamicRecord& record, std::size_t bytes,
                                          Deadline deadline) noexcept {
  p2p::Peer& peer = mesh_.peer(record.rank);
  // A process that is gone has no memory of its own left, and its number may be another's.
  if (p2p::sort_of_chunk(record.chunk) == p2p::ArenaSort::adopted && peer.gone()) {
    ErrorDetail detail = mesh_.peer_status(record.rank).detail();
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
      end == WaitEnd::broken ? mesh_.peer_status(record.rank).detail() : found.status().detail();
  if (end == WaitEnd::timeout) {
    local_.recorder.control(stats::Event::timeout, record.rank, id_, received_ + 1);
    detail.code = Code::timeout;
    detail.message += mesh_.suspicion(record.rank);
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
  for (const auto& attachment : attachments_) {
    if (attachment->leaves_after == 0) continue;
    if (released_.load(std::memory_order_seq_cst) >= attachment->leaves_after || closed_) {
      attachment->leaves_after = 0;
      attachment->gate.shut();
    } else {
      some = true;
    }
  }
  draining_.store(some, std::memory_order_seq_cst);
}

}  // namespace weft::detail
