#include "lstm.hpp"

#include <algorithm>
#include <cmath>

#include "lstm_kernel.hpp"
#include "random.hpp"

namespace charlm {
namespace {

void fill_uniform(std::span<float> values, double reach, Random& random) {
  for (float& value : values) value = static_cast<float>(reach * (2.0 * random.unit() - 1.0));
}

}  // namespace

void initialize(const LstmSizes& sizes, std::uint64_t seed, const LstmTensors<float>& parameters) {
  Random random(seed);
  const double reach = 1.0 / std::sqrt(sizes.hidden);
  fill_uniform(parameters.embedding, 1.5, random);
  fill_uniform(parameters.input_weights, reach, random);
  fill_uniform(parameters.hidden_weights, reach, random);
  fill_uniform(parameters.output_weights, reach, random);
  std::ranges::fill(parameters.gate_bias, 0.0F);
  std::ranges::fill(parameters.output_bias, 0.0F);
  // An open forget gate lets gradients reach far back from the first step.
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  std::ranges::fill(parameters.gate_bias.subspan(hidden, hidden), 1.0F);
}

std::unique_ptr<Lstm> make_lstm(const LstmSizes& sizes, int sequences, int length) {
#ifdef CHARLM_HAS_AVX2
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
    return avx2::make_lstm(sizes, sequences, length);
#endif
  return baseline::make_lstm(sizes, sequences, length);
}

}  // namespace charlm
