// What a way of moving bytes between two ranks must be able to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "p2p/address.hpp"
#include "p2p/shm/copy_choice.hpp"
#include "weft/error.hpp"
#include "weft/report.hpp"

namespace weft::p2p {

/// Where something lies in a rank's arenas, in words that travel.
struct MemoryRef {
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A MemoryRef of the peer, resolved by its channel. What `address` means is the channel's.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// One tensor's way into a slot.
struct PutWork {
  const std::byte* source = nullptr;
  std::size_t bytes = 0;
  RemoteMemory payload;
  RemoteMemory sequence_word;
  std::uint64_t sequence = 0;
  CopyChoice* choice = nullptr;  ///< the slot's, for a fabric whose puts are copies
};

/// The path to one peer. Thread-safety: put, get, write_word and notify may be called from several
/// threads for different words and ranges; resolve only by the progress thread.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual std::string_view fabric() const noexcept = 0;

  /// Fails when the peer's range is unknown or out of bounds: never trust what travelled.
  virtual Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept = 0;
  /// The whole payload, then the sequence number: whoever sees the number sees the payload. The
  /// peer is woken if it sleeps. When this returns the source may be written again.
  virtual Status put(const PutWork& work) noexcept = 0;
  /// Bytes of the peer into local memory.
  virtual Status get(std::byte* to, RemoteMemory from, std::size_t bytes) noexcept = 0;
  /// An 8-byte word of the peer (a credit), then wakes it if it sleeps.
  virtual void write_word(RemoteMemory word, std::uint64_t value) noexcept = 0;
  /// Wakes the peer if it sleeps: something that it reads here has changed.
  virtual void notify() noexcept = 0;
  /// Where this process may load from directly; null where the fabric has no such thing.
  virtual std::byte* direct(RemoteMemory memory) noexcept = 0;
};

/// Whether two ranks share memory, with the reason either way.
FabricVerdict shm_reaches(const RankAddress& self, const RankAddress& peer);

}  // namespace weft::p2p
