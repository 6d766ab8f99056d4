// What a way of moving bytes between two ranks must be able to do.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "p2p/transport/address/rank_address.hpp"
#include "p2p/transport/counters.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/report.hpp"
#include "weft/tensor.hpp"

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

/// Words in this rank's control memory that the peer's puts set, each after its payload.
struct ExpectedWords {
  std::byte* words = nullptr;  ///< the first
  std::uint32_t count = 1;     ///< each `stride` bytes after the one before
  std::uint32_t stride = 0;
  /// A slot's: set one after another, round and round, the next time to `last` + 1. Otherwise each
  /// word is set for itself, to rising values.
  bool in_turn = false;
  std::uint64_t last = 0;
  /// In turn, but some by words behind their tensors: then each set is one of the 4096 above this.
  const std::atomic<std::uint64_t>* passed = nullptr;
  /// Where the payloads of these puts may go, and nowhere else; Channel::grant() adds a place for
  /// one word. A fabric whose NIC writes can't tell.
  std::array<MemoryRef, 2> places{};
};

/// Where a tensor's sequence word lies that follows it (PutWork::with_tail), from its first byte.
constexpr std::size_t tail_offset(std::size_t bytes) noexcept {
  return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) * sizeof(std::uint64_t);
}
/// With that word.
constexpr std::size_t bytes_with_tail(std::size_t bytes) noexcept {
  return tail_offset(bytes) + sizeof(std::uint64_t);
}

/// One tensor's way into a slot.
struct PutWork {
  const std::byte* source = nullptr;
  const Tensor* tensor = nullptr;  ///< whose memory the source is; null: it lies in an arena
  std::span<const Tensor> parts;   ///< instead of a source: their elements, in order, with strides
  std::size_t bytes = 0;
  RemoteMemory payload;
  RemoteMemory sequence_word;
  /// Instead of both, if the channel likes: the payload goes here and the word right behind it, at
  /// tail_offset(). The owner polls both words; of this one it hears nothing. Address 0: no.
  RemoteMemory with_tail;
  std::uint64_t sequence = 0;
  /// What the owner's channel calls the word (Channel::expect): for words set in turn as it was
  /// answered, otherwise plus the word's index.
  std::uint32_t notification_id = 0;
  bool delivered = false;  ///< outcome() is to say when the peer can see it
  int queue_pair = -1;     ///< asked for; -1: the channel chooses
  /// Whose puts these are, in the caller's own numbers: a channel may learn from one put for the
  /// next of its stream.
  std::uint64_t stream = 0;
  std::uint32_t depth = 1;  ///< buffers that the stream's puts go to in turn
  /// A channel that copies may stop short of the end, so that who moves puts that waited is not
  /// held up by a large one: it counts in `done`, answers `exhausted`, and is called again.
  bool by_and_by = false;

  // Answers.
  std::size_t done = 0;      ///< of `bytes`, by this call and those before it
  std::uint64_t copied = 0;  ///< bytes that the channel had to pack first
  /// For Channel::outcome. 0: the source is free, and the peer can see the tensor already unless
  /// `delivered` was not asked for.
  std::uint64_t posted = 0;
  bool source_is_free = true;  ///< the source may be written again
  std::uint32_t requests = 1;  ///< how many work requests moved the payload
};

/// One piece of a get.
struct GetWork {
  std::byte* to = nullptr;  ///< memory that LocalRank::reachable() knows
  RemoteMemory from;
  std::size_t bytes = 0;
};

/// A get under way, from Channel::start_get() until it has ended or was given up. Until then the
/// object, its pieces and their memory stay where they are. It may be started again afterwards.
struct Getting {
  std::span<const GetWork> pieces;

  // The channel's.
  std::size_t piece = 0;     ///< the next
  std::uint64_t done = 0;    ///< bytes of it
  std::uint64_t number = 0;  ///< what the channel calls it, or its last request
  std::uint32_t left = 0;    ///< requests that have not ended; or the queue pair that they go by
  bool asked = false;        ///< all was asked for
  bool whole = true;         ///< the peer still had all of the memory
  std::atomic<bool> is_over{false};
  Status end;
  Clock::time_point since;
  std::shared_ptr<void> kept;
};

/// Whether memory that a user adopted can be reached across a path, and why not.
struct AdoptedReach {
  bool by_peer = false;  ///< this rank's, by the peer
  bool by_us = false;    ///< the peer's, by this rank
};

