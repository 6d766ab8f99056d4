#include "p2p/slot/put/gpu_arrivals.hpp"

#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {

GpuArrivals::GpuArrivals(LocalRank& local, std::size_t bytes, std::uint32_t depth,
                         const Tensor& memory, std::size_t stride)
    : local_(local),
      stride_(Heap::rounded(bytes)),
      stage_(std::make_shared<const OwnedBlock>(local.data, stride_ * depth)),
      copies_(depth),
      offer_(local, memory, stride) {}

void GpuArrivals::begin_writer(std::uint64_t after, bool by_nic) {
  const std::lock_guard lock(writers_mutex_);
  // There is a buffer for each tensor that has not been handed out.
  while (writers_.size() > 1 && writers_[1].after + copies_.size() <= after)
    writers_.erase(writers_.begin());
  writers_.push_back({after, by_nic});
}

bool GpuArrivals::came_by_nic(std::uint64_t sequence) const noexcept {
  const std::lock_guard lock(writers_mutex_);
  for (auto writer = writers_.rbegin(); writer != writers_.rend(); ++writer)
    if (writer->after < sequence) return writer->by_nic;
  return false;
}

void GpuArrivals::begin(std::uint64_t index, std::uint64_t sequence, const Tensor& to) {
  Copy& copy = copies_[index];
  if (copy.sequence == sequence) return;
  copy = {};
  copy.copy = local_.gpus->unstage("wait", stage_, index * stride_, to);
  copy.sequence = sequence;
}

std::optional<Status> GpuArrivals::poll(std::uint64_t index) noexcept {
  Copy& copy = copies_[index];
  auto outcome = copy.copy.poll();
  if (outcome && !outcome->ok()) copy.sequence = 0;
  return outcome;
}

}  // namespace weft::p2p
