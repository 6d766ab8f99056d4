#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace clicks {

double Model::train(std::span<const Impression> batch, const Dense& parameters,
                    std::span<const float> rows, const Dense& gradients,
                    std::span<float> row_gradients) {
  for (const auto& all : {gradients.hidden, gradients.hidden_bias, gradients.output,
                          gradients.numbers, gradients.bias, row_gradients})
    std::ranges::fill(all, 0.0F);
  constexpr std::size_t kRows = Impression::kCategories * kRow;
  const auto count = static_cast<float>(batch.size());
  double loss = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Impression& one = batch[i];
    forward(one, parameters, rows.data() + i * kRows);
    const float chance = 1.0F / (1.0F + std::exp(-score_));
    // log(1 + e^s) - y s, in a form that no score makes overflow.
    loss += std::max(score_, 0.0F) + std::log1p(std::exp(-std::abs(score_))) - one.clicked * score_;
    backward(one, parameters, gradients, (chance - one.clicked) / count,
             row_gradients.data() + i * kRows);
  }
  return loss / static_cast<double>(batch.size());
}

void Model::forward(const Impression& one, const Dense& parameters, const float* rows) {
  score_ = parameters.bias[0];
  std::ranges::copy(one.numbers, inputs_.begin());
  for (std::size_t i = 0; i < Impression::kNumbers; ++i)
    score_ += parameters.numbers[i] * one.numbers[i];
  float* to = inputs_.data() + Impression::kNumbers;
  for (std::size_t i = 0; i < Impression::kCategories; ++i, rows += kRow, to += kEmbedding) {
    score_ += rows[0];
    std::copy_n(rows + 1, kEmbedding, to);
  }
  std::ranges::copy(parameters.hidden_bias, hidden_.begin());
  for (std::size_t i = 0; i < kInputs; ++i) {
    const float* const weights = parameters.hidden.data() + i * kHidden;
    for (std::size_t k = 0; k < kHidden; ++k) hidden_[k] += inputs_[i] * weights[k];
  }
  for (std::size_t k = 0; k < kHidden; ++k) {
    hidden_[k] = std::max(hidden_[k], 0.0F);
    score_ += hidden_[k] * parameters.output[k];
  }
}

// `slope`: derivative of the loss with respect to the score.
void Model::backward(const Impression& one, const Dense& parameters, const Dense& gradients,
                     float slope, float* row_gradients) {
  gradients.bias[0] += slope;
  for (std::size_t i = 0; i < Impression::kNumbers; ++i)
    gradients.numbers[i] += slope * one.numbers[i];
  for (std::size_t k = 0; k < kHidden; ++k) {
    gradients.output[k] += slope * hidden_[k];
    slopes_[k] = hidden_[k] > 0.0F ? slope * parameters.output[k] : 0.0F;
    gradients.hidden_bias[k] += slopes_[k];
  }
  for (std::size_t i = 0; i < Impression::kCategories; ++i) row_gradients[i * kRow] = slope;
  for (std::size_t i = 0; i < kInputs; ++i) {
    const float* const weights = parameters.hidden.data() + i * kHidden;
    float* const of_weights = gradients.hidden.data() + i * kHidden;
    float sum = 0.0F;
    for (std::size_t k = 0; k < kHidden; ++k) {
      of_weights[k] += inputs_[i] * slopes_[k];
      sum += weights[k] * slopes_[k];
    }
    if (i < Impression::kNumbers) continue;
    const std::size_t at = i - Impression::kNumbers;
    row_gradients[at / kEmbedding * kRow + 1 + at % kEmbedding] = sum;
  }
}

}  // namespace clicks
