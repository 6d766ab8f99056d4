// Layers of recurrent networks, as nodes of a graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/graph.hpp"

namespace lessons {

/// Adds layers to `graph`, which must outlive this, and remembers their parameters.
class Layers {
 public:
  explicit Layers(weft::dataflow::Graph& graph) : graph_(graph) {}

  /// The last states of an LSTM.
  struct States {
    weft::dataflow::TensorId sequence;  ///< [words, 1, sentences, width]
    weft::dataflow::TensorId h;         ///< [1, sentences, width]
    weft::dataflow::TensorId c;
  };

  weft::dataflow::TensorId parameter(const std::string& name, const weft::Shape& shape);
  /// Looks up [words, sentences] in a table of `vocabulary` rows: [words, sentences, width].
  weft::dataflow::TensorId embedded(const std::string& name, weft::dataflow::TensorId words,
                                    std::int64_t vocabulary, std::int64_t width);
  /// `first`: the states before the first word; null: zeros.
  States lstm(const std::string& name, weft::dataflow::TensorId x, std::int64_t width,
              const States* first = nullptr);
  /// The last state of a GRU, [sentences, width].
  weft::dataflow::TensorId gru(const std::string& name, weft::dataflow::TensorId x,
                               std::int64_t width);
  const std::vector<weft::dataflow::TensorId>& parameters() const noexcept { return parameters_; }

 private:
  weft::dataflow::Graph& graph_;
  std::vector<weft::dataflow::TensorId> parameters_;
};

/// Random values for all weights of a model, a function of `seed`: with a variance of one by the
/// size of their last dimension. Biases and the state of rules are left out.
std::map<std::string, std::vector<float>> random_weights(const weft::dataflow::Graph& model,
                                                         std::uint64_t seed);

}  // namespace lessons
