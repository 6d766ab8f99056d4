// A small convolutional network: twice a 3 x 3 convolution, ReLU and 2 x 2 max pooling, then a
// linear layer. Source: LeCun, Bottou, Bengio, Haffner 1998, made smaller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "images.hpp"

namespace images {

/// The parameters, or their gradients, in memory that the caller owns.
struct Weights {
  std::span<float> first;         ///< [kFirst][channels][3][3]
  std::span<float> first_bias;    ///< [kFirst]
  std::span<float> second;        ///< [kSecond][kFirst][3][3]
  std::span<float> second_bias;   ///< [kSecond]
  std::span<float> classes;       ///< [kClasses][features]
  std::span<float> classes_bias;  ///< [kClasses]
};

/// The computation and its working memory.
/// Thread-safety: one thread at a time.
class Network {
 public:
  static constexpr int kFirst = 8;
  static constexpr int kSecond = 16;

  Network(int channels, int height, int width);

  std::size_t features() const noexcept { return second_.pooled.size(); }

  /// Returns the scores of the classes, valid until the next call.
  std::span<const float> forward(const Weights& weights, std::span<const float> image);
  /// Returns the loss, in nats, of the class `wanted`, and adds its gradients, multiplied by
  /// `share`, to `gradients`.
  double train(const Weights& weights, std::span<const float> image, int wanted, float share,
               const Weights& gradients);

 private:
  // A convolution with ReLU and 2 x 2 max pooling.
  struct Layer {
    int inputs, outputs, height, width;
    std::vector<float> values;  // [outputs][height][width]
    std::vector<float> pooled;  // [outputs][height / 2][width / 2]
    std::vector<float> slopes;  // gradients of values
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
