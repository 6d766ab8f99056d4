// A worker's push slot and the buffers it pushes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "pslib/compression/compressor.hpp"
#include "pslib/table/description.hpp"
#include "runtime/world/gpu_copy.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// A worker's gradients, its copy of the parameters, and the slot from which servers read its
/// pushes. Gradients are written into the slot's buffer, or compressed into it. If a push has no
/// room for the initial parameters, the first worker publishes them in a slot of their own, whose
/// buffer is its copy of the parameters from then on.
///
/// Gradients and parameters may lie on a GPU. Servers read host memory: the slots copy what is
/// published there, and pulls go by host memory of this object. A call that fails for the GPU may
/// be made again. Not thread-safe.
class PushSlot {
 public:
  /// Exposes the slots, and clears all buffers until the deadline. `world` and `table` must outlive
  /// this object. Throws Error as World::expose and World::allocate do, and timeout.
  PushSlot(World& world, const Description& table, Deadline deadline);

  /// As PublishedSlot::also_needs, for waits until servers are done with a push.
  void also_needs(std::span<const int> ranks, Needed needed) { slot_.also_needs(ranks, needed); }
  /// Flat, in the order of Layout.
  const Tensor& gradients() const noexcept { return gradients_; }
  const Tensor& parameters() const noexcept { return parameters_; }
  Status clear_gradients(Deadline deadline) noexcept;

  /// Host memory that pulls put the parameters into, in the order of Layout.
  const Tensor& pulled() const noexcept { return gpu_ ? gpu_->pulled : parameters_; }
  /// Makes of pulled() the parameters.
  Status deliver(Deadline deadline) noexcept;

  /// If this is the first worker, fills the next push with its parameters.
  Status fill_initial(Deadline deadline) noexcept;
  /// Fills the next push with the gradients. An error changes nothing.
  Status fill(Deadline deadline) noexcept;
  /// Sets one of the words behind the gradients of an asynchronous table.
  Status set_word(std::size_t index, std::uint64_t word, Deadline deadline) noexcept;
  Status publish(Deadline deadline) noexcept;
  /// Waits until all servers are done with the last push.
  Status reclaim(Deadline deadline) noexcept;

  CompressionStatistics compression() const noexcept {
    return compressor_ ? compressor_->statistics() : CompressionStatistics{};
  }
  /// Copies between host memory and the GPU so far.
  struct Staged {
    std::uint64_t bytes = 0;
    std::uint64_t copies = 0;
  };
  Staged staged() const noexcept { return staged_; }

 private:
  /// Of tensors on a GPU.
  struct OnGpu {
    Tensor pulled{};     ///< in host memory
    Tensor gradients{};  ///< in host memory, to be compressed; empty unless they are
    Tensor words{};      ///< in host memory, to go behind gradients in a slot on the GPU; or empty
    std::optional<GpuCopy> deliver{};  ///< from `pulled`
    std::optional<GpuCopy> bring{};    ///< to `gradients`
    std::optional<GpuCopy> mark{};     ///< from `words`
    std::optional<GpuCopy> begin{};    ///< from the parameters to the gradients, on the GPU
    std::optional<GpuCopy> clear{};    ///< to the gradients
    // Copies that a call need not make again after one that has failed later.
    bool has_delivered = false;  ///< since the last reclaim()
    bool has_begun = false;   ///< since the last publish(), which may read what they have written
    bool has_marked = false;  ///< likewise
  };

  Status publish(PublishedSlot& slot, const char* what, Deadline deadline) noexcept;
  /// The error of a copy, which belongs to the slot.
  Status named(Status status) const noexcept;
  Status stage(GpuCopy& copy, const char* operation, Deadline deadline) noexcept;
  void clear_all(Deadline deadline);
  void make_copies();
  std::byte* words() noexcept { return buffer_.data() + table_.pushes.bytes(); }

  World& world_;
  const Description& table_;
  PublishedSlot slot_;
  Tensor buffer_;  // the slot's buffer
  std::optional<PublishedSlot> initial_;
  Tensor gradients_;
  Tensor parameters_;
  std::unique_ptr<Compressor> compressor_;
  std::unique_ptr<OnGpu> gpu_;  // null: in host memory
  Staged staged_{};
};

}  // namespace weft::pslib
