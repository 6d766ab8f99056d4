// Moving tensors to a peer of the same host: loads and stores through mapped arenas.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "p2p/fabric.hpp"
#include "p2p/progress/doorbell.hpp"

namespace weft::p2p {

/// A RemoteMemory is a pointer in this process.
class ShmChannel final : public Channel {
 public:
  /// `bell` lies in the peer's control chunk, `bell_event` is its event descriptor.
  /// `stream_bytes`: puts from this size on bypass the cache; none: each slot finds out.
  ShmChannel(std::optional<std::size_t> stream_bytes, std::uint32_t control_chunk,
             std::shared_ptr<os::Mapping> control, std::uint64_t bell_offset, os::Fd bell_event,
             bool ring_needs_fence);

  /// Makes a chunk of the peer known. Progress thread only.
  void add_chunk(std::uint32_t chunk, std::shared_ptr<os::Mapping> mapping);

  std::string_view fabric() const noexcept override { return "shm"; }
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override;
  Status put(const PutWork& work) noexcept override;
  Status get(std::byte* to, RemoteMemory from, std::size_t bytes) noexcept override;
  void write_word(RemoteMemory word, std::uint64_t value) noexcept override;
  void notify() noexcept override;
  std::byte* direct(RemoteMemory memory) noexcept override;

 private:
  [[gnu::noinline]] void copy(const PutWork& work) const noexcept;
  [[gnu::noinline]] void ring() noexcept;

  const std::optional<std::size_t> stream_bytes_;
  std::unordered_map<std::uint32_t, std::shared_ptr<os::Mapping>> chunks_;
  const bool ring_needs_fence_;
  Doorbell* bell_;
  os::Fd bell_event_;
};

}  // namespace weft::p2p
