#include "start.hpp"

#include <algorithm>
#include <cmath>

namespace images {
namespace {

constexpr std::size_t kHeldBack = 500;

}  // namespace

void initialize(const Weights& weights, const Images& images, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  const auto fill = [&](std::span<float> values, double inputs) {
    std::normal_distribution<float> normal(0.0F, static_cast<float>(std::sqrt(2.0 / inputs)));
    for (float& value : values) value = normal(random);
  };
  fill(weights.first, 9.0 * images.channels);
  fill(weights.second, 9.0 * Network::kFirst);
  fill(weights.classes, static_cast<double>(weights.classes.size() / kClasses));
}

Draws::Draws(const Images& images, std::uint64_t seed, int rank)
    : count_(images.count()),
      held_back_(std::min(kHeldBack, images.count() / 5)),
      random_(seed + static_cast<std::uint64_t>(rank)) {}

}  // namespace images
