// The first part of a put's way from a GPU: into host memory, which every fabric reaches.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// Copies of the first pending put's tensors, and ahead of time those of the second, so that one
/// copy goes on while the fabric moves what the other brought. Guarded by the pending puts' mutex.
class GpuSources {
 public:
  explicit GpuSources(LocalRank& local) noexcept : local_(local) {}

  bool has_begun(std::uint64_t ticket) const noexcept { return at(ticket).ticket == ticket; }
  /// Begins to copy the tensors of a put, of which one lies on a GPU, into `block`. `after`: where
  /// they are ready. Throws Error.
  void begin(std::uint64_t ticket, std::span<const Tensor> parts, OwnedBlock block,
             const cuda::StreamPoint* after);
  /// The same in chunks of `chunk` bytes.
  void begin_chunks(std::uint64_t ticket, std::span<const Tensor> parts,
                    const std::shared_ptr<const OwnedBlock>& block, std::size_t chunk,
                    const cuda::StreamPoint* after);
  /// How that ended, if it has; how many chunks are `there`, and where. Requires has_begun().
  std::optional<Status> poll_chunks(std::uint64_t ticket, std::size_t& there) noexcept {
    return at(ticket).copy.poll_chunks(there);
  }
  const std::shared_ptr<const OwnedBlock>& chunks(std::uint64_t ticket) const noexcept {
    return at(ticket).chunks;
  }
  /// How it ended; nullopt while it is under way. Requires has_begun().
  std::optional<Status> poll(std::uint64_t ticket) noexcept { return at(ticket).copy.poll(); }
  /// The host memory with the tensors. Requires that the copy has ended well.
  OwnedBlock take(std::uint64_t ticket) noexcept;
  /// The put won't begin. Its copy keeps all that it needs until its end.
  void drop(std::uint64_t ticket) noexcept {
    if (has_begun(ticket)) at(ticket) = {};
  }
  void drop_all() noexcept { copies_ = {}; }

 private:
  struct Copy {
    std::uint64_t ticket = 0;  ///< 0: none
    cuda::DeviceCopy copy{};
    std::shared_ptr<const OwnedBlock> chunks{};
  };
  Copy& at(std::uint64_t ticket) noexcept { return copies_[ticket % copies_.size()]; }
  const Copy& at(std::uint64_t ticket) const noexcept { return copies_[ticket % copies_.size()]; }

  LocalRank& local_;
  std::array<Copy, 2> copies_{};
};

/// Whether one of them has elements on a GPU.
inline bool any_on_gpu(std::span<const Tensor> parts) noexcept {
  for (const Tensor& part : parts)
    if (part.memory().is_gpu() && part.bytes() != 0) return true;
  return false;
}

/// The GPU that has parts, else the host.
inline Memory memory_of(std::span<const Tensor> parts) noexcept {
  Memory memory;
  for (const Tensor& part : parts)
    if (part.memory().is_gpu()) memory = part.memory();
  return memory;
}

/// Whether none of them is in host memory, which the processor may have to read.
inline bool all_on_gpu(std::span<const Tensor> parts) noexcept {
  for (const Tensor& part : parts)
    if (part.memory().is_host()) return false;
  return true;
}

}  // namespace weft::p2p
