// A model and its data, which the ranks of a job train as a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/executor.hpp"
#include "weft/graph.hpp"
#include "weft/tensor.hpp"

namespace lessons {

/// Gives the memory of a feed, by its name in the model, for the shape that it has in this step.
using FeedMemory = std::function<weft::Tensor(const std::string& feed, const weft::Shape& shape)>;

/// Every rank makes an equal one. Thread-safety: one thread at a time.
class Lesson {
 public:
  virtual ~Lesson() = default;
  /// A step of one worker. Its node "mean loss" computes the loss, which is fetched as "loss".
  virtual weft::dataflow::Graph model() const = 0;
  virtual weft::dataflow::Kernels kernels() const = 0;
  /// The first values of variables, by name; those left out begin as zeros.
  virtual std::map<std::string, std::vector<float>> first_values() const = 0;
  /// All feeds of a worker in a step, by their names in the model: a function of both numbers.
  virtual weft::dataflow::Tensors feeds(int worker, std::uint64_t step,
                                        const FeedMemory& memory) = 0;
};

}  // namespace lessons
