// GPU memory with addresses of its own: a chunk made here, or one that another process exported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/os/fd.hpp"
#include "p2p/transport/cuda/exported_chunk.hpp"
#include "p2p/transport/cuda/gpu.hpp"

namespace weft::p2p::cuda {

/// Mapped once a process, however many of its ranks use it. Thread-safe.
class MappedMemory {
 public:
  /// Memory of `gpu`, which reaches it. `bytes` are whole pages. Throws Error.
  static std::shared_ptr<MappedMemory> create(std::shared_ptr<Gpu> gpu, std::size_t bytes,
                                              const AllocationProperties& properties);
  /// The chunk with that name: this process's own, one that is mapped already, or that behind
  /// `descriptor`. No GPU reaches it before allow(). Throws Error.
  static std::shared_ptr<MappedMemory> import(std::shared_ptr<Gpu> by, const ChunkId& id,
                                              const os::Fd& descriptor, std::size_t bytes);
  /// The chunk of this process that begins there; null: there is none.
  static std::shared_ptr<MappedMemory> find(const std::byte* data);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory();

  /// Lets a GPU of this process read and write it, and keeps the GPU. Throws Error.
  void allow(const std::shared_ptr<Gpu>& gpu, const char* operation = "map");
  /// By which another process maps it; none: the driver refuses to export it.
  os::Fd export_descriptor() const noexcept;

  const ChunkId& id() const noexcept { return id_; }
  std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(at_); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  MappedMemory(std::shared_ptr<Gpu> gpu, const ChunkId& id, std::size_t bytes) noexcept
      : gpu_(std::move(gpu)), id_(id), bytes_(bytes) {}
  /// Finds addresses for the memory of handle_.
  void map(const char* operation);

  const std::shared_ptr<Gpu> gpu_;  ///< through which the driver is called
  const ChunkId id_;
  const std::size_t bytes_;
  AllocationHandle handle_ = 0;
  bool has_handle_ = false;
  DevicePointer at_ = 0;
  bool is_mapped_ = false;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Gpu>> allowed_;  ///< by number
};

}  // namespace weft::p2p::cuda
