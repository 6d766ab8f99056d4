#include "tests/toy_fabric/toy_fabric.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include "p2p/progress/fences.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/remote_chunks.hpp"

namespace weft::toy {

using namespace p2p;

class ToyFabric final : public Fabric {
 public:
  ToyFabric(ToyNetwork& network, LocalRank& local, FabricEvents& events)
      : network_(network), local_(local), events_(events) {}
  ~ToyFabric() override {
    const std::lock_guard lock(network_.mutex);
    network_.ranks.erase(local_.rank);
    for (const auto& [rank, peer] : network_.ranks)
      if (peer != nullptr && peer->joined_.contains(local_.rank)) peer->lose(local_.rank, {});
  }

  FabricKind kind() const noexcept override { return FabricKind::loopback; }
  Reach reaches(const RankAddress&, const RankAddress&) const override {
    return {true, "a thread of this process"};
  }
  void listen(RankAddress&) override {
    const std::lock_guard lock(network_.mutex);
    network_.ranks[local_.rank] = this;
  }
  void open(const std::vector<RankAddress>&) override {}
  void connect(int rank) override;
  bool fence(int rank) override {
    const std::lock_guard lock(network_.mutex);
    joined_.erase(rank);
    lose(rank, broken(rank));
    return true;
  }

 private:
  friend class ToyChannel;

  /// Calls `act` with the peer's fabric, which stays meanwhile. Fails once either end has gone or
  /// fenced the other.
  template <typename Act>
  Status with_peer(int rank, const Act& act) {
    const std::lock_guard lock(network_.mutex);
    ToyFabric* const peer = network_.ranks[rank];
    if (peer == nullptr || !joined_.contains(rank) || !peer->joined_.contains(local_.rank))
      return broken(rank);
    act(*peer);
    return {};
  }
  RemoteChunks& chunks_of(int rank) { return chunks_.try_emplace(rank, rank).first->second; }
  /// A task, so that it comes after what the rank sent.
  void lose(int rank, const Status& why) {
    local_.progress.post([this, rank, why] { events_.lost(rank, why); });
  }
  static Status broken(int rank) {
    return Status(ErrorDetail{
        .code = Code::path_failed, .operation = "toy", .message = "the path is cut", .peer = rank});
  }

  ToyNetwork& network_;
  LocalRank& local_;
  FabricEvents& events_;
  // Guarded by the network's mutex.
  std::set<int> joined_;                ///< ranks that this one has connected to and not fenced
  std::map<int, RemoteChunks> chunks_;  ///< of each rank
};

/// A RemoteMemory's address is a pointer: all ranks share one mapping of every chunk.
class ToyChannel final : public Channel {
 public:
  ToyChannel(ToyFabric& fabric, int peer)
      : Channel(FabricKind::loopback, fabric.local_.stats->path(peer).counters),
        fabric_(fabric),
        own_(fabric.local_),
        peer_(peer) {
    capabilities_.copies = !fabric.network_.paced;
  }

