// Memory that a dead rank's GPU may still write.
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::cuda {

bool Gpus::quarantine_after(int rank) noexcept {
  std::uint64_t bytes = 0;
  try {
    for (const std::uint32_t number : told.take(rank)) {
      const auto there = chunk(number);
      if (!there || !there->gpu->under_mps()) continue;
      there->arena->seal(number);
      bytes += there->arena->chunk_bytes(number);
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

bool Gpus::is_in_quarantine(std::uint32_t chunk) const {
  const auto arena = arena_with(chunk);
  return arena != nullptr && arena->is_sealed(chunk);
}

}  // namespace weft::p2p::cuda
