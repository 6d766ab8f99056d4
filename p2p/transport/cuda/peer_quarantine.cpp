#include "p2p/transport/cuda/peer_quarantine.hpp"

#include <algorithm>
#include <utility>

#include "p2p/transport/cuda/gpu.hpp"

namespace weft::p2p::cuda {

PeerQuarantine::PeerQuarantine(std::shared_ptr<Log> log) : log_(std::move(log)) {}

void PeerQuarantine::tell(int rank, const GpuChunk& chunk) {
  Told told{.arena = chunk.arena, .bytes = chunk.bytes(), .under_mps = chunk.gpu->under_mps()};
  const std::lock_guard lock(mutex_);
  told_[rank].try_emplace(chunk.chunk, std::move(told));
}

bool PeerQuarantine::begin(int rank, RankEnd end) noexcept {
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = told_.find(rank);
    if (entry == told_.end()) return false;
    for (auto& [number, told] : entry->second) {
      if (end == RankEnd::died && !told.under_mps) continue;
      told.arena->seal(number);
      told.is_held = true;
      bytes += told.bytes;
    }
  }
  if (bytes != 0 && log_ != nullptr) try {
      log_->warn(Subsystem::arena,
                 "rank {} {}, and its GPU may go on writing: chunks of {} bytes on GPUs that it "
                 "had mapped stay with those who use them now, and then in quarantine, and so does "
                 "control memory",
                 rank, end == RankEnd::died ? "died under MPS" : "has left while its GPU works",
                 bytes);
    } catch (...) {
      return true;  // no memory for the line
    }
  return bytes != 0;
}

bool PeerQuarantine::holds(int rank, std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  const auto entry = told_.find(rank);
  if (entry == told_.end()) return false;
  const auto told = entry->second.find(chunk);
  return told != entry->second.end() && told->second.is_held;
}

bool PeerQuarantine::has(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto entry = told_.find(rank);
  return entry != told_.end() &&
         std::ranges::any_of(entry->second, [](const auto& told) { return told.second.is_held; });
}

}  // namespace weft::p2p::cuda
