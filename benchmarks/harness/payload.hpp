// Operations on a benchmark's buffers: the same machine code for weft, the limit and the peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::bench {

/// Rewrites the whole buffer with the pattern of (`bytes`, `iteration`).
void fill(void* buffer, std::size_t bytes, std::uint64_t iteration) noexcept;

/// True if every byte is as fill() wrote it.
bool holds(const void* buffer, std::size_t bytes, std::uint64_t iteration) noexcept;

/// Reads one word of every cache line; the compiler can't omit the reads.
void touch(const void* buffer, std::size_t bytes) noexcept;

/// Rewrites a whole f32 tensor; its largest element differs between iterations.
void fill_floats(float* to, std::size_t count, std::uint64_t iteration) noexcept;

/// The largest of at least one element; none may be NaN.
float largest(const float* elements, std::size_t count) noexcept;

/// Keeps the compiler from omitting the computation of `value`.
inline void keep(float value) noexcept { asm volatile("" : : "g"(&value) : "memory"); }

/// Writes gradient[i] = (i + iteration) % 7: sums over iterations are whole numbers that f32
/// represents exactly.
void fill_gradient(float* gradient, std::size_t count, std::uint64_t iteration) noexcept;

/// parameters -= gradient: gradient descent at learning rate 1, as a bare loop.
void apply_gradient(float* parameters, const float* gradient, std::size_t count) noexcept;

/// parameters -= a + b: a step of two workers.
void apply_gradients(float* parameters, const float* a, const float* b, std::size_t count) noexcept;

/// parameters -= sum of four workers' gradients.
void apply_gradients(float* parameters, const std::array<const float*, 4>& gradients,
                     std::size_t count) noexcept;

/// The expected parameters after a sequence of fill_gradient() gradients, starting at 0.
class ExpectedParameters {
 public:
  void add(std::uint64_t iteration) noexcept;
  bool match(const float* parameters, std::size_t count) const noexcept;

 private:
  static constexpr std::size_t kPeriod = 7;
  float sums_[kPeriod] = {};
};

}  // namespace weft::bench
