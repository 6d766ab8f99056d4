// A rank's GPUs: opened with the first tensor on one.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/copy_staging.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/cuda/gpu_direct.hpp"
#include "p2p/transport/cuda/own_gpu.hpp"
#include "p2p/transport/cuda/peer_memory.hpp"
#include "p2p/transport/cuda/peer_quarantine.hpp"
#include "p2p/transport/cuda/pinned_chunks.hpp"
#include "p2p/transport/cuda/stream_meetings.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "weft/deadline.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

/// Thread-safe.
class Gpus {
 public:
  /// `wish`: which is the rank's own. `log`: where that is told; null: nowhere.
  Gpus(GpuWish wish, std::shared_ptr<SegmentMapper> mapper, std::size_t chunk_bytes,
       std::shared_ptr<Log> log = nullptr);
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  /// The arena of that GPU's memory; Memory::gpu() is the rank's. Throws Error: system (no driver,
  /// or it fails), bad_argument (no such GPU), bad_config (WEFT_GPU).
  std::shared_ptr<Arena> arena(Memory memory);
  /// Where the address lies, as far as a driver that this process already uses can tell.
  Memory memory_of(const void* address) const;
  /// A tensor of the application's memory on a GPU, which it holds. Throws Error: bad_argument (it
  /// ends behind its allocation), system.
  Tensor adopt(std::shared_ptr<void> memory, DType dtype, const Shape& shape, Memory where);
  /// Whether wrapped host memory is in truth a GPU's, which the processor must not touch. Only
  /// ranks that use GPUs look.
  bool is_misplaced(const Tensor& tensor) const noexcept {
    return tensor.storage() == nullptr && in_use_.load(std::memory_order_relaxed) &&
           tensor.memory().is_host() && tensor.bytes() != 0 && memory_of(tensor.data()).is_gpu();
  }
  /// Refuses such memory, by its GPU's name. Throws Error(bad_argument).
  void check_host(const char* operation, const Tensor& tensor) const;
  /// World::copy.
  void copy(const Tensor& from, const Tensor& to, Stream stream, const CopyStaging& staging,
            Deadline deadline);

  /// A stream of the application's, for a tensor in `memory`, or in host memory for any. Throws
  /// Error: bad_argument (there is no such stream, it is of another GPU, it captures a graph),
  /// system. `captures`: where it is told that it captures a graph, which is no error then.
  UserStream user_stream(const char* operation, Stream stream, Memory memory,
                         bool* captures = nullptr);
  /// Whether no thread of this rank has waited yet where a stream could (launches_block()).
  bool is_first_such_wait() noexcept { return !has_waited_.exchange(true); }
  /// Whether a stream waits for this rank's processor: nothing may be pinned then.
  /// `or_may`: or may begin to at any time, since a graph has waits. For weft's own threads, whose
  /// calls must not wait for a graph that was launched and waits for them.
  bool any_stream_waits(bool or_may = false) const noexcept;
  /// Pins a chunk for copies, ahead of them, on the application's thread. Requires that no stream
  /// waits. Throws Error.
  void pin(const std::shared_ptr<Gpu>& by, const std::shared_ptr<Arena>& arena,
           std::uint32_t chunk);
  /// All chunks that are.
  PinnedChunks& pins() noexcept { return *pins_; }

  /// Whether this rank uses GPUs so far.
  bool is_used() const noexcept { return in_use_.load(std::memory_order_relaxed); }

