// A limit that is the best of several ways to do the same.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The ways in which a limit is tried, and their times. A way that is far slower than the best one
/// is dropped after a few tries, so that trying it costs a run little.
class LimitWays {
 public:
  /// At least one name.
  explicit LimitWays(std::vector<std::string> names);

  std::size_t count() const noexcept { return ways_.size(); }
  bool is_dropped(std::size_t way) const noexcept { return ways_[way].dropped; }
  /// Adds a time of a way. The first one of each is not kept: it warms up.
  void add(std::size_t way, double us);
  /// Drops what is far slower than the best. To be called when each way that is left has the same
  /// number of times.
  void drop_slow();

  /// The row of weft's samples and of the way with the least median among those never dropped:
  /// "weft", "limit" and "weft/limit"; with several ways also the median of each, "limit_NAME".
  /// Times of ways are multiplied by `scale`.
  RunRow compared(std::size_t size, std::string_view kind, std::span<const double> weft,
                  double scale = 1) const;

 private:
  struct Way {
    std::string name;
    bool is_warm = false;
    bool dropped = false;
    std::vector<double> times{};
  };
  std::vector<Way> ways_;
};

}  // namespace weft::bench
