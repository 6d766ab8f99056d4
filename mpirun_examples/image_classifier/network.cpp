#include "network.hpp"

#include <algorithm>
#include <cmath>

namespace images {
namespace {

std::size_t size(int a, int b, int c) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

// Calls act(output row, input row, first column, end column) for every pair of rows that the weight
// at (dy, dx) of a 3 x 3 window connects; input column = output column + dx.
template <typename Act>
void for_each_row(int height, int width, int dy, int dx, const Act& act) {
  const int first = std::max(0, -dx);
  const int end = std::min(width, width - dx);
  for (int y = std::max(0, -dy); y < std::min(height, height - dy); ++y)
    act(y * width, (y + dy) * width + dx, first, end);
}

}  // namespace

Network::Layer::Layer(int inputs, int outputs, int height, int width)
    : inputs(inputs),
      outputs(outputs),
      height(height),
      width(width),
      values(size(outputs, height, width)),
      pooled(size(outputs, height / 2, width / 2)),
      slopes(values.size()),
      pooled_slopes(pooled.size()) {}

void Network::Layer::forward(std::span<const float> weights, std::span<const float> bias,
                             const float* from) {
  const int plane = height * width;
  const float* weight = weights.data();
  for (int out = 0; out < outputs; ++out) {
    float* const to = values.data() + out * plane;
    std::fill_n(to, plane, bias[static_cast<std::size_t>(out)]);
    for (int in = 0; in < inputs; ++in)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx, ++weight)
          for_each_row(height, width, dy, dx, [&](int row, int input, int first, int end) {
            const float* const source = from + in * plane + input;
            for (int x = first; x < end; ++x) to[row + x] += *weight * source[x];
          });
  }
  for (float& value : values) value = std::max(value, 0.0F);
  pool();
}

void Network::Layer::pool() {
  float* to = pooled.data();
  for (int out = 0; out < outputs; ++out)
    for (int y = 0; y < height / 2; ++y)
      for (int x = 0; x < width / 2; ++x) {
        const float* const at = values.data() + (out * height + 2 * y) * width + 2 * x;
        *to++ = std::max(std::max(at[0], at[1]), std::max(at[width], at[width + 1]));
      }
}

// Passes each pooled gradient to the largest value of its 2 x 2 window, if ReLU is active there.
void Network::Layer::spread_slopes() {
  std::ranges::fill(slopes, 0.0F);
  std::size_t i = 0;
  for (int out = 0; out < outputs; ++out)
    for (int y = 0; y < height / 2; ++y)
      for (int x = 0; x < width / 2; ++x, ++i) {
        const int corner = (out * height + 2 * y) * width + 2 * x;
        for (const int at : {corner, corner + 1, corner + width, corner + width + 1}) {
          const auto place = static_cast<std::size_t>(at);
          if (values[place] != pooled[i] || values[place] <= 0.0F) continue;
          slopes[place] = pooled_slopes[i];
          break;
        }
      }
}

void Network::Layer::backward(std::span<const float> weights, const float* from,
                              std::span<float> of_weights, std::span<float> of_bias,
                              float* of_from) {
  spread_slopes();
  const int plane = height * width;
  std::size_t weight = 0;
  for (int out = 0; out < outputs; ++out) {
    const float* const slope = slopes.data() + out * plane;
    float sum = 0.0F;
    for (int i = 0; i < plane; ++i) sum += slope[i];
    of_bias[static_cast<std::size_t>(out)] += sum;
    for (int in = 0; in < inputs; ++in)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx, ++weight) {
          float of_weight = 0.0F;
          for_each_row(height, width, dy, dx, [&](int row, int input, int first, int end) {
            const int source = in * plane + input;
            for (int x = first; x < end; ++x) of_weight += slope[row + x] * from[source + x];
            if (of_from == nullptr) return;
            for (int x = first; x < end; ++x)
              of_from[source + x] += slope[row + x] * weights[weight];
          });
          of_weights[weight] += of_weight;
        }
  }
}

Network::Network(int channels, int height, int width)
    : first_(channels, kFirst, height, width), second_(kFirst, kSecond, height / 2, width / 2) {}

std::span<const float> Network::forward(const Weights& weights, std::span<const float> image) {
  first_.forward(weights.first, weights.first_bias, image.data());
  second_.forward(weights.second, weights.second_bias, first_.pooled.data());
  const float* weight = weights.classes.data();
  for (std::size_t k = 0; k < scores_.size(); ++k) {
    scores_[k] = weights.classes_bias[k];
    for (const float feature : second_.pooled) scores_[k] += *weight++ * feature;
  }
  return scores_;
}

double Network::train(const Weights& weights, std::span<const float> image, int wanted, float share,
                      const Weights& gradients) {
  forward(weights, image);
  const float highest = *std::ranges::max_element(scores_);
  double sum = 0;
  for (const float score : scores_) sum += std::exp(score - highest);
  std::ranges::fill(second_.pooled_slopes, 0.0F);
  for (std::size_t k = 0; k < scores_.size(); ++k) {
    const auto chance = static_cast<float>(std::exp(scores_[k] - highest) / sum);
    const float slope = share * (chance - (static_cast<int>(k) == wanted ? 1.0F : 0.0F));
    gradients.classes_bias[k] += slope;
    for (std::size_t i = 0; i < features(); ++i) {
      gradients.classes[k * features() + i] += slope * second_.pooled[i];
      second_.pooled_slopes[i] += slope * weights.classes[k * features() + i];
    }
  }
  std::ranges::fill(first_.pooled_slopes, 0.0F);
  second_.backward(weights.second, first_.pooled.data(), gradients.second, gradients.second_bias,
                   first_.pooled_slopes.data());
  first_.backward(weights.first, image.data(), gradients.first, gradients.first_bias, nullptr);
  return std::log(sum) + highest - scores_[static_cast<std::size_t>(wanted)];
}

}  // namespace images
