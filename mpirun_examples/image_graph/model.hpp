// The network of image_classifier as a graph: one training step of one worker.
#pragma once

#include "images.hpp"
#include "weft/graph.hpp"

namespace images {

struct GraphOptions {
  int batch = 32;
  float learning_rate = 0.003F;
  int hidden = 0;  ///< units of a layer before the classes; 0: there is none
  /// Places the layers from the second one on, with their gradients, on rank 1, all others on 0.
  bool cut = false;
};

/// Feeds: "x" f32 [batch, channels, height, width], "labels" i64 [batch]. Fetch: "loss", the mean
/// over the batch. Variables: "first", "first_bias", "second", "second_bias", "classes",
/// "classes_bias", shaped as images::Weights unless there is a hidden layer, which is called
/// "hidden" and "hidden_bias"; and the state of Adam, which begins as zeros.
weft::dataflow::Graph make_graph(const Images& images, const GraphOptions& options);

}  // namespace images
