// The random choices of a training run: first values, and the images of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "images.hpp"
#include "network.hpp"

namespace images {

/// Fills the weights, not the biases; a function of `seed`. Source: He, Zhang, Ren, Sun 2015.
void initialize(const Weights& weights, const Images& images, std::uint64_t seed);

/// Draws images at random, different ones on each rank. The last held_back() are never drawn.
class Draws {
 public:
  Draws(const Images& images, std::uint64_t seed, int rank);

  std::size_t held_back() const noexcept { return held_back_; }
  /// The number of an image.
  std::size_t next() { return random_() % (count_ - held_back_); }

 private:
  std::size_t count_;
  std::size_t held_back_;
  std::mt19937_64 random_;
};

}  // namespace images
