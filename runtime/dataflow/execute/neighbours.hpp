// News of failed steps between ranks that have edges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "weft/partition.hpp"
#include "weft/signal.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// A rank whose step has failed tells the ranks that it has edges with, and each of them the next
/// ones, so that no rank waits for a tensor that never comes.
class Neighbours {
 public:
  /// Throws Error: as Signal::expose and RemoteSignal::attach.
  Neighbours(World& world, const Plan& plan, const std::string& name);
  /// Attaches to the signals that all neighbours have exposed or are about to expose.
  void attach(Deadline deadline);

  struct News {
    int from = -1;         ///< the neighbour
    int origin = -1;       ///< the rank that the failure began at
    bool is_gone = false;  ///< since it had died or left, not by an error of its own
    NodeId node = -1;      ///< of the origin's part, that failed; -1: none in particular
  };
  /// Any thread.
  std::optional<News> news() const noexcept;
  /// The same of one neighbour.
  std::optional<News> news_from(int rank) const noexcept;
  /// Called once.
  void tell(const News& news) noexcept;

 private:
  static constexpr std::uint64_t kGone = std::uint64_t{1} << 31;

  static std::optional<News> news_of(int rank, const Signal& signal) noexcept;
  std::string name_of(int from) const;

  World& world_;
  const std::string name_;
  std::map<int, Signal> own_;  ///< by neighbour; 1 + the origin, kGone, (1 + the node) << 32
  std::map<int, RemoteSignal> remote_;
};

}  // namespace weft::dataflow
