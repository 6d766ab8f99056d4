#include "model.hpp"

#include <string>
#include <vector>

#include "network.hpp"
#include "weft/variables.hpp"

namespace images {
namespace {

using weft::DType;
using weft::Shape;
using weft::dataflow::Graph;
using weft::dataflow::Sizes;
using weft::dataflow::TensorId;

class Builder {
 public:
  Builder(const Images& images, const GraphOptions& options)
      : images_(images), options_(options), graph_(weft::pslib::with_updates()) {}

  Graph build() {
    if (options_.cut) graph_.place_next({.rank = 0});
    const TensorId x = graph_.feed(
        "x", DType::f32, {options_.batch, images_.channels, images_.height, images_.width});
    const TensorId labels = graph_.feed("labels", DType::i64, {options_.batch});
    TensorId at = layer(x, "first", Network::kFirst);
    if (options_.cut) graph_.place_next({.rank = 1});  // gradients follow
    at = layer(at, "second", Network::kSecond);
    std::int64_t features =
        static_cast<std::int64_t>(images_.height / 4) * (images_.width / 4) * Network::kSecond;
    at = graph_.add("Reshape", {at}, {{"shape", Sizes{options_.batch, features}}}, "features");
    if (options_.hidden > 0) {
      const TensorId weights = parameter("hidden", {options_.hidden, features});
      const TensorId bias = parameter("hidden_bias", {options_.hidden});
      at = graph_.add("Relu", {graph_.add("Gemm", {at, weights, bias}, {{"transB", 1}})});
      features = options_.hidden;
    }
    const TensorId weights = parameter("classes", {kClasses, features});
    const TensorId bias = parameter("classes_bias", {kClasses});
    const TensorId scores = graph_.add("Gemm", {at, weights, bias}, {{"transB", 1}}, "scores");
    const TensorId loss = graph_.add("SoftmaxCrossEntropyLoss", {scores, labels}, {}, "mean loss");
    graph_.fetch(loss, "loss");
    weft::pslib::apply_gradients(graph_, loss, parameters_,
                                 weft::pslib::Optimizer::adam(options_.learning_rate));
    return std::move(graph_);
  }

 private:
  TensorId parameter(const std::string& name, const Shape& shape) {
    parameters_.push_back(graph_.variable(name, DType::f32, shape));
    return parameters_.back();
  }

  /// A 3 x 3 convolution with ReLU and 2 x 2 max pooling.
  TensorId layer(TensorId x, const std::string& name, std::int64_t channels) {
    const TensorId weights = parameter(name, {channels, graph_.type(x).shape[1], 3, 3});
    const TensorId bias = parameter(name + "_bias", {channels});
    const TensorId values = graph_.add("Conv", {x, weights, bias}, {{"pads", Sizes{1, 1, 1, 1}}});
    return graph_.add("MaxPool", {graph_.add("Relu", {values})},
                      {{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}});
  }

  const Images& images_;
  const GraphOptions& options_;
  Graph graph_;
  std::vector<TensorId> parameters_;
};

}  // namespace

Graph make_graph(const Images& images, const GraphOptions& options) {
  return Builder(images, options).build();
}

}  // namespace images
