// Gradients whose sum tells, in every part of a table, which pushes are in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/consistency.hpp"

namespace weft::tests {

/// Workers' pushes count from 1, over all the jobs of a table.
inline constexpr std::size_t kMostPushes = 36;

/// Each push's share, worker by worker; 0: the push is not in the value. See PushCode.
using PushShares = std::vector<std::uint8_t>;

constexpr std::size_t share_index(std::size_t worker, std::size_t push) noexcept {
  return worker * kMostPushes + push - 1;
}

/// A table of sgd(1) that starts at zero consists of **cells** of `cell()` elements; every cell
/// holds the same code and lies on one server. A push has a digit of its own, in an element that no
/// other worker writes; a gradient is `unit()` at that digit, so after the mean over n contributors
/// it adds `unit()` / n, its **share**. A value that mixes two versions therefore shows different
/// pushes in different cells, and a push that was applied twice shows twice its share.
class PushCode {
 public:
  /// At most 4 workers.
  PushCode(const pslib::Consistency& consistency, std::size_t workers);

  std::size_t cell() const noexcept { return cell_; }
  /// The sum of all shares of one update.
  std::uint64_t unit() const noexcept { return unit_; }
  /// The gradient of a worker's push.
  void write(std::span<float> cells, std::size_t worker, std::size_t push) const;
  /// The shares in a cell; nullopt if no pushes produce such values.
  std::optional<PushShares> read(std::span<const float> cell) const;

 private:
  std::size_t element(std::size_t worker, std::size_t push) const noexcept;
  unsigned shift(std::size_t push) const noexcept;

  std::size_t workers_;
  std::size_t cell_;
  unsigned bits_;       // of a digit
  std::size_t digits_;  // in an element, so that floats hold them all exactly
  std::uint64_t unit_;
};

}  // namespace weft::tests
