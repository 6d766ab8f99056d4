#include "benchmarks/harness/payload.hpp"

#include <algorithm>
#include <cstring>

#include "base/mix64.hpp"

// Vector code chosen at run time (ifunc); sanitizers are not initialized when that choice is made.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEFT_BENCH_VECTORISED __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WEFT_BENCH_VECTORISED
#endif

namespace weft::bench {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::size_t kGradientPeriod = 7;

std::uint64_t first_word(std::size_t bytes, std::uint64_t iteration) noexcept {
  return (bytes ^ (iteration << 20)) * kGolden64;
}

void keep(std::uint64_t value) noexcept { asm volatile("" : : "r"(value) : "memory"); }

float gradient_at(std::size_t element, std::uint64_t iteration) noexcept {
  return static_cast<float>((element + iteration) % kGradientPeriod);
}

}  // namespace

WEFT_BENCH_VECTORISED
void fill(void* buffer, std::size_t bytes, std::uint64_t iteration) noexcept {
  auto* words = static_cast<std::uint64_t*>(buffer);
  const std::size_t whole = bytes / kWordBytes;
  const std::uint64_t first = first_word(bytes, iteration);
  for (std::size_t i = 0; i < whole; ++i) words[i] = first + i;
  const std::uint64_t last = first + whole;
  std::memcpy(words + whole, &last, bytes % kWordBytes);
}

WEFT_BENCH_VECTORISED
bool holds(const void* buffer, std::size_t bytes, std::uint64_t iteration) noexcept {
  const auto* words = static_cast<const std::uint64_t*>(buffer);
  const std::size_t whole = bytes / kWordBytes;
  const std::uint64_t first = first_word(bytes, iteration);
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < whole; ++i) difference |= words[i] ^ (first + i);
  const std::uint64_t last = first + whole;
  return difference == 0 && std::memcmp(words + whole, &last, bytes % kWordBytes) == 0;
}

void touch(const void* buffer, std::size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(buffer);
  std::uint64_t sum = 0;
  std::size_t offset = 0;
  for (; offset + kWordBytes <= bytes; offset += kLineBytes) {
    std::uint64_t word;
    std::memcpy(&word, at + offset, kWordBytes);
    sum += word;
  }
  if (offset < bytes) sum += at[offset];
  keep(sum);
}

WEFT_BENCH_VECTORISED
void fill_floats(float* to, std::size_t count, std::uint64_t iteration) noexcept {
  const auto first = static_cast<float>(iteration % 4096);
  constexpr std::size_t kPeriod = 16;
  std::size_t i = 0;
  for (; i + kPeriod <= count; i += kPeriod)
    for (std::size_t lane = 0; lane < kPeriod; ++lane)
      to[i + lane] = first + static_cast<float>(lane);
  for (; i < count; ++i) to[i] = first + static_cast<float>(i % kPeriod);
}

WEFT_BENCH_VECTORISED
float largest(const float* elements, std::size_t count) noexcept {
  constexpr std::size_t kLanes = 64;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, elements[0]);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = elements[i + lane] > lanes[lane] ? elements[i + lane] : lanes[lane];
  for (; i < count; ++i) lanes[0] = std::max(lanes[0], elements[i]);
  return *std::max_element(lanes, lanes + kLanes);
}

void fill_gradient(float* gradient, std::size_t count, std::uint64_t iteration) noexcept {
  float period[kGradientPeriod];
  for (std::size_t i = 0; i < kGradientPeriod; ++i) period[i] = gradient_at(i, iteration);
  std::size_t i = 0;
  for (; i + kGradientPeriod <= count; i += kGradientPeriod)
    std::memcpy(gradient + i, period, sizeof(period));
  for (; i < count; ++i) gradient[i] = gradient_at(i, iteration);
}

WEFT_BENCH_VECTORISED
void apply_gradient(float* parameters, const float* gradient, std::size_t count) noexcept {
  float* __restrict p = parameters;
  for (std::size_t i = 0; i < count; ++i) p[i] -= gradient[i];
}

WEFT_BENCH_VECTORISED
void apply_gradients(float* parameters, const float* a, const float* b,
                     std::size_t count) noexcept {
  float* __restrict p = parameters;
  for (std::size_t i = 0; i < count; ++i) p[i] -= a[i] + b[i];
}

WEFT_BENCH_VECTORISED
void apply_gradients(float* parameters, const std::array<const float*, 4>& gradients,
                     std::size_t count) noexcept {
  const auto [a, b, c, d] = gradients;
  float* __restrict p = parameters;
  for (std::size_t i = 0; i < count; ++i) p[i] -= (a[i] + b[i]) + (c[i] + d[i]);
}

void ExpectedParameters::add(std::uint64_t iteration) noexcept {
  for (std::size_t i = 0; i < kPeriod; ++i) sums_[i] += gradient_at(i, iteration);
}

bool ExpectedParameters::match(const float* parameters, std::size_t count) const noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (parameters[i] != -sums_[i % kPeriod]) return false;
  return true;
}

}  // namespace weft::bench
