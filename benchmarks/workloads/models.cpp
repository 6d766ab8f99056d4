#include "benchmarks/workloads/models.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft::bench {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

constexpr std::int64_t kClasses = 10;
constexpr std::size_t kSplitBytes = 64 << 10;

/// Weights and biases or, for a normalised layer, weights and offsets.
void add_layer(Shapes& shapes, std::vector<std::int64_t> weights) {
  const std::int64_t outputs = weights.back();
  shapes.push_back(std::move(weights));
  shapes.push_back({outputs});
}

Shapes alexnet() {
  Shapes shapes;
  add_layer(shapes, {11, 11, 3, 64});
  add_layer(shapes, {5, 5, 64, 192});
  add_layer(shapes, {3, 3, 192, 384});
  add_layer(shapes, {3, 3, 384, 384});
  add_layer(shapes, {3, 3, 384, 256});
  add_layer(shapes, {5, 5, 256, 4096});
  add_layer(shapes, {1, 1, 4096, 4096});
  add_layer(shapes, {1, 1, 4096, kClasses});
  return shapes;
}

Shapes vgg16() {
  Shapes shapes;
  std::int64_t inputs = 3;
  for (const auto& [convolutions, outputs] :
       {std::pair{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}})
    for (int i = 0; i < convolutions; ++i) {
      add_layer(shapes, {3, 3, inputs, outputs});
      inputs = outputs;
    }
  add_layer(shapes, {7, 7, 512, 4096});
  add_layer(shapes, {1, 1, 4096, 4096});
  add_layer(shapes, {1, 1, 4096, kClasses});
  return shapes;
}

Shapes fully_connected() {
  Shapes shapes;
  add_layer(shapes, {784, 4096});
  for (int i = 0; i < 3; ++i) add_layer(shapes, {4096, 4096});
  add_layer(shapes, {4096, kClasses});
  return shapes;
}

/// Each gate has weights for the input, weights for the state, and biases.
Shapes recurrent(int gates) {
  constexpr std::int64_t kUnits = 1024;
  constexpr std::int64_t kWords = 1000;
  Shapes shapes;
  for (int i = 0; i < gates; ++i) {
    shapes.push_back({kUnits, kUnits});
    add_layer(shapes, {kUnits, kUnits});
  }
  add_layer(shapes, {kUnits, kWords});
  return shapes;
}

/// A filter of an Inception branch: height, width, outputs.
struct Filter {
  std::int64_t height;
  std::int64_t width;
  std::int64_t outputs;
};

void add_branch(Shapes& shapes, std::int64_t inputs, std::initializer_list<Filter> filters) {
  for (const Filter& filter : filters) {
    add_layer(shapes, {filter.height, filter.width, inputs, filter.outputs});
    inputs = filter.outputs;
  }
}

void add_square_block(Shapes& shapes, std::int64_t inputs, std::int64_t pooled) {
  add_branch(shapes, inputs, {{1, 1, 64}});
  add_branch(shapes, inputs, {{1, 1, 48}, {5, 5, 64}});
  add_branch(shapes, inputs, {{1, 1, 64}, {3, 3, 96}, {3, 3, 96}});
  add_branch(shapes, inputs, {{1, 1, pooled}});
}

void add_long_block(Shapes& shapes, std::int64_t inner) {
  constexpr std::int64_t kInputs = 768;
  add_branch(shapes, kInputs, {{1, 1, 192}});
  add_branch(shapes, kInputs, {{1, 1, inner}, {1, 7, inner}, {7, 1, 192}});
  add_branch(shapes, kInputs,
             {{1, 1, inner}, {7, 1, inner}, {1, 7, inner}, {7, 1, inner}, {1, 7, 192}});
  add_branch(shapes, kInputs, {{1, 1, 192}});
}

void add_wide_block(Shapes& shapes, std::int64_t inputs) {
  add_branch(shapes, inputs, {{1, 1, 320}});
  add_branch(shapes, inputs, {{1, 1, 384}, {1, 3, 384}});
  add_branch(shapes, 384, {{3, 1, 384}});
  add_branch(shapes, inputs, {{1, 1, 448}, {3, 3, 384}, {1, 3, 384}});
  add_branch(shapes, 384, {{3, 1, 384}});
  add_branch(shapes, inputs, {{1, 1, 192}});
}

