#include "sentence_embedder/lesson.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lessons/layers.hpp"
#include "weft/operators.hpp"
#include "weft/variables.hpp"

namespace embedder {
namespace flow = weft::dataflow;

using flow::kAnySize;
using flow::TensorId;
using weft::DType;

EmbedderLesson::EmbedderLesson(const lessons::Options& options, const Sizes& sizes)
    : options_(options), sizes_(sizes), sentences_(options.seed) {}

flow::Graph EmbedderLesson::model() const {
  flow::Graph graph(weft::pslib::with_updates());
  lessons::Layers layers(graph);
  const auto embedding = [&](const std::string& name) {
    const TensorId words = graph.feed(name, DType::i32, {kAnySize, options_.batch});
    const TensorId x = layers.embedded(name + "_words", words, Sentences::kWords, sizes_.embedding);
    return layers.gru(name + "_reader", x, sizes_.width);
  };
  const TensorId first = embedding("first");
  const TensorId second = embedding("second");
  const TensorId partners = graph.feed("partners", DType::i32, {options_.batch});
  const TensorId scores = graph.add("Gemm", {first, second}, {{"transB", 1}}, "scores");
  const TensorId loss = graph.add("SoftmaxCrossEntropyLoss", {scores, partners}, {}, "mean loss");
  graph.fetch(loss, "loss");
  weft::pslib::apply_gradients(graph, loss, layers.parameters(),
                               weft::pslib::Optimizer::adam(options_.learning_rate));
  return graph;
}

flow::Kernels EmbedderLesson::kernels() const {
  return weft::pslib::with_updates(flow::operators());
}

std::map<std::string, std::vector<float>> EmbedderLesson::first_values() const {
  return lessons::random_weights(model(), options_.seed);
}

flow::Tensors EmbedderLesson::feeds(int worker, std::uint64_t step,
                                    const lessons::FeedMemory& memory) {
  const Pairs pairs = sentences_.draw(options_.batch, worker, step);
  const std::int64_t batch = options_.batch;
  flow::Tensors feeds;
  const auto ints = [&](const char* name, const weft::Shape& shape) {
    return (feeds[name] = memory(name, shape)).as<std::int32_t>();
  };
  std::ranges::copy(pairs.first, ints("first", {pairs.first_words, batch}).begin());
  std::ranges::copy(pairs.second, ints("second", {pairs.second_words, batch}).begin());
  const auto partners = ints("partners", {batch});
  std::iota(partners.begin(), partners.end(), 0);
  return feeds;
}

lessons::Options embedder_defaults() { return {.batch = 32, .learning_rate = 0.005F}; }

lessons::Program embedder_program() {
  return {.name = "sentence_embedder",
          .purpose =
              "Trains two GRUs to embed sentences of two generated languages by what they "
              "mean, as a dataflow graph over the ranks of the job.",
          .steps = 150,
          .target = 1.0,
          .text = [](double loss) { return fmt::format("loss {:.4f} nats", loss); },
          .make =
              [](const lessons::Options& options) {
                return std::make_unique<EmbedderLesson>(options);
              }};
}

}  // namespace embedder
