// A wide and deep model of clicks. Source: Cheng et al. 2016, "Wide & Deep Learning for Recommender
// Systems".
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "clicks.hpp"

namespace clicks {

/// A category's row: its weight in the wide part, then its embedding in the deep one.
inline constexpr std::size_t kEmbedding = 8;
inline constexpr std::size_t kRow = 1 + kEmbedding;
inline constexpr std::size_t kInputs = Impression::kNumbers + Impression::kCategories * kEmbedding;
inline constexpr std::size_t kHidden = 64;

/// The dense parameters, or their gradients, in memory that the caller owns.
struct Dense {
  std::span<float> hidden;       ///< [kInputs][kHidden]
  std::span<float> hidden_bias;  ///< [kHidden]
  std::span<float> output;       ///< [kHidden]
  std::span<float> numbers;      ///< [Impression::kNumbers]: of the wide part
  std::span<float> bias;         ///< [1]
};

/// The computation and its working memory. Thread-safety: one thread at a time.
class Model {
 public:
  /// Returns the mean loss, in nats, over a batch whose categories have the given `rows`, kRow
  /// elements each. Overwrites `gradients` and `row_gradients` with the gradients of that mean.
  double train(std::span<const Impression> batch, const Dense& parameters,
               std::span<const float> rows, const Dense& gradients, std::span<float> row_gradients);

 private:
  void forward(const Impression& one, const Dense& parameters, const float* rows);
  void backward(const Impression& one, const Dense& parameters, const Dense& gradients, float slope,
                float* row_gradients);

  std::vector<float> inputs_ = std::vector<float>(kInputs);
  std::vector<float> hidden_ = std::vector<float>(kHidden);
  std::vector<float> slopes_ = std::vector<float>(kHidden);
  float score_ = 0.0F;
};

}  // namespace clicks
