// The network between the ranks of a simulation: connections, and operations under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "p2p/transport/fabric.hpp"
#include "p2p/transport/remote_chunks.hpp"
#include "p2p/transport/sim/options.hpp"
#include "p2p/transport/sim/scheduler.hpp"
#include "p2p/transport/sim/sim_rank.hpp"

namespace weft::p2p::sim {

/// One direction of a connection: what `from` does to `to`. Operations under way hold it.
struct Path {
  using Time = Clock::time_point;

  /// `first_word`: the number of the first word that is expected.
  Path(int from_rank, int to_rank, std::uint32_t first_word)
      : from(from_rank), to(to_rank), expected({.first = first_word}), known(to_rank) {}

  const int from;
  const int to;
  NotificationTable expected;  ///< what `from` expects of `to`
  Time opened{};               ///< `to` knows of the connection from then on
  Time ends = Time::max();     ///< what arrives later is lost
  Time last_operation{};       ///< arrival of the last put or word that kept to the order
  Time settled{};              ///< arrival of the last of all puts and words so far
  Time last_message{};
  std::unordered_map<std::uint64_t, Time> words = {};    ///< by place: arrival of the last value
  std::unordered_map<std::uint32_t, Time> signals = {};  ///< the same by number
  RemoteChunks known;                                    ///< chunks of `to` that `from` may name
};

/// One thread, as all of a simulation.
class Network {
 public:
  Network(int size, const SimOptions& options, Scheduler& scheduler);
  ~Network();

  Scheduler& scheduler() noexcept { return scheduler_; }
  const SimOptions& options() const noexcept { return options_; }
  SimRank& rank(int rank) noexcept { return *ranks_[static_cast<std::size_t>(rank)]; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }

  /// Something was done that no fabric bears.
  void defect(std::string what) { defects_.push_back(std::move(what)); }
  const std::vector<std::string>& defects() const noexcept { return defects_; }

  // A rank's fabric comes with its world and goes with it: nothing arrives at a rank without one.
  void attach(int rank, LocalRank& local, FabricEvents& events);
  void detach(int rank) noexcept;

  /// `from` is ready to be connected to `to`; a pair is connected once both are.
  void connect(int from, int to);
  /// Breaks a connection: both sides hear of it, each in its time.
  void drop(int a, int b);
  /// `at` wants nothing more of `peer` to arrive.
  void fence(int at, int peer);

  /// How long the next operation takes.
  std::chrono::nanoseconds latency();
  /// When an operation on `path` that begins now arrives, order and faults considered.
  Path::Time arrival(Path& path);
  /// Memory of the rank that a path leads to, while something may arrive there by it now.
  std::byte* memory(const Path& path, RemoteMemory at);
  /// `act` at `when`, with the memory of the rank that the path leads to; not at all if nothing may
  /// arrive there any more.
  void arrive(std::shared_ptr<Path> path, Path::Time when, RemoteMemory at,
              std::function<void(std::byte*)> act);
  /// A put's notification is here. False when nothing may arrive any more.
  bool notify(const Path& path, std::uint32_t notification_id, std::uint64_t sequence,
              RemoteMemory word);
  void ring(const std::shared_ptr<Path>& path, Path::Time when);
  void send(const std::shared_ptr<Path>& path, std::span<const std::byte> message);
  /// `path.to` may name a chunk of `path.from` from then on; in the order of the messages.
  void share(const std::shared_ptr<Path>& path, std::uint32_t chunk, std::size_t bytes);

 private:
  struct Side {
    FabricEvents* events = nullptr;
    bool is_gone = false;                      ///< its world has been, and is no more
    std::vector<std::shared_ptr<Path>> paths;  ///< from here, by rank; null: not connected
    std::vector<bool> ready;                   ///< to be connected to, by rank
  };
  Side& side(int rank) noexcept { return sides_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<Path>& path(int from, int to) noexcept {
    return side(from).paths[static_cast<std::size_t>(to)];
  }
  /// `path.from` hears of the connection, whose other direction is `back`.
  void open(const std::shared_ptr<Path>& path, Path& back);
  void on_death(int rank);
  void lose(int rank, int peer, const Status& why = {});
  /// The operations that a message must come after.
  enum class Behind : std::uint8_t { messages, all };
  void deliver(const std::shared_ptr<Path>& path, Behind behind,
               std::function<void(FabricEvents&)> act);

  const SimOptions options_;
  Scheduler& scheduler_;
  std::vector<std::unique_ptr<SimRank>> ranks_;
  std::vector<Side> sides_;
  std::vector<std::string> defects_;
};

}  // namespace weft::p2p::sim
