// The graph of docs/dataflow.md, as its code builds it.
#pragma once

#include <vector>

#include "weft/graph.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow::guide {

inline Replicas replicas() {
  Graph model;
  const TensorId x = model.feed("x", DType::f32, {32, 784});
  const TensorId labels = model.feed("labels", DType::i64, {32});
  const TensorId w = model.variable("w", DType::f32, {784, 10});
  const TensorId scores = model.add("MatMul", {x, w}, {}, "scores");
  const TensorId loss = model.add("SoftmaxCrossEntropyLoss", {scores, labels}, {}, "loss");
  model.fetch(loss, "the loss");
  const TensorId dw = gradients(model, loss, std::vector{w})[0];
  const TensorId step = model.add("weft.Scale", {dw}, {{"factor", -0.1}}, "step");
  model.assign(w, model.add("Add", {w, step}, {}, "new w"), "update");

  const Replicas replicas = replicate(model, {.workers = {1, 2}, .servers = {0}});
  return replicas;
}

}  // namespace weft::dataflow::guide