Shapes inception_v3() {
  Shapes shapes;
  add_branch(shapes, 3, {{3, 3, 32}, {3, 3, 32}, {3, 3, 64}, {1, 1, 80}, {3, 3, 192}});
  add_square_block(shapes, 192, 32);
  add_square_block(shapes, 256, 64);
  add_square_block(shapes, 288, 64);
  add_branch(shapes, 288, {{3, 3, 384}});
  add_branch(shapes, 288, {{1, 1, 64}, {3, 3, 96}, {3, 3, 96}});
  for (const std::int64_t inner : {128, 160, 160, 192}) add_long_block(shapes, inner);
  add_branch(shapes, 768, {{1, 1, 128}, {5, 5, 768}, {1, 1, kClasses}});  // the second classifier
  add_branch(shapes, 768, {{1, 1, 192}, {3, 3, 320}});
  add_branch(shapes, 768, {{1, 1, 192}, {1, 7, 192}, {7, 1, 192}, {3, 3, 192}});
  add_wide_block(shapes, 1280);
  add_wide_block(shapes, 2048);
  add_layer(shapes, {1, 1, 2048, kClasses});
  return shapes;
}

}  // namespace

std::size_t Model::elements(std::size_t tensor) const noexcept {
  const auto& shape = shapes[tensor];
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

std::size_t Model::bytes() const noexcept {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) sum += elements(i) * sizeof(float);
  return sum;
}

std::span<const Model> models() {
  static const std::vector<Model> all{{"gru", recurrent(3)},         {"lstm", recurrent(4)},
                                      {"inception", inception_v3()}, {"alexnet", alexnet()},
                                      {"fcn-5", fully_connected()},  {"vgg-16", vgg16()}};
  return all;
}

const Model& model_of(std::size_t bytes) {
  std::string known;
  for (const Model& model : models()) {
    if (model.bytes() == bytes) return model;
    known += (known.empty() ? "" : ", ") + std::string(model.name) + " of " +
             std::to_string(model.bytes());
  }
  throw std::runtime_error("no model has " + std::to_string(bytes) + " bytes; there are " + known);
}

const Model& model_called(std::string_view name) {
  std::string known;
  for (const Model& model : models()) {
    if (model.name == name) return model;
    known += (known.empty() ? "" : ", ") + std::string(model.name);
  }
  throw std::runtime_error("no model is called '" + std::string(name) + "'; there are " + known);
}

std::vector<Part> parts_of(const Model& model) {
  std::vector<Part> parts;
  for (std::size_t tensor = 0; tensor < model.shapes.size(); ++tensor) {
    const std::size_t count = model.elements(tensor);
    if (count * sizeof(float) < kSplitBytes) {
      parts.push_back({tensor, 0, count, static_cast<int>(tensor % 2)});
      continue;
    }
    parts.push_back({tensor, 0, count / 2, 0});
    parts.push_back({tensor, count / 2, count - count / 2, 1});
  }
  return parts;
}

std::vector<Part> shares_of(const Model& model, int servers) {
  const std::size_t share = model.bytes() / sizeof(float) / static_cast<std::size_t>(servers) + 1;
  std::vector<Part> parts;
  for (std::size_t tensor = 0; tensor < model.shapes.size(); ++tensor) {
    const std::size_t count = model.elements(tensor);
    const std::size_t cuts = (count + share - 1) / share;
    for (std::size_t cut = 0; cut < cuts; ++cut) {
      const std::size_t first = count * cut / cuts;
      parts.push_back({tensor, first, count * (cut + 1) / cuts - first, 0});
    }
  }
  std::vector<Part*> largest_first;
  for (Part& part : parts) largest_first.push_back(&part);
  std::ranges::stable_sort(largest_first, std::greater(), &Part::count);
  std::vector<std::size_t> load(static_cast<std::size_t>(servers));
  for (Part* const part : largest_first) {
    const auto least = std::ranges::min_element(load);
    part->server = static_cast<int>(least - load.begin());
    *least += part->count;
  }
  return parts;
}

std::uint64_t replayed_steps(std::size_t model_bytes, std::int64_t budget_ms) noexcept {
  const std::uint64_t bytes = static_cast<std::uint64_t>(budget_ms) * 2'000'000;
  return std::clamp<std::uint64_t>(bytes / model_bytes, 3, 50);
}

}  // namespace weft::bench
