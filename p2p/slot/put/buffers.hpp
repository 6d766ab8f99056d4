// The memory of a slot that a peer puts into.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/slot/attach/slot_line.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/put/chunk_words.hpp"
#include "p2p/slot/put/gpu_arrivals.hpp"
#include "p2p/slot/put/tail_buffers.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// A line per buffer, and the buffers: in the arena, in the user's memory, or behind the lines
/// where a tensor fits into one. For some writers also tail words in the buffers, or staging
/// buffers in the place of user's memory that the writer can't reach, or of buffers on a GPU.
/// Reading is the application's
/// thread's, granting the progress thread's.
class PutBuffers {
 public:
  /// `memory`: the user's, or the GPU's; empty: the arena's. `tails`: leave room for words behind
  /// the tensors. `spec` must outlive it. Throws Error(exhausted).
  PutBuffers(LocalRank& local, const SlotSpec& spec, Tensor memory, bool tails);

  // Arrivals.
  SlotLine& line(std::uint64_t index) const noexcept {
    return reinterpret_cast<SlotLine*>(lines_.data())[index];
  }
  bool has_tails() const noexcept { return tails_.load(std::memory_order_relaxed) != nullptr; }
  /// The higher of the words of a buffer's next arrival: on its line, and behind its tensor.
  std::uint64_t sequence_at(std::uint64_t index) const noexcept {
    const std::uint64_t by_line = line(index).sequence.load(std::memory_order_seq_cst);
    const TailBuffers* tails = tails_.load(std::memory_order_acquire);
    if (tails == nullptr) [[likely]]
      return by_line;
    const std::uint64_t by_tail = tails->word(index).load(std::memory_order_acquire);
    device_load_barrier();  // a NIC wrote it, and the tensor before it
    return std::max(by_line, by_tail);
  }
  /// The tensor that has arrived in buffer `index`. For a slot of fixed shape.
  const Tensor& tensor(std::uint64_t index, std::uint64_t sequence) const noexcept {
    const TailBuffers* tails = arrived_with_tail(index, sequence);
    return tails == nullptr ? tensors_[index] : tails->tensor(index);
  }
  /// Where the bytes of that arrival lie.
  const std::byte* payload(std::uint64_t index, std::uint64_t sequence) const noexcept;
  /// Whether that tensor lies in a staging buffer.
  bool is_staged(std::uint64_t sequence) const noexcept {
    return sequence > staged_after_.load(std::memory_order_relaxed);
  }
  /// Whether a GPU has copied that tensor into the slot's own buffer, or a NIC has written it
  /// there.
  bool came_to_gpu(std::uint64_t index, std::uint64_t sequence) const noexcept {
    return gpu_mark(line(index)) == sequence || gpu_->came_by_nic(sequence);
  }
  /// Copies a tensor from its staging buffer into the user's memory. For one on a GPU: gpu().
  void unstage(std::uint64_t index) noexcept;
  /// The way from the staging buffers to the GPU; null: the slot lies in host memory.
  GpuArrivals* gpu() const noexcept { return gpu_.get(); }
  std::uint64_t highest_sequence() const noexcept;

  // Attach.
  /// Makes staging buffers if `peer` can't reach the user's memory. Returns whether it made some.
  bool prepare_stage(const Peer& peer);
  /// Lets the writer put words behind their tensors, if it can and there is room for them.
  void grant_tails(const Peer& peer, const AttachMessage& asked, AttachedMessage& granted);
  /// Lets the writer put tensors in chunks, if it is to stage them or this end does. Requires that
  /// the way to a GPU is granted.
  void grant_chunks(Mesh& mesh, Peer& peer, const AttachMessage& asked, AttachedMessage& granted);
  const ChunkWords* chunk_words() const noexcept { return chunk_words_.get(); }
  /// Makes `peer` know the memory that it is about to be granted. Returns false if that failed.
  bool share(Mesh& mesh, Peer& peer) const;
  void grant(AttachedMessage& granted) const;
  /// Tensors after `sequence` lie in the staging buffers, if there are any.
  void stage_after(std::uint64_t sequence) noexcept;
  std::byte* words() const noexcept { return lines_.data(); }

  std::size_t tensor_bytes() const noexcept { return bytes_; }
  /// Where puts go in an arena; empty if they go to the user's memory.
  const OwnedBlock& arena_block() const noexcept { return gpu_ ? gpu_->stage() : buffers_; }
  /// A peer may still write into the user's memory: it is never freed. Returns false if there is
  /// none.
  bool keep_user_memory() noexcept;
  bool made_tails() const noexcept { return tails_made_ != nullptr; }

 private:
  /// Where the tensor lies that has arrived in a buffer, if not behind its line: each tensor has
  /// one word, of either kind.
  const TailBuffers* arrived_with_tail(std::uint64_t index, std::uint64_t sequence) const noexcept {
    const TailBuffers* tails = tails_.load(std::memory_order_acquire);
    if (tails == nullptr) [[likely]]
      return nullptr;
    return line(index).sequence.load(std::memory_order_relaxed) == sequence ? nullptr : tails;
  }
  void make_tails();
  /// The staging buffers, if there are any.
  const OwnedBlock& stage() const noexcept { return gpu_ ? gpu_->stage() : stage_; }

  LocalRank& local_;
  const SlotSpec& spec_;
  const std::size_t bytes_;   ///< of one tensor
  Tensor memory_;             ///< the user's or a GPU's, for the buffers; empty: the arena's
  const std::size_t stride_;  ///< from buffer to buffer; 0: tensors travel in the lines
  OwnedBlock lines_;
  OwnedBlock buffers_;
  std::vector<Tensor> tensors_;  ///< by buffer
  /// Where writers may put words behind tensors; made for the first that does.
  std::unique_ptr<TailBuffers> tails_made_;
  std::atomic<const TailBuffers*> tails_{nullptr};
  OwnedBlock stage_;                         ///< staging buffers in the place of the user's memory
  std::unique_ptr<ChunkWords> chunk_words_;  ///< made for the first writer that needs them
  std::unique_ptr<GpuArrivals> gpu_;         ///< staging buffers in the place of memory on a GPU
  /// The number of the first tensor put there, less one. Once one writer needed the staging
  /// buffers, all later writers use them.
  std::atomic<std::uint64_t> staged_after_{std::numeric_limits<std::uint64_t>::max()};
};

}  // namespace weft::p2p
