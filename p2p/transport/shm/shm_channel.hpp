// Moving tensors to a peer of the same host: loads and stores through mapped arenas.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "p2p/progress/doorbell.hpp"
#include "p2p/transport/channel.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/shm/copy_choices.hpp"
#include "p2p/transport/shm/cross_memory.hpp"
#include "p2p/transport/shm/link.hpp"
#include "p2p/transport/shm/shm_messages.hpp"

namespace weft::p2p {

/// A RemoteMemory is a pointer in this process, or, with a key (the chunk), an address in the
/// peer's: memory that its user adopted, which the kernel copies.
class ShmChannel final : public Channel {
 public:
  /// `control` is the peer's first control chunk, in which its bell lies; `bell_event` is its event
  /// descriptor. Control messages go by `link`, which must outlive the channel.
  ShmChannel(LocalRank& local, Link& link, std::shared_ptr<os::Mapping> control,
             std::uint64_t bell_offset, os::Fd bell_event, bool ring_needs_fence);

  /// Makes a chunk of the peer known; its mapping stays. Progress thread only.
  void add_chunk(std::uint32_t chunk, std::shared_ptr<os::Mapping> mapping);

  Status put(PutWork& work) noexcept override;
  std::optional<Status> poll_put(std::uint64_t) noexcept override { return Status{}; }
  void get(Get& get) noexcept override;
  void put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept override;
  void notify() noexcept override;
  void send(std::span<const std::byte> message) override;
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override;
  bool export_region(std::uint32_t chunk) override;
  std::byte* map(RemoteMemory memory) noexcept override;
  /// The mapping of a chunk of the peer's, for those that need it beyond this object; null: the
  /// chunk is not known here. Any thread.
  std::shared_ptr<os::Mapping> mapping_of(std::uint32_t chunk) noexcept;

  /// Whether the peer's process reaches into this one.
  void set_peer_reaches(bool reaches) noexcept {
    capabilities_.peer_reaches_adopted.store(reaches);
  }
  /// Finds out, by reading a word there, whether this process reaches into the peer's. `allowed`:
  /// WEFT_CROSS_MEMORY. `pidfd` stands for the process and outlives the channel; -1: it is this
  /// one.
  bool find_reach(pid_t process, int pidfd, std::uint64_t probe, bool allowed);
  /// A chunk of the peer has come, but can't be mapped; `descriptor` is none where that has not
  /// come. resolve() answers `why`, and tries again each time.
  void lacks_chunk(std::uint32_t chunk, std::uint64_t bytes, os::Fd descriptor, Status why);
  /// The peer could not take a chunk's descriptor. Progress thread.
  void share_again(std::uint32_t chunk);
  /// Adopted memory of the peer is where it says.
  void add_adopted(const AdoptedMessage& region);
  void forget_adopted(std::uint32_t chunk) noexcept;
  /// This rank's adopted memory is gone: tells the peer if the peer knew it. Progress thread.
  void unshare(std::uint32_t chunk);

 private:
  struct Adopted {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    const std::atomic<std::uint64_t>* alive = nullptr;
  };
  struct Lacking {
    std::uint64_t bytes = 0;
    os::Fd descriptor{};
    Status why{};
    Deadline ask_again{};
  };
  /// Under mutex_.
  void try_again(std::uint32_t chunk, Lacking& lacking) noexcept;
  void share_adopted(std::uint32_t chunk);
  bool export_device_chunk(std::uint32_t chunk);
  std::optional<Adopted> adopted(std::uint32_t chunk) const noexcept;
  Result<RemoteMemory> resolve_adopted(const MemoryRef& ref) noexcept;
  Status put_across(const PutWork& work) noexcept;
  Status copy(std::span<const GetWork> pieces) noexcept;
  Status get_across(const GetWork& piece) noexcept;
  [[gnu::noinline]] void gather(const PutWork& work) const noexcept;
  /// False: a piece of it, and there is more.
  [[gnu::noinline]] bool copy(PutWork& work) noexcept;
  bool copy_next_piece(PutWork& work) noexcept;
  [[gnu::noinline]] void ring() noexcept;

  CopyChoices copy_choices_;
  const bool ring_needs_fence_;
  Doorbell* const bell_;
  const os::Fd bell_event_;
  LocalRank& local_;
  Link& link_;
  std::set<std::uint32_t> shared_;  ///< chunks of this rank that the peer knows
  mutable std::mutex mutex_;        ///< guards chunks_
  std::unordered_map<std::uint32_t, std::shared_ptr<os::Mapping>> chunks_;
  std::unordered_map<std::uint32_t, Lacking> lacking_;
  std::unordered_map<std::uint32_t, Adopted> adopted_;  ///< the peer's; also under mutex_
  bool same_process_ = false;           ///< as this; then its memory is this rank's too
  std::optional<CrossMemory> reaches_;  ///< set before the channel is known to the mesh
};

}  // namespace weft::p2p
