// The path to one peer, through simulated time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "p2p/transport/sim/network.hpp"

namespace weft::p2p::sim {

/// Nothing of the peer can be loaded from here. A RemoteMemory is an offset, and its key the chunk.
class SimChannel final : public Channel, private GetEngine {
 public:
  SimChannel(Network& network, std::shared_ptr<Path> path);

  /// Reads the source only later, now and then but for those that are small.
  Status put(PutWork& work) noexcept override;
  std::optional<Status> poll_put(std::uint64_t posted) noexcept override;
  void get(Get& get) noexcept override;
  void put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept override;
  void notify() noexcept override;
  void send(std::span<const std::byte> message) override;
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override {
    return path_->known.resolve(ref);
  }
  bool export_region(std::uint32_t chunk) override;
  std::byte* map(RemoteMemory) noexcept override { return nullptr; }

 private:
  using Time = Path::Time;
  struct UnderWay;  ///< a put
  /// Bytes first, bytes up to: a range cut at random, on borders of 8 bytes.
  static std::vector<std::pair<std::size_t, std::size_t>> pieces_of(std::size_t bytes, bool torn,
                                                                    Random& random);
  void check_source(const PutWork& work) const;
  static void read_source(Network& network, const Path& path, UnderWay& put);
  /// When a word that would arrive at `when` may be seen: not before its last value.
  Time word_arrival(RemoteMemory word, Time when);
  void write_at(Time when, RemoteMemory word, std::uint64_t value);
  struct Reading;
  std::optional<Status> poll_get(Get& get) noexcept override;
  bool cancel_get(Get& get) noexcept override;
  void read_next(Get& get) noexcept;
  Status lost(const char* operation) const;

  Network& network_;
  SimRank& rank_;
  const std::shared_ptr<Path> path_;
  std::set<std::uint32_t> shared_;
  std::uint64_t last_posted_ = 0;
  std::map<std::uint64_t, std::shared_ptr<UnderWay>> under_way_;
};

}  // namespace weft::p2p::sim
