#include "p2p/slot/put/dynamic_arrivals.hpp"
#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

namespace weft::p2p {

Status DynamicArrivals::find(std::uint64_t sequence, const DynamicRecord& record,
                             const Shape& shape, Deadline until) noexcept {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(spec_.dtype);
  return bytes == 0 ? Status{} : resolve(sequence, record, bytes, until).status();
}

Tensor DynamicArrivals::make_room(const Shape& shape) {
  if (allocate_) return allocate_(spec_.dtype, shape);
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(spec_.dtype);
  const auto& arena = spec_.memory.is_gpu() ? local_.gpus->arena(spec_.memory)
                                            : std::shared_ptr<Arena>(local_.data);
  return {make_storage(arena, bytes), 0, spec_.dtype, shape};
}

Status DynamicArrivals::begin(std::uint64_t sequence, const DynamicRecord& record,
                              const Shape& shape) noexcept {
  try {
    const auto found =
        std::ranges::find_if(held_, [](const auto& held) { return held->sequence == 0; });
    Held* const place =
        found != held_.end() ? found->get() : held_.emplace_back(std::make_unique<Held>()).get();
    place->tensor = make_room(shape);
    if (place->tensor.dtype() != spec_.dtype || !(place->tensor.shape() == shape) ||
        !place->tensor.dense() || lacks_memory(place->tensor))
      return failure(Code::bad_argument,
                     fmt::format("the allocator given made {}{} for {}{}", place->tensor.text(),
                                 lacks_memory(place->tensor) ? " without memory" : "",
                                 name(spec_.dtype), shape.text()),
                     "it must make a dense tensor of just that dtype and shape");
    if (place->tensor.memory().is_gpu())
      local_.gpus->check_parts("wait", std::span(&place->tensor, 1));
    if (!reading_.reading) reading_.reading = std::make_unique<Reading>();
    reading_.record = record;
    reading_.place = place;
    reading_.sequence = sequence;
    return {};
  } catch (const Error& error) {
    return failure(error.code(),
                   fmt::format("no room for {}{} of rank {}: {}", name(spec_.dtype), shape.text(),
                               record.rank, error.detail().message),
                   error.detail().hint);
  } catch (const std::exception& error) {
    return failure(Code::exhausted, error.what(), "the allocator given may throw Error");
  }
}

Status DynamicArrivals::read(Deadline until) noexcept {
  const DynamicRecord& record = reading_.record;
  const std::uint64_t sequence = reading_.sequence;
  Tensor& tensor = reading_.place->tensor;
  if (tensor.bytes() == 0) return {};
  if (reading_.copy) return move_on(until);
  Reading& reading = *reading_.reading;
  if (!reading_.started) {
    const auto from = resolve(sequence, record, tensor.bytes(), until);
    if (!from.ok()) return from.status();
    if (const Status status = start(*from); !status.ok()) return status;
  }
  const auto end =
      await_get(local_.waiter, reading.get, until, [&] { return about(sequence, record.rank); });
  if (!end) {
    local_.recorder.control(stats::Event::timeout, record.rank, id_, sequence);
    return altered(
        failure(Code::timeout,
                formatted("rank {} (host {}) has not answered: its tensor of {} bytes is being "
                          "read{}",
                          record.rank, mesh_.peer(record.rank).host(), tensor.bytes(),
                          mesh_.suspicion(record.rank)),
                "is its process stopped, or its host gone? a longer deadline: WEFT_TIMEOUT"),
        [&](ErrorDetail& detail) {
          detail.peer = record.rank;
          detail.host = mesh_.peer(record.rank).host();
        });
  }
  reading_.started = false;
  if (!end->ok()) {
    return altered(mesh_.disconnected(record.rank, *end, until),
                   [&](ErrorDetail& detail) { detail.slot = spec_.name; });
  }
  counters_.bytes_moved.add(tensor.bytes());
  counters_.work_requests.add(1);
  return reading.landing ? move_on(until) : Status{};
}

Status DynamicArrivals::move_on(Deadline until) noexcept {
  const Tensor& tensor = reading_.place->tensor;
  OwnedBlock& landing = reading_.reading->landing;
  if (tensor.memory().is_host()) {
    std::memcpy(tensor.data(), landing.data(), tensor.bytes());
    counters_.bytes_copied.add(tensor.bytes());
    return {};
  }
  const std::uint64_t sequence = reading_.sequence;
  const int from = reading_.record.rank;
  if (!reading_.copy) {
    try {
      reading_.copy = local_.gpus->unstage(
          "wait", std::make_shared<const OwnedBlock>(std::move(landing)), 0, tensor, {});
    } catch (...) {
      return as_wait(caught_status());
    }
  }
  const auto outcome = wait_for_device(
      local_, [&] { return reading_.copy->poll(); }, until, [&] { return about(sequence, from); });
  if (!outcome)
    return failure(Code::timeout,
                   formatted("the tensor has been read, and {} has not copied it",
                             text_or_empty([&] { return tensor.memory().text(); })),
                   "wait again: the copy goes on");
  reading_.copy.reset();
  if (!outcome->ok()) return as_wait(*outcome);
  gpu_counters_.staged_bytes.add(tensor.bytes());
  gpu_counters_.device_copies.add(1);
  return {};
}

Status DynamicArrivals::start(const RemoteMemory& from) noexcept {
  Channel& channel = *mesh_.peer(reading_.record.rank).channel;
  Reading& reading = *reading_.reading;
  const Tensor& tensor = reading_.place->tensor;
  try {
    // Where the tensor is to lie in memory that no fabric reaches.
    reading.landing = {};
    std::string why;
    const bool is_on_gpu = tensor.memory().is_gpu();
    const bool by_nic = is_on_gpu && channel.reaches_gpu(tensor, &why);
    reading.get.gpu_flushes = by_nic ? &gpu_counters_.gpu_flushes : nullptr;
    by_nic_.store(by_nic, std::memory_order_relaxed);
    if (is_on_gpu && !by_nic && local_.require_gdr)
      return failure(Code::unreachable,
                     fmt::format("WEFT_REQUIRE=gdr: the tensor would be staged: {}{}{}",
                                 cuda::reason_of(way()), why.empty() ? "" : ": ", why),
                     "fix this, or unset WEFT_REQUIRE to take what there is");
    if ((is_on_gpu && !by_nic) || (!is_on_gpu && !channel.capabilities().copies &&
                                   !local_.reachable(tensor.data(), tensor.bytes())))
      reading.landing = OwnedBlock(local_.data, tensor.bytes());
    reading.pieces.assign(
        1, {reading.landing ? reading.landing.data() : tensor.data(), from, tensor.bytes()});
  } catch (const Error& error) {
    return failure(Code::exhausted, error.detail().message, error.detail().hint);
  } catch (const std::bad_alloc&) {
    return failure(Code::exhausted, "no memory for what is to be read", "");
  }
  // A writer that breaks the protocol may name memory of this rank, even that of the tensor.
  const auto to = reinterpret_cast<std::uint64_t>(reading.pieces.front().to);
  if (reading_.record.rank == local_.rank && from.address < to + tensor.bytes() &&
      to < from.address + tensor.bytes())
    return failure(Code::system,
                   "the announced tensor lies where it is to be read to: its writer's memory is "
                   "damaged, or its program breaks the protocol",
                   "end that rank");
  reading.get.pieces = reading.pieces;
  reading_.started = true;
  channel.get(reading.get);
  return {};
}

void DynamicArrivals::end() noexcept {
  reading_.sequence = 0;
  reading_.copy.reset();
  Reading* const reading = reading_.reading.get();
  if (reading == nullptr) return;
  if (std::exchange(reading_.started, false)) {
    reading->tensor = reading_.place->tensor;
    reading->get.gpu_flushes = nullptr;  // nobody will see it
    if (!reading->get.cancel()) return local_.strays.keep(std::move(reading_.reading), id_);
    reading->tensor = {};
  }
  reading->landing = {};
}

const Tensor& DynamicArrivals::finish(bool kept) noexcept {
  Held& place = *reading_.place;
  const std::uint64_t sequence = reading_.sequence;
  end();
  if (kept)
    place.sequence = sequence;
  else
    place.tensor = {};
  return place.tensor;
}

void DynamicArrivals::forget(std::uint64_t sequence) noexcept {
  for (const auto& held : held_) {
    if (held->sequence != sequence) continue;
    held->sequence = 0;
    held->tensor = {};
  }
}

Result<RemoteMemory> DynamicArrivals::resolve(std::uint64_t sequence, const DynamicRecord& record,
                                              std::size_t bytes, Deadline until) noexcept {
  Peer& peer = mesh_.peer(record.rank);
  // A process that is gone has no memory of its own left, and its number may be another's.
  if (sort_of_chunk(record.chunk) == ArenaSort::adopted && peer.gone())
    return as_wait(mesh_.peer_status(record.rank));
  Result<RemoteMemory> found{RemoteMemory{}};
  const auto known = [&] {
    found = peer.channel->resolve({record.chunk, record.offset, bytes});
    return found.ok();
  };
  if (known() || found.code() != Code::unreachable) return found;
  // First sight of a chunk that the writer's arena has grown by.
  local_.progress.post([&mesh = mesh_, &peer, chunk = record.chunk] {
    mesh.send(peer, ChunkWantedMessage{.chunk = chunk});
  });
  const WaitEnd end = local_.waiter.wait(
      known, [&] { return peer.gone(); }, until, [&] { return about(sequence, record.rank); });
  if (end == WaitEnd::ready || found.code() != Code::unreachable) return found;
  if (end == WaitEnd::broken) return as_wait(mesh_.peer_status(record.rank));
  ErrorDetail detail = found.status().detail();
  local_.recorder.control(stats::Event::timeout, record.rank, id_, sequence);
  detail.code = Code::timeout;
  detail.message += mesh_.suspicion(record.rank);
  return as_wait(Status(std::move(detail)));
}

Status DynamicArrivals::as_wait(const Status& status) const noexcept {
  return altered(status, [&](ErrorDetail& detail) {
    detail.operation = "wait";
    detail.slot = spec_.name;
  });
}

Status DynamicArrivals::failure(Code code, std::string_view message,
                                std::string_view hint) const noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = "wait",
                       .message = std::string(message),
                       .hint = std::string(hint),
                       .rank = local_.rank,
                       .slot = spec_.name};
  });
}

}  // namespace weft::p2p
