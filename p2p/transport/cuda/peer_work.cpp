#include "p2p/transport/cuda/peer_work.hpp"

#include <algorithm>
#include <utility>

#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr unsigned kThreads = 256;       // of a block
constexpr std::uint64_t kBlocks = 1024;  // at most: some for each processor of the largest GPU

unsigned blocks_for(const kernels::ReduceParameters& launch, std::size_t element) noexcept {
  const std::uint64_t alone = launch.count - launch.packs * (kernels::kPack / element);
  const std::uint64_t wanted = (std::max(launch.packs, alone) + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 1, kBlocks));
}

std::uintptr_t address(const void* at) noexcept { return reinterpret_cast<std::uintptr_t>(at); }

}  // namespace

void divide(kernels::ReduceParameters& launch, std::size_t element) noexcept {
  const std::uintptr_t off = address(launch.sources[0]) % kernels::kPack;
  bool alike = off % element == 0;
  for (std::uint32_t i = 0; i < launch.source_count; ++i)
    alike = alike && address(launch.sources[i]) % kernels::kPack == off;
  for (std::uint32_t i = 0; i < launch.target_count; ++i)
    alike = alike && address(launch.targets[i]) % kernels::kPack == off;
  const std::uint64_t in_front = off == 0 ? 0 : (kernels::kPack - off) / element;
  launch.head = alike ? std::min<std::uint64_t>(in_front, launch.count) : 0;
  launch.packs = alike ? (launch.count - launch.head) / (kernels::kPack / element) : 0;
}

DriverStatus launch_reduction(const Driver& driver, const PeerReduction& reduction,
                              StreamHandle stream) noexcept {
  auto launch = reduction.launch;
  void* parameters[] = {&launch};
  return driver.launch(reduction.kernel, blocks_for(launch, reduction.element), 1, 1, kThreads, 1,
                       1, 0, stream, parameters, nullptr);
}

Begun begin_peer_work(const char* operation, const std::shared_ptr<Gpu>& gpu, StreamHandle stream,
                      std::vector<Tensor> held, std::span<const PeerCopy> copies,
                      const PeerReduction& reduction) {
  reap_late_copies();
  const Gpu::Current current(*gpu);
  const Driver& driver = gpu->driver();
  const ScopedRelaxation relaxed(driver);
  auto work = std::make_unique<CopyUnderWay>(operation, gpu);
  work->tensors = std::move(held);
  if (reduction.kernel != nullptr) {
    const DriverStatus status = launch_reduction(driver, reduction, stream);
    return record_work(std::move(work), stream, status, 0, "cuLaunchKernel");
  }
  DriverStatus status = DriverStatus::success;
  std::size_t begun = 0;
  for (const PeerCopy& copy : copies) {
    status = driver.copy(reinterpret_cast<DevicePointer>(copy.to),
                         reinterpret_cast<DevicePointer>(copy.from), copy.bytes, stream);
    if (status != DriverStatus::success) break;
    ++begun;
  }
  return record_work(std::move(work), stream, status, begun, "cuMemcpyAsync");
}

}  // namespace weft::p2p::cuda
