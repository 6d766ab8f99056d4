// Moving tensors to a peer of the same host: loads and stores through mapped arenas.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "p2p/fabric.hpp"
#include "p2p/local_rank.hpp"
#include "p2p/progress/doorbell.hpp"
#include "p2p/shm/link.hpp"

namespace weft::p2p {

/// A RemoteMemory is a pointer in this process.
class ShmChannel final : public Channel {
 public:
  /// `control` is the peer's first control chunk, in which its bell lies; `bell_event` is its event
  /// descriptor. Control messages go by `link`, which must outlive the channel.
  ShmChannel(LocalRank& local, Link& link, std::shared_ptr<os::Mapping> control,
             std::uint64_t bell_offset, os::Fd bell_event, bool ring_needs_fence);

  /// Makes a chunk of the peer known; its mapping stays. Progress thread only.
  void add_chunk(std::uint32_t chunk, std::shared_ptr<os::Mapping> mapping);

  std::string_view fabric() const noexcept override { return "shm"; }
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override;
  Status put(const PutWork& work) noexcept override;
  Status get(std::byte* to, RemoteMemory from, std::size_t bytes) noexcept override;
  void write_word(RemoteMemory word, std::uint64_t value) noexcept override;
  void notify() noexcept override;
  std::byte* direct(RemoteMemory memory) noexcept override;
  void send(std::span<const std::byte> message) override;
  void share(std::uint32_t chunk) override;

 private:
  [[gnu::noinline]] void gather(const PutWork& work) const noexcept;
  [[gnu::noinline]] void copy(const PutWork& work) const noexcept;
  [[gnu::noinline]] void ring() noexcept;

  const std::optional<std::size_t> stream_bytes_;  ///< none: each slot finds out
  const bool ring_needs_fence_;
  Doorbell* const bell_;
  const os::Fd bell_event_;
  LocalRank& local_;
  Link& link_;
  std::set<std::uint32_t> shared_;  ///< chunks of this rank that the peer knows
  mutable std::mutex mutex_;        ///< guards chunks_
  std::unordered_map<std::uint32_t, std::shared_ptr<os::Mapping>> chunks_;
};

}  // namespace weft::p2p
