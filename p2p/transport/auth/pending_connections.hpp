// Connections whose other end has not yet proved who it is: which of them must go.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "weft/deadline.hpp"

namespace weft::p2p {

/// Accepting never pauses. Where there are too many connections, the oldest goes of whatever source
/// has the most of them, so that one source can't push out another's. Those that have sent a valid
/// first record are counted apart from those that have not: silence costs only the silent.
/// One thread at a time.
class PendingConnections {
 public:
  /// Never used again.
  using Id = std::uint64_t;
  /// An address, or a process.
  using Source = std::array<std::byte, 16>;
  /// How many connections may stay.
  struct Limits {
    std::size_t silent = 0;
    std::size_t spoken = 0;
  };

  /// Throws std::bad_alloc, as spoke() does; then nothing has changed.
  Id enter(const Source& source, Clock::time_point now = Clock::now());
  /// A valid first record has come.
  void spoke(Id id);
  void leave(Id id);

  std::size_t size() const noexcept { return connections_.size(); }
  bool empty() const noexcept { return connections_.empty(); }
  /// One that must go within these limits.
  std::optional<Id> surplus(const Limits& limits) const;
  /// The one to close first when descriptors are used up.
  std::optional<Id> spare() const;
  /// Those that entered `patience` ago or earlier.
  std::vector<Id> late(Clock::time_point now, std::chrono::nanoseconds patience) const;

 private:
  struct Connection {
    Source source{};
    Clock::time_point since;
    bool spoke = false;
  };
  using Counts = std::map<Source, std::size_t>;

  void count_in(const Connection& connection);
  void count_out(const Connection& connection);
  std::optional<Id> oldest_of_most(bool spoke) const;

  Id last_ = 0;
  std::map<Id, Connection> connections_;  ///< the oldest first
  std::array<Counts, 2> counts_;          ///< by whether they have spoken
  std::array<std::size_t, 2> totals_{};   ///< likewise
};

}  // namespace weft::p2p
