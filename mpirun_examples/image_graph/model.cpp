#include "model.hpp"

#include <string>
#include <vector>

#include "network.hpp"

namespace images {
namespace {

using weft::DType;
using weft::Shape;
using weft::dataflow::Definition;
using weft::dataflow::Definitions;
using weft::dataflow::Graph;
using weft::dataflow::Inference;
using weft::dataflow::Reuse;
using weft::dataflow::Sizes;
using weft::dataflow::TensorId;
using weft::dataflow::TensorType;

/// An operator of our own, equal to weft's. It overwrites the variables that it gets, so it is
/// their assignment, and runs on their server.
Definition adam() {
  return {.name = "image.Adam",
          .inputs = {{"parameter"}, {"first"}, {"second"}, {"updates"}, {"gradient"}},
          .outputs = {{"new_parameter"}, {"new_first"}, {"new_second"}, {"new_updates"}},
          .attributes = {{"learning_rate", 0.001}},
          .infer = [](const Inference& in) -> std::vector<TensorType> {
            for (const std::size_t i : {1U, 2U, 4U})
              if (in.input(i) != in.input(0))
                in.refuse("moments and gradient are as the parameter");
            return {in.input(0), in.input(1), in.input(2), in.input(3)};
          },
          .reuses = {{0, 0, Reuse::Kind::must},
                     {1, 1, Reuse::Kind::must},
                     {2, 2, Reuse::Kind::must},
                     {3, 3, Reuse::Kind::must}}};
}

class Builder {
 public:
  Builder(const Images& images, const GraphOptions& options)
      : images_(images), options_(options), graph_(definitions()) {}

  Graph build() {
    const TensorId x = graph_.feed(
        "x", DType::f32, {options_.batch, images_.channels, images_.height, images_.width});
    const TensorId labels = graph_.feed("labels", DType::i64, {options_.batch});
    TensorId at = layer(x, "first", Network::kFirst);
    at = layer(at, "second", Network::kSecond);
    const std::int64_t features =
        static_cast<std::int64_t>(images_.height / 4) * (images_.width / 4) * Network::kSecond;
    at = graph_.add("Reshape", {at}, {{"shape", Sizes{options_.batch, features}}}, "features");
    const TensorId weights = parameter("classes", {kClasses, features});
    const TensorId bias = parameter("classes_bias", {kClasses});
    const TensorId scores = graph_.add("Gemm", {at, weights, bias}, {{"transB", 1}}, "scores");
    const TensorId loss = graph_.add("SoftmaxCrossEntropyLoss", {scores, labels}, {}, "mean loss");
    graph_.fetch(loss, "loss");
    const std::vector<TensorId> found = gradients(graph_, loss, parameters_);
    for (std::size_t i = 0; i < found.size(); ++i) update(parameters_[i], found[i]);
    return std::move(graph_);
  }

 private:
  static Definitions definitions() {
    Definitions all = Definitions::standard();
    all.add(adam());
    return all;
  }

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

  void update(TensorId parameter, TensorId gradient) {
    const std::string name = graph_.node(parameter.node).name;
    const Shape shape = graph_.type(parameter).shape.shape();
    const TensorId first = graph_.variable(name + " first", DType::f32, shape);
    const TensorId second = graph_.variable(name + " second", DType::f32, shape);
    const TensorId updates = graph_.variable(name + " updates", DType::f32, {1});
    graph_.add("image.Adam", {parameter, first, second, updates, gradient},
               {{"learning_rate", static_cast<double>(options_.learning_rate)}}, name + " update");
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
