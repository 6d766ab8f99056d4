#include "tests/toy_fabric/toy_fabric.hpp"

#include <atomic>
#include <cstring>
#include <set>
#include <utility>

namespace weft::toy {
namespace {

using p2p::FabricKind;

std::byte* pointer(p2p::RemoteMemory memory) noexcept {
  return reinterpret_cast<std::byte*>(memory.address);  // NOLINT: an address is what it holds
}

std::atomic<std::uint64_t>& word_at(p2p::RemoteMemory memory) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(pointer(memory));
}

/// A RemoteMemory is a pointer into the peer's memory. Puts and gets are copies within the call.
class ToyChannel final : public p2p::Channel {
 public:
  /// Keeps the peer's arenas alive: a copy may be under way when the peer goes.
  ToyChannel(ToyNetwork& network, p2p::LocalRank& local, p2p::LocalRank& peer)
      : Channel(FabricKind::loopback),
        network_(network),
        path_(network.path(local.rank, peer.rank)),
        local_(local),
        arenas_{peer.control, peer.data, peer.published} {
    capabilities_.copies = true;
    capabilities_.peer_reaches_adopted = true;
  }

  Status put(p2p::PutWork& work) noexcept override {
    {
      const std::lock_guard lock(path_.mutex);
      if (path_.is_closed)
        return Status(ErrorDetail{.code = Code::peer_failed, .operation = "put", .peer = path_.to});
      std::byte* to = pointer(work.payload);
      if (work.parts.empty()) std::memcpy(to, work.source, work.bytes);
      for (const Tensor& part : work.parts)
        for_each_run(part, [&to](const std::byte* from, std::size_t bytes) {
          std::memcpy(to, from, bytes);
          to += bytes;
        });
      word_at(work.sequence_word).store(work.sequence);
    }
    notify();
    return {};
  }
  std::optional<Status> poll_put(std::uint64_t) noexcept override { return Status{}; }
  void get(p2p::Get& get) noexcept override {
    get.engine = nullptr;
    get.end = {};
    for (const p2p::GetWork& piece : get.pieces) {
      std::memcpy(piece.to, pointer(piece.from), piece.bytes);
      std::atomic_thread_fence(std::memory_order_acquire);
    }
  }
  void put_word(p2p::RemoteMemory word, std::uint64_t value, p2p::Notify) noexcept override {
    {
      const std::lock_guard lock(path_.mutex);
      if (!path_.is_closed) word_at(word).store(value);
    }
    notify();
  }
  void notify() noexcept override { network_.ring(path_.to); }
  void send(std::span<const std::byte> message) override {
    counters().control_messages.add(1);
    network_.post(path_.to,
                  [from = path_.from, bytes = std::vector(message.begin(), message.end())](
                      p2p::FabricEvents& events) { events.message(from, bytes); });
  }
  Result<p2p::RemoteMemory> resolve(const p2p::MemoryRef& ref) noexcept override {
    return path_.known.resolve(ref);
  }
  bool export_region(std::uint32_t chunk) override {
    if (!exported_.insert(chunk).second) return true;
    std::byte* first = nullptr;
    std::uint64_t bytes = 0;
    if (p2p::sort_of_chunk(chunk) == p2p::ArenaSort::adopted) {
      const auto region = local_.adopted->region(chunk);
      if (!region) return true;  // it was given back
      first = region->data;
      bytes = region->bytes;
    } else {
      first = local_.arena_of(chunk)->chunk_data(chunk);
      bytes = local_.arena_of(chunk)->chunk_bytes(chunk);
    }
    network_.path(path_.to, path_.from)
        .known.add(chunk, {reinterpret_cast<std::uint64_t>(first), 0}, bytes);
    network_.ring(path_.to);  // a thread may wait for this chunk
    return true;
  }
  std::byte* map(p2p::RemoteMemory) noexcept override { return nullptr; }

