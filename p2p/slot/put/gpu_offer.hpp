// A slot's buffers on a GPU, for writers of the host whose GPUs copy into them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// The owner's side. It tells where the buffers lie, and looks whether what the writer's GPU has
/// written into a page beside them is there for the GPU that has them. The progress thread's,
/// except way().
class GpuOffer {
 public:
  /// `memory`: the buffers, each `stride` bytes. Without room for the page there is no offer.
  GpuOffer(LocalRank& local, const Tensor& memory, std::size_t stride);

  /// Tells a writer, to whom staging was granted. A NIC's writer gets the slot's buffers instead.
  /// `is_copying`: the GPU still writes there, and no one else may.
  void grant(Mesh& mesh, Peer& peer, bool is_copying, AttachedMessage& granted);
  /// The writer has chosen.
  void settle(cuda::GpuWay way) noexcept;
  /// Begins to read the page for the writer that asks.
  void begin_check(Peer& peer, const GpuWayMessage& question) noexcept;
  /// Answers once it has been read. Returns whether that is still to come.
  bool serve(Mesh& mesh) noexcept;
  /// The latest writer's way.
  cuda::GpuWay way() const noexcept { return way_.load(std::memory_order_relaxed); }
  /// Why the NIC was refused; empty: it was not.
  const std::string& verdict() const noexcept { return verdict_; }
  /// The writer has detached, and its GPU writes there no more.
  void writer_left() noexcept { has_writer_ = false; }
  /// Whether that rank's GPU may go on writing there, the rank being gone: it is the latest writer,
  /// had the buffers mapped, and has not detached.
  bool is_in_quarantine(int writer) const;
  /// A writer may still copy there although the slot is closed, or may no more.
  void count_quarantine(bool enters) noexcept;

 private:
  struct Check {
    Peer* peer = nullptr;
    std::uint64_t remote_id = 0;
    std::uint64_t nonce = 0;
    std::optional<cuda::DeviceCopy> copy{};  ///< none: it could not begin
  };
  /// Why there can't be one; mapped: there can.
  cuda::GpuWay prepare(const Tensor& memory);
  /// Whether the writer's NIC may write there; nic: it may, and the peer knows the memory.
  cuda::GpuWay offer_to_nic(Mesh& mesh, Peer& peer) noexcept;

  LocalRank& local_;
  const Tensor memory_;
  const std::size_t stride_;
  std::shared_ptr<Arena> arena_;
  MemoryRef buffers_;
  MemoryRef page_ref_;
  Tensor page_;
  cuda::GpuWay offer_;
  bool granted_ = false;     ///< to some writer
  bool has_writer_ = false;  ///< that has not detached
  std::atomic<cuda::GpuWay> way_;
  std::optional<Check> check_;
  std::string verdict_;
};

}  // namespace weft::p2p
