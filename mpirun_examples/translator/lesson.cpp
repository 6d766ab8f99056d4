#include "translator/lesson.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lessons/layers.hpp"
#include "weft/operators.hpp"
#include "weft/variables.hpp"

namespace translator {
namespace flow = weft::dataflow;

using flow::kAnySize;
using flow::TensorId;
using weft::DType;

TranslatorLesson::TranslatorLesson(const lessons::Options& options, const Sizes& sizes)
    : options_(options), sizes_(sizes), corpus_(options.seed) {}

flow::Graph TranslatorLesson::model() const {
  flow::Graph graph(weft::pslib::with_updates());
  lessons::Layers layers(graph);
  const TensorId source = graph.feed("source", DType::i32, {kAnySize, options_.batch});
  const TensorId before = graph.feed("before", DType::i32, {kAnySize, options_.batch});
  const TensorId targets = graph.feed("targets", DType::i32, {kAnySize});
  const auto read = layers.lstm(
      "reader", layers.embedded("source_words", source, Corpus::kSourceWords, sizes_.embedding),
      sizes_.width);
  const auto written = layers.lstm(
      "writer", layers.embedded("target_words", before, Corpus::kTargetWords, sizes_.embedding),
      sizes_.width, &read);
  const TensorId rows =
      graph.add("Reshape", {written.sequence}, {{"shape", flow::Sizes{-1, sizes_.width}}}, "rows");
  const TensorId weights = layers.parameter("output", {Corpus::kTargetWords, sizes_.width});
  const TensorId bias = layers.parameter("output_bias", {Corpus::kTargetWords});
  const TensorId scores = graph.add("Gemm", {rows, weights, bias}, {{"transB", 1}}, "scores");
  const TensorId loss = graph.add("SoftmaxCrossEntropyLoss", {scores, targets}, {}, "mean loss");
  graph.fetch(loss, "loss");
  weft::pslib::apply_gradients(graph, loss, layers.parameters(),
                               weft::pslib::Optimizer::adam(options_.learning_rate));
  return graph;
}

flow::Kernels TranslatorLesson::kernels() const {
  return weft::pslib::with_updates(flow::operators());
}

std::map<std::string, std::vector<float>> TranslatorLesson::first_values() const {
  return lessons::random_weights(model(), options_.seed);
}

flow::Tensors TranslatorLesson::feeds(int worker, std::uint64_t step,
                                      const lessons::FeedMemory& memory) {
  const Pairs pairs = corpus_.draw(options_.batch, worker, step);
  const std::int64_t batch = options_.batch;
  flow::Tensors feeds;
  const auto ints = [&](const char* name, const weft::Shape& shape) {
    return (feeds[name] = memory(name, shape)).as<std::int32_t>();
  };
  const auto source = ints("source", {pairs.source.words, batch});
  const auto from = pairs.source.ids.begin();
  // In reverse order a sentence's first words are near those of its translation.
  for (int i = 0; i < pairs.source.words; ++i)
    std::copy_n(from + (pairs.source.words - 1 - i) * batch, batch, source.begin() + i * batch);
  const auto targets = ints("targets", {pairs.target.words * batch});
  std::ranges::copy(pairs.target.ids, targets.begin());
  const auto before = ints("before", {pairs.target.words, batch});
  std::fill_n(before.begin(), batch, Corpus::kBegin);
  std::copy(pairs.target.ids.begin(), pairs.target.ids.end() - batch, before.begin() + batch);
  return feeds;
}

lessons::Options translator_defaults() { return {.batch = 16, .learning_rate = 0.005F}; }

lessons::Program translator_program() {
  constexpr double kPerplexity = 20.0;
  return {.name = "translator",
          .purpose =
              "Trains two LSTMs to translate sentences of a generated language, as a "
              "dataflow graph over the ranks of the job.",
          .steps = 200,
          .target = std::log(kPerplexity),
          .text =
              [](double loss) {
                return fmt::format("loss {:.4f} nats, perplexity {:.1f}", loss, std::exp(loss));
              },
          .make =
              [](const lessons::Options& options) {
                return std::make_unique<TranslatorLesson>(options);
              }};
}

}  // namespace translator