  /// The memory with its GPU's number, which a slot's buffers lie in. Throws as arena().
  Memory resolve(const char* operation, Memory memory);
  /// Checks GPU tensors that a call is to move by host memory, where `parts` name no other GPU than
  /// one, are dense and lie where they say. Throws Error(bad_argument), system.
  void check_parts(const char* operation, std::span<const Tensor> parts);
  /// Begins to copy the elements of `parts`, one behind the other, into `block`, host memory of the
  /// rank's arenas, and holds both. Parts in host memory are copied within the call. `after`: where
  /// parts on a GPU are ready. Throws Error.
  DeviceCopy stage(const char* operation, std::span<const Tensor> parts, OwnedBlock block,
                   const StreamPoint* after = nullptr);
  /// The same to `offset` in such a block that is shared. `chunk`: bytes of the chunks of which
  /// DeviceCopy::poll_chunks() tells; 0: it has none.
  DeviceCopy stage(const char* operation, std::span<const Tensor> parts,
                   std::shared_ptr<const OwnedBlock> block, std::size_t offset,
                   std::size_t chunk = 0, const StreamPoint* after = nullptr);
  struct Range {
    std::size_t first = 0;
    std::size_t bytes = 0;  ///< 0: all
  };
  /// Begins to copy from `offset` in such a block to a dense tensor on a GPU, and holds both.
  /// `range`: of the tensor's bytes, both there and behind `offset`. Throws Error.
  DeviceCopy unstage(const char* operation, std::shared_ptr<const OwnedBlock> block,
                     std::size_t offset, const Tensor& to, Range range);
  /// Begins to copy between a dense tensor on a GPU and one in `arena`, host memory. Throws Error.
  DeviceCopy copy_pinned(const char* operation, const std::shared_ptr<Arena>& arena,
                         const Tensor& from, const Tensor& to);
  /// Begins to copy the elements of `parts`, one behind the other, into `to`, memory on a GPU of
  /// this process or a peer's that is mapped here, and holds both. Parts in host memory that lie in
  /// none of `arenas` are copied into `block` within the call, which a part of no such kind does
  /// not need. `after`: where parts on a GPU are ready. Throws Error.
  DeviceCopy copy_parts(const char* operation, std::span<const Tensor> parts, const Tensor& to,
                        std::span<const std::shared_ptr<Arena>> arenas, OwnedBlock block,
                        const StreamPoint* after = nullptr);

  /// Memory of other ranks' GPUs.
  PeerMemory& peers() noexcept { return peers_; }
  /// The rank's own GPU, and all others that it has used. Throws Error.
  std::vector<std::shared_ptr<Gpu>> in_use(const char* operation);
  /// A chunk of this rank's as peers map it; nullopt: the driver does not export it.
  std::optional<ExportedChunk> exported(std::uint32_t chunk);
  /// By which they do. Requires that it is exported. Valid as long as the arena.
  int descriptor_of(std::uint32_t chunk) const;

  /// A chunk of one of its arenas; nullopt: it is none. Any thread.
  std::optional<GpuChunk> chunk(std::uint32_t number) const;
  /// The one that a range lies in.
  std::optional<GpuChunk> chunk_at(const std::byte* data, std::size_t bytes) const;

  /// Reports of the arenas of GPUs that hold tensors.
  std::vector<ArenaReport> reports() const;

  PeerQuarantine quarantine;  ///< of memory that other ranks have mapped
  StreamMeetings meetings;    ///< where streams of this rank meet those of others

 private:
  const Driver& driver(const char* operation);
  std::shared_ptr<Gpu> gpu(const char* operation, Memory memory);
  /// Unless a stream waits. Requires a Gpu::Current, and not the mutex.
  void pin_chunk(const std::shared_ptr<Gpu>& by, const std::shared_ptr<Arena>& arena,
                 std::uint32_t chunk);
  int own_gpu(const char* operation);
  /// The GPU whose context the copy takes.
  std::shared_ptr<Gpu> gpu_of_copy(const Tensor& from, const Tensor& to, Stream stream);
  /// Begins to copy the elements of `parts` to `to`, in `copy`'s memory. `chunk`: 0, or its bytes.
  static DeviceCopy copy_to_host(std::unique_ptr<CopyUnderWay> copy, std::span<const Tensor> parts,
                                 std::byte* to, std::size_t chunk, const StreamPoint* after);

  const GpuWish wish_;
  const std::shared_ptr<SegmentMapper> mapper_;
  const std::size_t chunk_bytes_;
  const std::shared_ptr<Log> log_;
  mutable std::mutex mutex_;
  const Driver* driver_ = nullptr;
  std::atomic<bool> in_use_{false};
  std::atomic<bool> has_waited_{false};
  std::optional<int> own_;
  std::map<int, std::shared_ptr<Gpu>> gpus_;
  std::map<int, std::shared_ptr<Arena>> arenas_;
  std::shared_ptr<Arena> arena_with(std::uint32_t chunk) const;

  PeerMemory peers_;
  const std::shared_ptr<PinnedChunks> pins_ = std::make_shared<PinnedChunks>();
};

}  // namespace weft::p2p::cuda
