// What every side of a benchmark does with its buffers: the same machine code for weft, for the
// limit and for the peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::bench {

/// Rewrites the whole buffer with the pattern of (bytes, iteration).
void fill(void* buffer, std::size_t bytes, std::uint64_t iteration) noexcept;

/// Whether every byte is as fill() wrote it.
bool holds(const void* buffer, std::size_t bytes, std::uint64_t iteration) noexcept;

/// Reads one word of every cache line, in a way that the compiler cannot leave out.
void touch(const void* buffer, std::size_t bytes) noexcept;

/// Rewrites all of a tensor of f32; its largest element differs from iteration to iteration.
void fill_floats(float* to, std::size_t count, std::uint64_t iteration) noexcept;

/// The largest of at least one element, none of them a NaN.
float largest(const float* elements, std::size_t count) noexcept;

/// Uses a value that nobody else would.
inline void keep(float value) noexcept { asm volatile("" : : "g"(&value) : "memory"); }

/// A gradient whose sums over iterations are whole numbers that f32 holds exactly:
/// gradient[i] = (i + iteration) % 7.
void fill_gradient(float* gradient, std::size_t count, std::uint64_t iteration) noexcept;

/// parameters -= gradient: a step of gradient descent at learning rate 1, as a bare loop.
void apply_gradient(float* parameters, const float* gradient, std::size_t count) noexcept;

/// parameters -= a + b: two workers' step.
void apply_gradients(float* parameters, const float* a, const float* b, std::size_t count) noexcept;

/// parameters -= the sum of four workers' gradients.
void apply_gradients(float* parameters, const std::array<const float*, 4>& gradients,
                     std::size_t count) noexcept;

/// What the parameters must be, having started at 0, after some of fill_gradient()'s gradients.
class ExpectedParameters {
 public:
  void add(std::uint64_t iteration) noexcept;
  bool match(const float* parameters, std::size_t count) const noexcept;

 private:
  static constexpr std::size_t kPeriod = 7;
  float sums_[kPeriod] = {};
};

}  // namespace weft::bench