 private:
  ToyNetwork& network_;
  ToyNetwork::Path& path_;
  p2p::LocalRank& local_;
  const std::vector<std::shared_ptr<p2p::Arena>> arenas_;
  std::set<std::uint32_t> exported_;
};

class ToyFabric final : public p2p::Fabric {
 public:
  ToyFabric(ToyNetwork& network, p2p::LocalRank& local, p2p::FabricEvents& events)
      : network_(network), rank_(local.rank), size_(local.size) {
    network_.attach(local, events);
    given_back_ = local.adopted->on_release([this](std::uint32_t chunk) {
      for (int peer = 0; peer < size_; ++peer) network_.path(peer, rank_).known.remove(chunk);
    });
  }
  ~ToyFabric() override { network_.detach(rank_); }

  FabricKind kind() const noexcept override { return FabricKind::loopback; }
  p2p::Reach reaches(const p2p::RankAddress&, const p2p::RankAddress&) const override {
    return {true, "one process"};
  }
  void listen(p2p::RankAddress&) override {}
  void open(const std::vector<p2p::RankAddress>&) override {}
  void connect(int rank) override { network_.connect(rank_, rank); }
  bool fence(int rank) override {
    network_.close(rank_, rank);
    network_.post(rank_, [rank](p2p::FabricEvents& events) { events.lost(rank); });
    return true;
  }

 private:
  ToyNetwork& network_;
  const int rank_;
  const int size_;
  p2p::AdoptedMemory::Listener given_back_;
};

}  // namespace

ToyNetwork::ToyNetwork(int size) : size_(size), sides_(static_cast<std::size_t>(size)) {
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) paths_.push_back(std::make_unique<Path>(from, to));
}

p2p::MakeFabrics ToyNetwork::fabrics() {
  return [this](p2p::LocalRank& local, p2p::FabricEvents& events) {
    std::vector<std::unique_ptr<p2p::Fabric>> all;
    all.push_back(std::make_unique<ToyFabric>(*this, local, events));
    return all;
  };
}

void ToyNetwork::attach(p2p::LocalRank& local, p2p::FabricEvents& events) {
  const std::lock_guard lock(mutex_);
  side(local.rank) = {&local, &events};
}

void ToyNetwork::detach(int rank) noexcept {
  for (int peer = 0; peer < size_; ++peer) close(rank, peer);
  const std::lock_guard lock(mutex_);
  side(rank) = {.is_gone = true};
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank && path(peer, rank).is_ready)
      post(peer, [rank](p2p::FabricEvents& events) { events.lost(rank); });
}

void ToyNetwork::close(int a, int b) {
  for (Path* path : {&path(a, b), &path(b, a)}) {
    const std::lock_guard lock(path->mutex);
    path->is_closed = true;
  }
}

void ToyNetwork::connect(int from, int to) {
  const std::lock_guard lock(mutex_);
  path(from, to).is_ready = true;
  if (side(to).is_gone) return post(from, [to](p2p::FabricEvents& events) { events.lost(to); });
  if (!path(to, from).is_ready) return;
  const auto open = [this](int at, int peer) {
    auto channel = std::make_shared<std::unique_ptr<p2p::Channel>>(
        std::make_unique<ToyChannel>(*this, *side(at).local, *side(peer).local));
    post(at, [peer, channel](p2p::FabricEvents& events) {
      events.connected(peer, std::move(*channel));
    });
  };
  open(to, from);
  if (from != to) open(from, to);
}

void ToyNetwork::post(int rank, std::function<void(p2p::FabricEvents&)> act) {
  const std::lock_guard lock(mutex_);
  const Side& to = side(rank);
  if (to.local == nullptr) return;
  to.local->progress.post([events = to.events, act = std::move(act)] { act(*events); });
}

void ToyNetwork::ring(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  if (side(rank).local != nullptr) side(rank).local->ring();
}

}  // namespace weft::toy
