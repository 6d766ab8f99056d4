#include "benchmarks/convergence/image_lesson.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "image_graph/model.hpp"
#include "lessons/draws.hpp"
#include "weft/operators.hpp"
#include "weft/variables.hpp"

namespace weft::bench {
namespace {

constexpr int kHidden = 384;
constexpr int kBatch = 16;
constexpr std::size_t kDrawn = 4000;
constexpr std::uint64_t kSeed = 1;

class ImageLesson final : public lessons::Lesson {
 public:
  ImageLesson() : images_(images::draw(kDrawn, kSeed)) {}

  dataflow::Graph model() const override {
    return images::make_graph(images_,
                              {.batch = kBatch, .learning_rate = 0.001F, .hidden = kHidden});
  }
  dataflow::Kernels kernels() const override { return pslib::with_updates(dataflow::operators()); }

  /// Source: He, Zhang, Ren, Sun 2015.
  std::map<std::string, std::vector<float>> first_values() const override {
    const dataflow::Graph graph = model();
    lessons::Draws draws({kSeed, 6});
    std::map<std::string, std::vector<float>> all;
    for (const char* name : {"first", "second", "hidden", "classes"}) {
      const Shape shape = graph.type({graph.find(name), 0}).shape.shape();
      const auto elements = static_cast<std::size_t>(shape.elements());
      const double inputs = static_cast<double>(shape.elements() / shape[0]);
      const double most = std::sqrt(6.0 / inputs);
      for (std::size_t i = 0; i < elements; ++i)
        all[name].push_back(static_cast<float>(most * (2.0 * draws.unit() - 1.0)));
    }
    return all;
  }

  dataflow::Tensors feeds(int worker, std::uint64_t step,
                          const lessons::FeedMemory& memory) override {
    lessons::Draws draws({kSeed, 7, static_cast<std::uint64_t>(worker), step});
    const Tensor x = memory("x", {kBatch, images_.channels, images_.height, images_.width});
    const Tensor labels = memory("labels", {kBatch});
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto at = static_cast<std::size_t>(draws.below(static_cast<int>(images_.count())));
      std::ranges::copy(images_.image(at),
                        x.as<float>().subspan(i * images_.size_of_one()).begin());
      labels.as<std::int64_t>()[i] = images_.classes[at];
    }
    return {{"x", x}, {"labels", labels}};
  }

 private:
  const images::Images images_;
};

}  // namespace

std::unique_ptr<lessons::Lesson> make_image_lesson() { return std::make_unique<ImageLesson>(); }

}  // namespace weft::bench