/// Whether a put or a written word wakes the peer, and when.
enum class Notify : std::uint8_t {
  optional,  ///< the peer polls or asks for the notification
  deferred,  ///< may be piggybacked on the next message to the peer; flushed at the latest when
             ///< this rank blocks
  always
};

/// The path to one peer. Thread-safety: put, start_get, write_word and notify may be called from
/// several threads for different words and ranges, resolve and direct from any thread; send and
/// share are the progress thread's.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual std::string_view fabric() const noexcept = 0;

  /// How many ways there are to the peer, of which a put may ask for one.
  virtual int queue_pairs() const noexcept { return 1; }

  /// Whether a put or get is a copy that the calling thread makes within the call: its memory here
  /// may lie anywhere in the process, and a put has ended when it returns.
  virtual bool copies() const noexcept { return false; }

  /// Fails when the peer's range is out of bounds, or, with Code::unreachable, in a chunk that is
  /// not known here yet: never trust what travelled. Any thread.
  virtual Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept = 0;
  /// The largest payload that may have its word behind it (PutWork::with_tail): a write puts its
  /// bytes into memory in their order. 0: none may. Constant once the path is up.
  virtual std::size_t tails_up_to() const noexcept { return 0; }
  /// The whole payload, then the sequence number: whoever sees the number sees the payload. The
  /// peer is woken if it sleeps, unless the word is behind it. The source is lent to the channel
  /// until outcome() has one, unless the answers say otherwise; memory outside
  /// LocalRank::reachable() is none, but for what a user adopted where adopted_reach() says that
  /// the peer reaches it. Code::exhausted: the fabric's queue is full and nothing was moved; try
  /// again.
  virtual Status put(PutWork& work) noexcept = 0;
  /// How a put ended that is under way: ok once its source may be written again and the peer can
  /// see the tensor; nullopt until then. Asking helps it along; when there is one, this rank's
  /// sleepers are woken. It comes in bounded time, need not be asked for, and may be asked again.
  virtual std::optional<Status> outcome(std::uint64_t posted) noexcept {
    (void)posted;
    return Status{};
  }
  /// Begins to read bytes of the peer into local memory, piece after piece: none is read before the
  /// one ahead of it was. Returns at once, but where copies() says that the call does all of it.
  virtual void start_get(Getting& get) noexcept = 0;
  /// How a get ended that was started: ok once all is here; nullopt until then. Asking helps it
  /// along, one thread at a time; when there is an outcome, this rank's sleepers are woken. Asked
  /// again, it answers the same.
  virtual std::optional<Status> get_outcome(Getting& get) noexcept = 0;
  /// The caller waits for it no more. True: from now on nothing of it is written here. False: a NIC
  /// may still write: object, pieces and memory stay lent until get_outcome() has one.
  virtual bool give_up_get(Getting& get) noexcept = 0;
  /// Fails the path of a get that could not be given up, because its memory must be freed. Returns
  /// when the NIC no longer writes there, or after a short bounded wait.
  virtual void cut_off(Getting& get) noexcept { (void)get; }
  /// An 8-byte word of the peer (a credit). Values of one word become visible in the order of the
  /// calls.
  virtual void write_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept = 0;
  /// Whether writing a word takes a request like a put's, so that one which nobody waits for had
  /// better not be written while something else is about to come.
  virtual bool words_take_requests() const noexcept { return false; }
  /// Wakes the peer if it sleeps: something that it reads here has changed.
  virtual void notify() noexcept = 0;
  /// Where this process may load from directly; null where the fabric has no such thing.
  virtual std::byte* direct(RemoteMemory memory) noexcept = 0;

  /// A control message (at most kMaxMessage bytes). Messages arrive whole and in order, or the path
  /// is lost. Each comes after every put and word that was posted here before it, since teardown
  /// counts on it; but for those that may_overtake_puts(): a fabric on which a large put takes long
  /// sends them past it.
  virtual void send(std::span<const std::byte> message) = 0;
  /// Makes the peer able to resolve a chunk of this rank before it gets any later message. What is
  /// known to it already costs nothing. False when that can't be done; the reason was logged.
  virtual bool share(std::uint32_t chunk) = 0;
  /// Progress thread: from now on the peer may put into these words. The answer travels to the
  /// peer, which names them by it (PutWork::notification_id). Throws Error(exhausted).
  virtual std::uint32_t expect(const ExpectedWords& words) {
    (void)words;
    return 0;
  }
  /// Of words that are not set in turn: a put that sets this one may write here, and nowhere else.
  /// Any thread, before the peer is told of the place.
  virtual void grant(std::uint32_t word, const MemoryRef& place) noexcept {
    (void)word;
    (void)place;
  }
  /// Progress thread: the peer won't put there any more.
  virtual void expect_no_more(std::uint32_t notification_id) noexcept { (void)notification_id; }
  /// Any thread.
  virtual AdoptedReach adopted_reach() const noexcept { return {}; }

  static constexpr std::size_t kMaxMessage = 2048;
  /// What the path cost by itself, counted by the channel where it is posted, on the progress
  /// thread.
  PathCounters& counters() noexcept { return *counters_; }
  /// From now on counts in `place`, which must outlive the channel; what was counted moves there.
  void count_in(PathCounters& place) noexcept {
    place.control_messages.add(counters_->control_messages.get());
    place.registrations.add(counters_->registrations.get());
    counters_ = &place;
  }

 private:
  PathCounters first_;
  PathCounters* counters_ = &first_;
};

