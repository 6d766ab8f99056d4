#include "p2p/slot/put/lending.hpp"

#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {

void pack(const Tensor& tensor, std::byte* to) noexcept {
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

std::optional<MemoryRef> Lending::locate(const Tensor& tensor) const {
  if (!tensor.memory().is_gpu()) return local_.locate(tensor);
  const auto at = local_.gpus->chunk_at(tensor.data(), tensor.extent());
  if (!at) return std::nullopt;
  return MemoryRef{at->chunk, at->offset, tensor.extent()};
}

Lending::Lent Lending::lend(const Channel& channel, const Tensor& tensor, std::uint64_t buffer,
                            OwnedBlock staged) noexcept {
  DynamicRecord& record = this->record(buffer);
  record = {.rank = local_.rank};
  for (std::size_t i = 0; i < tensor.shape().dims(); ++i) record.dim[i] = tensor.shape()[i];
  Held& held = held_at(buffer);
  held = {tensor, {}};
  if (tensor.bytes() == 0) return {};
  if (staged) {
    held = {{}, std::move(staged)};
    record.chunk = held.packed.block().chunk;
    record.offset = held.packed.block().offset;
    return {};
  }
  auto place = tensor.dense() ? locate(tensor) : std::nullopt;
  if (place && sort_of_chunk(place->chunk) == ArenaSort::adopted &&
      !channel.capabilities().peer_reaches_adopted.load())
    place.reset();
  const char* packed_because = nullptr;
  if (!place) {
    try {
      held.packed = OwnedBlock(local_.data, tensor.bytes());
    } catch (...) {
      return {.status = caught_status()};
    }
    if (!tensor.dense())
      packed_because = "an owner reads a dynamic tensor in one piece: strides are packed";
    else
      packed_because = tensor.arena() == local_.adopted.get()
                           ? "the owner's process can't reach adopted memory of this one"
                           : "the tensor lies outside the arena (World::allocate, World::adopt)";
    pack(tensor, held.packed.data());
    held.tensor = {};
    const Block& block = held.packed.block();
    place = MemoryRef{block.chunk, block.offset, tensor.bytes()};
  }
  record.chunk = place->chunk;
  record.offset = place->offset;
  return {.packed_because = packed_because};
}

void Lending::keep_adopted() noexcept {
  for (Held& held : lent_)
    if (held.tensor.arena() == local_.adopted.get())
      (void)new (std::nothrow) Tensor(std::move(held.tensor));  // on purpose: nobody may free it
}

void Lending::keep_records() noexcept {
  (void)new (std::nothrow) OwnedBlock(std::move(records_));  // on purpose
}

}  // namespace weft::p2p
