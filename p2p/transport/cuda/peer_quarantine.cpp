#include "p2p/transport/cuda/peer_quarantine.hpp"

#include <utility>

#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::cuda {

PeerQuarantine::PeerQuarantine(const Gpus& gpus, std::shared_ptr<Log> log)
    : gpus_(gpus), log_(std::move(log)) {}

void PeerQuarantine::tell(int rank, std::uint32_t chunk) {
  const std::lock_guard lock(mutex_);
  told_[rank].insert(chunk);
}

std::set<std::uint32_t> PeerQuarantine::take(int rank) {
  const std::lock_guard lock(mutex_);
  auto entry = told_.extract(rank);
  return entry.empty() ? std::set<std::uint32_t>() : std::move(entry.mapped());
}

bool PeerQuarantine::begin(int rank) noexcept {
  std::uint64_t bytes = 0;
  try {
    for (const std::uint32_t number : take(rank)) {
      const auto chunk = gpus_.chunk(number);
      if (!chunk || !chunk->gpu->under_mps()) continue;
      chunk->arena->seal(number);
      bytes += chunk->arena->chunk_bytes(number);
    }
    if (bytes != 0 && log_ != nullptr)
      log_->warn(Subsystem::arena,
                 "rank {} died under MPS, where its GPU may go on writing: {} bytes of GPU memory "
                 "that it had mapped stay with those who use them now, and then in quarantine",
                 rank, bytes);
  } catch (...) {
    return bytes != 0;  // no memory for the line
  }
  return bytes != 0;
}

bool PeerQuarantine::holds(std::uint32_t chunk) const {
  const auto there = gpus_.chunk(chunk);
  return there && there->arena->is_sealed(chunk);
}

}  // namespace weft::p2p::cuda
