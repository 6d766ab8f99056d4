// The path to one peer: what a fabric must be able to do with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "p2p/transport/capabilities.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/get.hpp"
#include "p2p/transport/notification_table.hpp"
#include "p2p/transport/put_work.hpp"
#include "weft/error.hpp"
#include "weft/report.hpp"

namespace weft::p2p {

/// Thread-safety: put, get, put_word and notify may be called from several threads for different
/// words and ranges, resolve and map from any thread; send and export_region from the progress
/// thread alone.
class Channel {
 public:
  static constexpr std::size_t kMaxMessage = 2048;

  virtual ~Channel() = default;

  /// Moves the whole payload, then the sequence number: a reader that sees the number sees the
  /// payload. Wakes the peer if it sleeps, unless the word is behind the payload. The source is
  /// lent to the channel until poll_put() has an outcome, unless the answers say otherwise; memory
  /// outside LocalRank::reachable() is no source, except adopted memory where
  /// Capabilities::peer_reaches_adopted holds. Code::exhausted: the fabric's queue is full and
  /// nothing was moved; try again. Code::peer_failed, peer_left or path_failed: the path has ended;
  /// the caller waits for what the mesh knows of the peer.
  virtual Status put(PutWork& work) noexcept = 0;
  /// The outcome of a put under way: ok once its source may be written again and the peer can see
  /// the tensor; nullopt until then. Asking makes progress; when there is an outcome, this rank's
  /// sleepers are woken. The outcome comes in bounded time, asked for or not, and stays.
  virtual std::optional<Status> poll_put(std::uint64_t posted) noexcept = 0;
  /// Begins to read the get's pieces, in order: none is read before the one ahead of it. Returns at
  /// once, except where Capabilities::copies says that the call does all of it: that sets
  /// Get::engine to null and Get::end, and puts a load_barrier() between pieces. The peer may be
  /// writing what is read: the pieces around it tell the caller.
  virtual void get(Get& get) noexcept = 0;
  /// Writes an 8-byte word of the peer (a credit). Values of one word become visible in the order
  /// of the calls.
  virtual void put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept = 0;
  /// Wakes the peer if it sleeps: something that it reads here has changed.
  virtual void notify() noexcept = 0;
  /// Sends a control message (at most kMaxMessage bytes) and counts it in counters(). Messages
  /// arrive whole and in order, or the path is lost and drops them. Each comes after every put and
  /// word that was posted here before it, which teardown relies on; except those that
  /// may_overtake_puts(): a fabric on which a large put takes long sends them past it.
  virtual void send(std::span<const std::byte> message) = 0;
  /// Fails when the peer's range is out of bounds, or, with Code::unreachable, in a chunk that is
  /// not known here yet: what travelled is not trusted. Any thread.
  virtual Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept = 0;
  /// Enables the peer to resolve a chunk of this rank before it gets any later message, and then
  /// wakes the peer's threads (LocalRank::ring()), as one may wait for just this chunk. Free for a
  /// chunk that the peer knows. The chunk may be adopted memory, which no arena has. False when the
  /// peer can't reach it, or when that fails; a failure was logged.
  virtual bool export_region(std::uint32_t chunk) = 0;
  /// Address at which this process may load from the peer's memory; null where the fabric has none.
  virtual std::byte* map(RemoteMemory memory) noexcept = 0;

  /// Whether puts from this tensor on a GPU, and gets into it, need no host memory. `why_not`:
  /// null, or the reason; it is left alone where the path reaches host memory alone. May register
  /// the tensor's memory. Any thread.
  virtual bool reaches_gpu(const Tensor& /*tensor*/, std::string* /*why_not*/ = nullptr) noexcept {
    return false;
  }
  /// The most parts of a put of which some lie on a GPU.
  static constexpr std::size_t kMostGpuParts = 8;

  /// The ports that the path goes by; none where the fabric has none, or before it is up. Any
  /// thread.
  virtual std::vector<RailReport> rails() const { return {}; }

  const Capabilities& capabilities() const noexcept { return capabilities_; }
  FabricKind fabric() const noexcept { return capabilities_.fabric; }

  /// Progress thread: from now on the peer may put into these words. The answer travels to the
  /// peer, which names them by it (PutWork::notification_id). Throws Error(exhausted).
  std::uint32_t expect(const ExpectedWords& words) {
    return notifications_ == nullptr ? 0 : notifications_->add(words);
  }
  /// For words that are not set in turn: a put that sets this one may write here, and nowhere else.
  /// Any thread, before the peer is told of the place.
  void grant(std::uint32_t word, const MemoryRef& place) noexcept {
    if (notifications_ != nullptr) notifications_->grant(word, place);
  }
  /// Progress thread: the peer won't put there any more.
  void expect_no_more(std::uint32_t notification_id) noexcept {
    if (notifications_ != nullptr) notifications_->remove(notification_id);
  }

  /// The path's own costs, counted by the channel where it posts, on the progress thread.
  PathCounters& counters() noexcept { return counters_; }

 protected:
  /// `counters`: in the rank's stats segment, which outlives the channel. `notifications`: the
  /// words that the peer's puts name by number; null where the peer sets them itself.
  Channel(FabricKind fabric, PathCounters& counters,
          NotificationTable* notifications = nullptr) noexcept
      : capabilities_(fabric), notifications_(notifications), counters_(counters) {}

  Capabilities capabilities_;

 private:
  NotificationTable* const notifications_;
  PathCounters& counters_;
};

}  // namespace weft::p2p
