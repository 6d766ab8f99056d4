#include "batches.hpp"

#include "random.hpp"

namespace charlm {

Batches::Batches(std::span<const std::int32_t> tokens, int length, int global_batch, int rank,
                 int ranks, std::uint64_t seed)
    : tokens_(tokens),
      length_(length),
      sequences_(global_batch / ranks),
      first_(rank * sequences_),
      seed_(seed) {}

std::size_t Batches::window(std::uint64_t step, int index) const noexcept {
  const std::uint64_t drawn =
      scramble(scramble(scramble(seed_ + 1) + step + 1) + static_cast<std::uint64_t>(index) + 1);
  return drawn % (tokens_.size() - static_cast<std::size_t>(length_));
}

void Batches::fill(std::uint64_t step, Batch& out) const {
  const auto length = static_cast<std::size_t>(length_);
  const auto width = static_cast<std::size_t>(sequences_);
  out.inputs.resize(length * width);
  out.targets.resize(length * width);
  for (std::size_t s = 0; s < width; ++s) {
    const std::size_t start = window(step, first_ + static_cast<int>(s));
    for (std::size_t t = 0; t < length; ++t) {
      out.inputs[t * width + s] = tokens_[start + t];
      out.targets[t * width + s] = tokens_[start + t + 1];
    }
  }
}

}  // namespace charlm
