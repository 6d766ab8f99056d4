// A put's whole way to a slot on a GPU of this host: one copy by the writer's GPU.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/attach/use_gate.hpp"
#include "p2p/slot/put/map_steps.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// The owner's buffers as GPUs of this process reach them, and the copies into them: of the first
/// pending put, and ahead of time of the second. A copy that has begun counts as a use of the slot
/// until it has ended, whatever becomes of its put, as the owner may not use the buffer before.
/// Guarded by the pending puts' mutex, but for answer() and what it is waited for with.
class MappedPuts {
 public:
  /// `granted`: by the owner. `bytes`: of a tensor. `gate`: the slot's.
  MappedPuts(LocalRank& local, UseGate& gate, const AttachedMessage& granted, std::size_t bytes);

  MapSteps steps{};  ///< of a caller that does not wait; its affair

  /// Whether the owner lets this rank map its buffers; why not, else.
  cuda::GpuWay offered() const noexcept { return offered_; }
  std::uint32_t chunk() const noexcept { return buffers_.chunk; }
  struct Way {
    cuda::GpuWay way = cuda::GpuWay::mapped;
    std::string detail{};  ///< what the driver said
  };
  /// Maps the buffers and the page for copies by that GPU, which takes no puts yet. Any thread.
  Way map(int owner, const std::shared_ptr<cuda::Gpu>& gpu);
  /// The GPU that was mapped for last reaches the buffers: from now on it takes puts.
  void accept();

  // The page that proves it: one copy at a time.
  /// Begins to write the page, or to read it. Throws Error: closed if the owner has closed.
  void begin_page(std::uint64_t nonce);
  void begin_reading_page();
  std::optional<Status> poll_page() noexcept { return poll(page_copy_); }
  /// Whether the page that was read is the one that was written.
  bool page_came_back(std::uint64_t nonce) noexcept;
  /// The owner's answer has come. Progress thread.
  void answer(const GpuPageSeenMessage& message) noexcept;
  /// Whether the owner sees the page; nullopt: it has not answered. Any thread.
  std::optional<bool> answered(std::uint64_t nonce) const noexcept;

  /// Whether a GPU takes such a put: the one that has its tensors, or for host memory any.
  bool takes(std::span<const Tensor> parts) const noexcept;
  bool has_begun(std::uint64_t ticket) const noexcept { return at(ticket).ticket == ticket; }
  /// Begins to copy a put's tensors into that buffer. Returns the bytes that were packed first,
  /// because no GPU reaches them where they lie. `after`: where they are ready. Requires takes()
  /// and !is_held_up(). Throws Error.
  std::size_t begin(std::uint64_t ticket, std::span<const Tensor> parts, std::uint64_t buffer,
                    const cuda::StreamPoint* after);
  /// How it ended; nullopt while it is under way. Requires has_begun().
  std::optional<Status> poll(std::uint64_t ticket) noexcept { return poll(at(ticket)); }
  /// The puts won't begin. Their copies go on.
  void drop_all() noexcept;
  /// Whether the copy of a dropped put is still under way: a buffer may not be used again yet.
  bool is_held_up() noexcept;
  /// Whether any copy is.
  bool is_copying() noexcept;

 private:
  struct Copy {
    std::uint64_t ticket = 0;  ///< 0: none
    bool is_inside = false;    ///< the gate
    cuda::DeviceCopy copy{};
  };
  Copy& at(std::uint64_t ticket) noexcept { return copies_[ticket % copies_.size()]; }
  const Copy& at(std::uint64_t ticket) const noexcept { return copies_[ticket % copies_.size()]; }
  std::optional<Status> poll(Copy& copy) noexcept;
  /// Throws Error(closed).
  void enter();
  /// Whether the GPU reaches a part in host memory where it lies.
  bool lies_in_arena(const Tensor& part) const noexcept;
  /// The buffers as that GPU has them; null: it does not reach them.
  const Tensor* reached_by(int gpu) const noexcept;

  LocalRank& local_;
  UseGate& gate_;
  const std::array<std::shared_ptr<Arena>, 2> arenas_;
  const cuda::GpuWay offered_;
  const MemoryRef buffers_;
  const std::uint64_t stride_;
  const MemoryRef page_ref_;
  const std::size_t bytes_;
  Tensor mapped_buffers_;  ///< for the GPU that map() was called for last
  Tensor page_;
  std::vector<std::pair<int, Tensor>> reached_;  ///< by GPU; the first is for host memory too
  std::array<Copy, 2> copies_{};
  std::array<OwnedBlock, 2> packs_{};
  Copy page_copy_{};
  std::vector<Copy> dropped_;
  std::atomic<std::uint64_t> answered_{0};  ///< the nonce
  std::atomic<bool> seen_{false};
};

}  // namespace weft::p2p
