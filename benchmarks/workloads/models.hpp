// The models of the paper's table 1, as the tensors that a training step of each moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::bench {

/// One model with the shapes of its variables, in the order of its layers. The paper gives names,
/// bytes and numbers of tensors; the layers are those of the published models with which the three
/// agree (10 classes for the pictures, 1000 units and words for the recurrent ones).
struct Model {
  std::string_view name;
  std::vector<std::vector<std::int64_t>> shapes;

  /// Elements of a tensor, and bytes of all of them as f32.
  std::size_t elements(std::size_t tensor) const noexcept;
  std::size_t bytes() const noexcept;
};

/// From the smallest to the largest.
std::span<const Model> models();

/// Throws std::runtime_error, listing names and bytes, when no model has so many.
const Model& model_of(std::size_t bytes);

/// Where a tensor's elements are added up: whole on one server when there are few, else a half on
/// each of two.
struct Part {
  std::size_t tensor = 0;
  std::size_t first = 0;  ///< element
  std::size_t count = 0;
  int server = 0;
};

/// All parts, in the order of their tensors.
std::vector<Part> parts_of(const Model& model);

/// Steps of one measurement, the same in every rank: about the budget's worth on a machine that
/// moves 2 bytes a nanosecond, 3 to 50.
std::uint64_t replayed_steps(std::size_t model_bytes, std::int64_t budget_ms) noexcept;

/// Steps before a measurement: memory is touched and connections are made in them.
inline constexpr std::uint64_t kReplayWarmUp = 2;

}  // namespace weft::bench