  Status put(PutWork& work) noexcept override {
    if (fabric_.network_.on_put) fabric_.network_.on_put(work);
    if (fabric_.network_.clock_stands.load()) return post(work);
    return fabric_.with_peer(peer_, [&](ToyFabric& peer) {
      auto* to = reinterpret_cast<std::byte*>(work.payload.address);
      const auto append = [&](const std::byte* from, std::size_t bytes) {
        to = std::copy_n(from, bytes, to);
      };
      if (work.parts.empty()) append(work.source, work.bytes);
      for (const Tensor& part : work.parts) for_each_run(part, append);
      store(work.sequence_word, work.sequence);
      peer.local_.ring();
    });
  }
  std::optional<Status> poll_put(std::uint64_t posted) noexcept override {
    const std::lock_guard lock(fabric_.network_.mutex);
    return posted <= fabric_.network_.arrived ? std::optional(Status()) : std::nullopt;
  }
  void get(Get& get) noexcept override {
    get.engine = nullptr;
    get.end = fabric_.with_peer(peer_, [&](ToyFabric&) {
      for (const GetWork& piece : get.pieces) {
        std::copy_n(reinterpret_cast<std::byte*>(piece.from.address), piece.bytes, piece.to);
        load_barrier();
      }
    });
  }
  void put_word(RemoteMemory word, std::uint64_t value, Notify) noexcept override {
    (void)fabric_.with_peer(peer_, [&](ToyFabric& peer) {
      store(word, value);
      peer.local_.ring();
    });
  }
  void notify() noexcept override {
    (void)fabric_.with_peer(peer_, [](ToyFabric& peer) { peer.local_.ring(); });
  }
  void send(std::span<const std::byte> message) override {
    counters().control_messages.add(1);
    (void)fabric_.with_peer(peer_, [&](ToyFabric& peer) {
      peer.local_.progress.post(
          [&peer, from = own_.rank, bytes = std::vector(message.begin(), message.end())] {
            peer.events_.message(from, bytes);
          });
    });
  }
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override {
    const std::lock_guard lock(fabric_.network_.mutex);
    return fabric_.chunks_of(peer_).resolve(ref);
  }
  bool export_region(std::uint32_t chunk) override {
    const Arena& arena = *own_.arena_of(chunk);
    if (!arena.has_chunk(chunk)) return false;  // adopted memory is copied into an arena first
    const auto first = reinterpret_cast<std::uint64_t>(arena.chunk_data(chunk));
    const auto tell = [&](ToyFabric& peer) {
      peer.chunks_of(own_.rank).add(chunk, {first}, arena.chunk_bytes(chunk));
      peer.local_.ring();
    };
    return fabric_.with_peer(peer_, tell).ok();
  }
  std::byte* map(RemoteMemory) noexcept override { return nullptr; }

 private:
  /// One tensor's bytes that get there in their time. Requires that it is in one piece.
  Status post(PutWork& work) noexcept {
    return fabric_.with_peer(peer_, [&](ToyFabric& peer) {
      ToyNetwork& network = fabric_.network_;
      network.on_their_way.push_back(
          {work.bytes, [&peer, source = work.source, bytes = work.bytes, payload = work.payload,
                        word = work.sequence_word, sequence = work.sequence] {
             std::copy_n(source, bytes, reinterpret_cast<std::byte*>(payload.address));
             store(word, sequence);
             peer.local_.ring();
           }});
      work.posted = ++network.posted;
      work.source_is_free = false;
    });
  }
  static void store(RemoteMemory word, std::uint64_t value) noexcept {
    reinterpret_cast<std::atomic<std::uint64_t>*>(word.address)->store(value);
  }

  ToyFabric& fabric_;
  LocalRank& own_;
  const int peer_;
};

void ToyFabric::connect(int rank) {
  // Under the lock both ends are told before one can send.
  const std::lock_guard lock(network_.mutex);
  joined_.insert(rank);
  ToyFabric* const peer = network_.ranks[rank];
  if (peer == nullptr) return lose(rank, {});        // all have listened before one connects
  if (!peer->joined_.contains(local_.rank)) return;  // its connect() is still to come
  const auto tell = [](ToyFabric& at, int of) {
    at.local_.progress.post(
        [&at, of] { at.events_.connected(of, std::make_unique<ToyChannel>(at, of)); });
  };
  tell(*this, rank);
  if (peer != this) tell(*peer, local_.rank);
}

void ToyNetwork::tick(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  while (!on_their_way.empty()) {
    OnItsWay& first = on_their_way.front();
    const std::size_t moved = std::min(first.bytes, bytes);
    first.bytes -= moved;
    bytes -= moved;
    if (first.bytes != 0) return;
    first.arrive();
    ++arrived;
    on_their_way.pop_front();
  }
}

MakeFabrics ToyNetwork::fabrics() {
  return [this](LocalRank& local, FabricEvents& events) {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    fabrics.push_back(std::make_unique<ToyFabric>(*this, local, events));
    return fabrics;
  };
}

}  // namespace weft::toy
