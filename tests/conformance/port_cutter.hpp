// Cuts the ports of ranks that are threads of one process while a body runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "weft/report.hpp"
#include "weft/world.hpp"

namespace weft::conformance {

/// Cuts one port of one rank until all that use it have lost it, gives it back, waits until it is
/// back, and so on, as long as there are worlds. Each is there from the construction of a `Watched`
/// to its destruction.
class PortCutter {
 public:
  PortCutter(p2p::verbs::fake::FakeNetwork& network, int ranks, int ports, std::uint64_t seed)
      : network_(network), ranks_(ranks), ports_(ports), random_(seed), thread_([this] {
          run();
        }) {}
  ~PortCutter() {
    is_over_ = true;
    thread_.join();
  }
  /// By all of them, so far.
  static std::atomic<int>& cuts() {
    static std::atomic<int> count{0};
    return count;
  }
  class Watched {
   public:
    Watched(PortCutter& cutter, World& world) : cutter_(cutter), rank_(world.rank()) {
      const std::lock_guard lock(cutter_.mutex_);
      cutter_.worlds_[rank_] = &world;
    }
    ~Watched() {
      const std::lock_guard lock(cutter_.mutex_);
      cutter_.worlds_.erase(rank_);
      cutter_.has_gone_ = true;
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    PortCutter& cutter_;
    const int rank_;
  };

 private:
  template <typename Holds>
  bool wait_until(const Holds& holds) {
    while (!is_over_) {
      {
        const std::lock_guard lock(mutex_);
        if (has_gone_) return false;
        if (static_cast<int>(worlds_.size()) == ranks_ && holds()) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool are_all_up() const {
    return std::ranges::all_of(worlds_, [this](const auto& of) {
      const Report report = of.second->report();
      return std::ranges::all_of(report.paths, [this](const PathReport& path) {
        return path.rails_back == path.rails_lost &&
               static_cast<int>(path.rails.size()) == ports_ &&
               std::ranges::all_of(path.rails, &RailReport::up);
      });
    });
  }
  /// By the paths of `rank`, and at their other ends.
  bool have_lost(int rank, std::size_t port) const {
    const auto is_down = [port](const PathReport& path) { return !path.rails[port].up; };
    return std::ranges::all_of(worlds_, [&](const auto& of) {
      const Report report = of.second->report();
      return std::ranges::all_of(report.paths, [&](const PathReport& path) {
        return (of.first != rank && path.peer != rank) || is_down(path);
      });
    });
  }
  void cut(int rank, const std::string& nic, bool is_silent, bool is_cut) {
    if (is_silent)
      network_.isolate_nic(rank, nic, is_cut);
    else
      network_.set_nic_port(rank, nic, !is_cut);
  }
  void run() {
    while (wait_until([this] { return are_all_up(); })) {
      const auto below = [this](int most) {
        return static_cast<int>(random_() % static_cast<unsigned>(most));
      };
      std::this_thread::sleep_for(std::chrono::milliseconds(below(10)));
      const int rank = below(ranks_);
      const int port = below(ports_);
      const std::string nic = "fake" + std::to_string(port);
      const bool is_silent = below(2) == 0;
      cut(rank, nic, is_silent, true);
      ++cuts();
      (void)wait_until([&] { return have_lost(rank, static_cast<std::size_t>(port)); });
      std::this_thread::sleep_for(std::chrono::milliseconds(below(10)));
      cut(rank, nic, is_silent, false);
    }
  }

  p2p::verbs::fake::FakeNetwork& network_;
  const int ranks_;
  const int ports_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::map<int, World*> worlds_;  ///< by rank
  bool has_gone_ = false;         ///< a world
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace weft::conformance
