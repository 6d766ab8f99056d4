// Work of a GPU on memory of several ranks of its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

struct PeerCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

/// A kernel that combines elements of several tensors.
struct PeerReduction {
  Function kernel = nullptr;
  std::size_t element = 1;  ///< bytes
  kernels::ReduceParameters launch{};
};

/// Divides the `count` elements of a launch, of `element` bytes, into what can be moved by whole
/// packs and the rest. Requires its addresses.
void divide(kernels::ReduceParameters& launch, std::size_t element) noexcept;

/// Puts the kernel on a stream. Requires a Gpu::Current.
DriverStatus launch_reduction(const Driver& driver, const PeerReduction& reduction,
                              StreamHandle stream) noexcept;

/// Begins the copies, or the reduction if that has a kernel, on a stream of weft's own, behind what
/// is on it; neither waits for another rank. `held`: what must stay until it has ended. Throws
/// Error if nothing could be prepared.
Begun begin_peer_work(const char* operation, const std::shared_ptr<Gpu>& gpu, StreamHandle stream,
                      std::vector<Tensor> held, std::span<const PeerCopy> copies,
                      const PeerReduction& reduction);

}  // namespace weft::p2p::cuda
