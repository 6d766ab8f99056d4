#include "lstm_reference.hpp"

#include <cmath>

namespace charlm::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct State {
  std::vector<double> cell, hidden;
  explicit State(const LstmSizes& s)
      : cell(static_cast<std::size_t>(s.hidden)), hidden(static_cast<std::size_t>(s.hidden)) {}
};

std::vector<double> advance(const LstmSizes& sizes, const Tensors& p, State& state,
                            std::int32_t token) {
  const auto embed = static_cast<std::size_t>(sizes.embed);
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  const auto vocabulary = static_cast<std::size_t>(sizes.vocabulary);
  std::vector<double> gates = p.arrays[3];
  for (std::size_t k = 0; k < 4 * hidden; ++k) {
    for (std::size_t e = 0; e < embed; ++e)
      gates[k] += p.arrays[0][static_cast<std::size_t>(token) * embed + e] *
                  p.arrays[1][e * 4 * hidden + k];
    for (std::size_t h = 0; h < hidden; ++h)
      gates[k] += state.hidden[h] * p.arrays[2][h * 4 * hidden + k];
  }
  for (std::size_t h = 0; h < hidden; ++h) {
    state.cell[h] = sigmoid(gates[hidden + h]) * state.cell[h] +
                    sigmoid(gates[h]) * std::tanh(gates[3 * hidden + h]);
    state.hidden[h] = sigmoid(gates[2 * hidden + h]) * std::tanh(state.cell[h]);
  }
  std::vector<double> out = p.arrays[5];
  for (std::size_t v = 0; v < vocabulary; ++v)
    for (std::size_t h = 0; h < hidden; ++h)
      out[v] += state.hidden[h] * p.arrays[4][h * vocabulary + v];
  return out;
}

double cross_entropy(const std::vector<double>& logits, std::int32_t target) {
  double sum = 0.0;
  for (const double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[static_cast<std::size_t>(target)];
}

}  // namespace

Tensors::Tensors(const LstmSizes& s) {
  for (const int count : {s.vocabulary * s.embed, s.embed * 4 * s.hidden, s.hidden * 4 * s.hidden,
                          4 * s.hidden, s.hidden * s.vocabulary, s.vocabulary})
    arrays.emplace_back(static_cast<std::size_t>(count));
}

double loss(const LstmSizes& sizes, const Tensors& parameters, int sequences, int length,
            std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets) {
  double total = 0.0;
  for (int s = 0; s < sequences; ++s) {
    State state(sizes);
    for (int t = 0; t < length; ++t) {
      const auto at = static_cast<std::size_t>(t * sequences + s);
      total += cross_entropy(advance(sizes, parameters, state, inputs[at]), targets[at]);
    }
  }
  return total / (sequences * length);
}

std::vector<double> logits(const LstmSizes& sizes, const Tensors& parameters,
                           std::span<const std::int32_t> tokens) {
  State state(sizes);
  std::vector<double> out;
  for (const std::int32_t token : tokens) out = advance(sizes, parameters, state, token);
  return out;
}

}  // namespace charlm::reference