/// What one connected peer takes of this rank.
struct PeerCost {
  std::uint64_t registered_bytes = 0;  ///< of memory that is registered with a NIC for it alone
  std::uint64_t queue_bytes = 0;       ///< of a NIC's queues; an estimate, drivers differ
  std::uint32_t completions = 0;       ///< entries of completion queues set aside for it
};

/// What a fabric tells the mesh, on the progress thread.
class FabricEvents {
 public:
  virtual ~FabricEvents() = default;
  /// The path to a rank is up; once per rank. The fabric may refer to the channel as long as it
  /// lives itself.
  virtual void connected(int rank, std::unique_ptr<Channel> channel) = 0;
  /// In place of connected(): the path is made when it is first used, by either end. Until
  /// in_use() its channel only keeps what is to be sent.
  virtual void reachable(int rank, std::unique_ptr<Channel> channel) = 0;
  /// A path that was said to be reachable is being made, or has been.
  virtual void in_use(int rank) = 0;
  /// A control message that `rank` sent by its channel.
  virtual void message(int rank, std::span<const std::byte> bytes) = 0;
  /// The rank is dead, or its path lost for good. What it had sent before was delivered; from now
  /// on nothing of it reaches this rank's memory.
  /// `why`: ok, it is its process that ended; otherwise peer_failed, path_failed, or system for a
  /// defect.
  virtual void lost(int rank, const Status& why = {}) = 0;
  /// The path does not work any more, but the rank may still write: unless it has left in order, it
  /// is dying or to be fenced.
  virtual void broken(int rank) = 0;
  /// This rank itself lacks what it needs to connect (descriptors, memory).
  virtual void short_of(const Error& error) = 0;
};

/// One way of reaching ranks. Order of use: listen() for this rank's address, open() with
/// everybody's, connect() for each rank that is reached by this fabric. The mesh owns its channels,
/// which go before it.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const noexcept = 0;

  /// Whether two ranks can meet by this fabric, with the reason either way.
  virtual FabricVerdict reaches(const RankAddress& own, const RankAddress& peer) const = 0;
  /// Gets ready to be connected to and adds to the rank's address what others need for it. Throws
  /// Error(system).
  virtual void listen(RankAddress& own) = 0;
  /// Progress thread: from now on ranks of the job are let in. `job` is by rank.
  virtual void open(const std::vector<RankAddress>& job) = 0;
  /// Progress thread: begins to connect to a rank, this one included, and to watch over it; or
  /// expects that rank to do so. Ends in connected(), reachable(), lost() or short_of(),
  /// perhaps at once.
  virtual void connect(int rank) = 0;
  /// Progress thread: the rank was declared dead. Makes sure that no byte of it arrives any more,
  /// and says lost() once that is so. False when that can't be done.
  virtual bool fence(int rank) = 0;
  /// Once a rank is connected.
  virtual PeerCost peer_cost() const noexcept { return {}; }
  /// The rank goes, and progress has stopped: returns once what its channels sent has arrived, or
  /// soon.
  virtual void drain() noexcept {}
};

class LocalRank;
/// The fabrics of a rank, the best first. They refer to both arguments as long as they live.
using MakeFabrics = std::function<std::vector<std::unique_ptr<Fabric>>(LocalRank&, FabricEvents&)>;

}  // namespace weft::p2p
