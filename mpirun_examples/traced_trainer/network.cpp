#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

namespace traced {
namespace {

using weft::DType;
using weft::Tensor;

std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}

constexpr std::int64_t kBiases = kHidden * kInputs;
constexpr std::int64_t kOutput = kBiases + kHidden;

}  // namespace

Network::Network(weft::dataflow::TracingAllocator& memory) : memory_(memory) {
  const auto running = memory_.enter("weights");
  weights_ = memory_.allocate(DType::f32, {parameters()});
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0F, 0.4F);
  std::ranges::generate(weights_.as<float>(), [&] { return normal(random); });
}

Batch Network::draw(std::int64_t rows, std::uint64_t seed) {
  const auto running = memory_.enter("draw");
  const Batch batch{memory_.allocate(DType::f32, {rows, kInputs}),
                    memory_.allocate(DType::f32, {rows})};
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  const auto inputs = batch.inputs.as<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < kInputs; ++i) sum += inputs[at(row, kInputs, i)] = uniform(random);
    batch.targets.as<float>()[at(row, 1, 0)] = std::sin(sum);
  }
  return batch;
}

double Network::step(const Batch& batch, Tensor& gradient) {
  const std::int64_t rows = batch.targets.shape()[0];
  const auto weights = weights_.as<float>();
  const auto inputs = batch.inputs.as<float>();
  Tensor hidden;
  Tensor errors;
  double loss = 0.0;
  {
    const auto running = memory_.enter("forward");
    hidden = memory_.allocate(DType::f32, {rows, kHidden});
    errors = memory_.allocate(DType::f32, {rows});
    for (std::int64_t row = 0; row < rows; ++row) {
      float output = 0.0F;
      for (std::int64_t unit = 0; unit < kHidden; ++unit) {
        float sum = weights[at(0, 0, kBiases + unit)];
        for (std::int64_t i = 0; i < kInputs; ++i)
          sum += weights[at(unit, kInputs, i)] * inputs[at(row, kInputs, i)];
        hidden.as<float>()[at(row, kHidden, unit)] = std::tanh(sum);
        output += weights[at(0, 0, kOutput + unit)] * std::tanh(sum);
      }
      const float error = output - batch.targets.as<float>()[at(row, 1, 0)];
      errors.as<float>()[at(row, 1, 0)] = error;
      loss += static_cast<double>(error) * static_cast<double>(error);
    }
  }
  const auto running = memory_.enter("backward");
  const Tensor scratch = memory_.allocate(DType::f32, {kHidden});
  gradient = memory_.allocate(DType::f32, {parameters()});
  const auto g = gradient.as<float>();
  std::ranges::fill(g, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float error = 2.0F * errors.as<float>()[at(row, 1, 0)];
    for (std::int64_t unit = 0; unit < kHidden; ++unit) {
      const float value = hidden.as<float>()[at(row, kHidden, unit)];
      float& back = scratch.as<float>()[at(unit, 1, 0)];
      back = error * weights[at(0, 0, kOutput + unit)] * (1.0F - value * value);
      g[at(0, 0, kOutput + unit)] += error * value;
      g[at(0, 0, kBiases + unit)] += back;
      for (std::int64_t i = 0; i < kInputs; ++i)
        g[at(unit, kInputs, i)] += back * inputs[at(row, kInputs, i)];
    }
  }
  return loss / static_cast<double>(rows);
}

void Network::scale(const Tensor& gradient, float factor) {
  const auto running = memory_.enter("scale in place");
  for (float& value : gradient.as<float>()) value *= factor;
}

void Network::apply(const Tensor& own, const Tensor& other, float rate) {
  const auto running = memory_.enter("apply");
  const auto weights = weights_.as<float>();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] -= rate * (own.as<float>()[i] + other.as<float>()[i]);
}

}  // namespace traced
