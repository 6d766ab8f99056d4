#include "p2p/slot/put/gpu_sources.hpp"

#include <utility>

#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {

void GpuSources::begin(std::uint64_t ticket, std::span<const Tensor> parts, OwnedBlock block,
                       const cuda::StreamPoint* after) {
  Copy& copy = at(ticket);
  copy = {};
  copy.copy = local_.gpus->stage("put", parts, std::move(block), after);
  copy.ticket = ticket;
}

void GpuSources::begin_chunks(std::uint64_t ticket, std::span<const Tensor> parts,
                              const std::shared_ptr<const OwnedBlock>& block, std::size_t chunk,
                              const cuda::StreamPoint* after) {
  Copy& copy = at(ticket);
  copy = {};
  copy.copy = local_.gpus->stage("put", parts, block, 0, chunk, after);
  copy.chunks = block;
  copy.ticket = ticket;
}

OwnedBlock GpuSources::take(std::uint64_t ticket) noexcept {
  OwnedBlock block = at(ticket).copy.take_block();
  at(ticket) = {};
  return block;
}

}  // namespace weft::p2p
