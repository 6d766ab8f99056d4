// The LSTM of train_charlm as a graph: one training step of one worker.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lstm.hpp"
#include "weft/graph.hpp"

namespace charlm {

struct GraphOptions {
  LstmSizes sizes;
  int length = 64;     ///< characters per window
  int sequences = 32;  ///< windows of one worker
  float learning_rate = 0.01F;
};

/// Feeds: "inputs" i32 [length, sequences], "targets" i32 [length x sequences]. Fetch: "loss", the
/// mean over the batch, of node "mean loss". Variables: "embedding", "W", "R", "gate_bias",
/// "output_weights", "output_bias"; and the state of Adam, which begins as zeros.
weft::dataflow::Graph make_graph(const GraphOptions& options);

/// The values that train_charlm begins with, by variable.
std::map<std::string, std::vector<float>> first_values(const LstmSizes& sizes, std::uint64_t seed);

}  // namespace charlm
