// The models of the paper's table 1, as the tensors that a training step of each moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::bench {

/// A model with the shapes of its variables in layer order. The paper gives names, bytes and
/// numbers of tensors; the layers are those of the published models that match all three (10
/// classes for the image models, 1000 units and words for the recurrent ones).
struct Model {
  std::string_view name;
  std::vector<std::vector<std::int64_t>> shapes;

  /// Elements of a tensor; bytes of all tensors as f32.
  std::size_t elements(std::size_t tensor) const noexcept;
  std::size_t bytes() const noexcept;
};

/// In ascending order of size.
std::span<const Model> models();

/// The model of that size. Throws std::runtime_error with all names and sizes if there is none.
const Model& model_of(std::size_t bytes);

/// The model of that name. Throws std::runtime_error with all names if there is none.
const Model& model_called(std::string_view name);

/// A tensor, or a part of it, that one server adds up: a small tensor is whole on one server, a
/// larger one is split in half over both.
struct Part {
  std::size_t tensor = 0;
  std::size_t first = 0;  ///< first element
  std::size_t count = 0;
  int server = 0;
};

/// All parts, in the order of their tensors.
std::vector<Part> parts_of(const Model& model);

/// The same for any number of servers: a variable larger than a server's share of the model is cut
/// into parts of such a size; then the largest go first, each to the server with the fewest bytes.
std::vector<Part> shares_of(const Model& model, int servers);

/// Steps of one measurement, equal on every rank: as many as fit the budget on a machine that moves
/// 2 bytes per nanosecond, from 3 to 50.
std::uint64_t replayed_steps(std::size_t model_bytes, std::int64_t budget_ms) noexcept;

/// Steps before a measurement, which touch memory and establish connections.
inline constexpr std::uint64_t kReplayWarmUp = 2;

}  // namespace weft::bench
