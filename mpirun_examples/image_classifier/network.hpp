// A small convolutional network: twice a convolution of 3 x 3, a ramp and a maximum of 2 x 2; then
// one weight for each class and feature. Source: LeCun, Bottou, Bengio, Haffner 1998, made smaller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "images.hpp"

namespace images {

/// The parameters, or their gradients, in memory of the caller's.
struct Weights {
  std::span<float> first;         ///< [kFirst][channels][3][3]
  std::span<float> first_bias;    ///< [kFirst]
  std::span<float> second;        ///< [kSecond][kFirst][3][3]
  std::span<float> second_bias;   ///< [kSecond]
  std::span<float> classes;       ///< [kClasses][features]
  std::span<float> classes_bias;  ///< [kClasses]
};

/// The computation and its working memory; the parameters are the caller's.
/// Thread-safety: one thread at a time.
class Network {
 public:
  static constexpr int kFirst = 8;
  static constexpr int kSecond = 16;

  Network(int channels, int height, int width);

  std::size_t features() const noexcept { return second_.pooled.size(); }

  /// The scores of the classes, valid until the next call.
  std::span<const float> forward(const Weights& weights, std::span<const float> image);
  /// The loss in nats of the image's class; adds `share` of its gradients.
  double train(const Weights& weights, std::span<const float> image, int wanted, float share,
               const Weights& gradients);

 private:
  // A convolution with its ramp, and the maximum over each 2 x 2 of it.
  struct Layer {
    int inputs, outputs, height, width;
    std::vector<float> values;  // [outputs][height][width]
    std::vector<float> pooled;  // [outputs][height / 2][width / 2]
    std::vector<float> slopes;  // of values
    std::vector<float> pooled_slopes;

    Layer(int inputs, int outputs, int height, int width);
    void forward(std::span<const float> weights, std::span<const float> bias, const float* from);
    void backward(std::span<const float> weights, const float* from, std::span<float> of_weights,
                  std::span<float> of_bias, float* of_from);
    void pool();
    void spread_slopes();
  };

  Layer first_;
  Layer second_;
  std::vector<float> scores_ = std::vector<float>(kClasses);
};

}  // namespace images
