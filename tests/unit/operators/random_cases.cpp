#include "tests/unit/operators/random_cases.hpp"

#include <algorithm>
#include <random>

namespace weft::dataflow {
namespace {

using reference::Case;
using reference::kNone;
using reference::Operand;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::vector<Case> all() {
    return {broadcast("Add"),
            broadcast("Mul"),
            broadcast("Sum"),
            equal_sum(),
            scale(),
            matmul(),
            gemm(),
            convolution(),
            pool("MaxPool"),
            pool("AveragePool"),
            normalisation(),
            recurrent("LSTM"),
            recurrent("GRU"),
            reduction("ReduceSum"),
            reduction("ReduceMean"),
            reduction("ReduceMax"),
            concat(),
            split(),
            transpose(),
            gather(),
            loss(),
            activation()};
  }

 private:
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return least + std::int64_t(random_() % std::uint64_t(most - least + 1));
  }
  bool chance() { return pick(0, 1) == 1; }
  Sizes sizes(std::int64_t least_dims, std::int64_t most_dims, std::int64_t most) {
    Sizes result(std::size_t(pick(least_dims, most_dims)));
    for (std::int64_t& size : result) size = pick(1, most);
    return result;
  }
  /// Sizes that are broadcast to `whole`.
  Sizes part_of(const Sizes& whole) {
    Sizes part(whole.begin() + pick(0, std::int64_t(whole.size())), whole.end());
    for (std::int64_t& size : part) size = pick(0, 2) == 0 ? 1 : size;
    return part;
  }

  Case broadcast(const char* name) {
    const Sizes whole = sizes(0, 4, 9);
    std::vector<Operand> inputs{{part_of(whole)}, {chance() ? whole : part_of(whole)}};
    if (std::string(name) == "Sum") inputs.push_back({part_of(whole)});
    return {name, inputs};
  }
  Case equal_sum() {
    return {"Sum", std::vector<Operand>(std::size_t(pick(1, 5)), Operand{sizes(1, 3, 9)})};
  }
  Case scale() { return {"weft.Scale", {{sizes(0, 4, 9)}}, {{"factor", double(pick(-3, 3))}}}; }
  Case activation() {
    const char* const names[] = {"Relu", "Sigmoid", "Tanh"};
    return {names[pick(0, 2)], {{sizes(0, 4, 9)}}};
  }

  Case matmul() {
    const Sizes batch = sizes(0, 2, 3);
    Sizes a = part_of(batch);
    Sizes b = chance() ? batch : part_of(batch);
    const std::int64_t depth = pick(1, 33);
    a.insert(a.end(), {pick(1, 20), depth});
    b.insert(b.end(), {depth, pick(1, 20)});
    return {"MatMul", {{a}, {b}}};
  }
  Case gemm() {
    const std::int64_t rows = pick(1, 20);
    const std::int64_t depth = pick(1, 33);
    const std::int64_t columns = pick(1, 20);
    const bool a = chance();
    const bool b = chance();
    Case one{"Gemm",
             {{a ? Sizes{depth, rows} : Sizes{rows, depth}},
              {b ? Sizes{columns, depth} : Sizes{depth, columns}}},
             {{"alpha", double(pick(1, 3)) / 2},
              {"beta", double(pick(0, 3)) / 2},
              {"transA", a ? 1 : 0},
              {"transB", b ? 1 : 0}}};
    if (chance()) one.inputs.push_back({part_of({rows, columns})});
    return one;
  }

  /// Whether blocked layouts have padding depends on the channels.
  Case convolution() {
    const std::int64_t group = pick(0, 2) == 0 ? pick(2, 3) : 1;
    const std::int64_t in = chance() ? 8 * pick(1, 2) : pick(1, 5);
    const std::int64_t out = chance() ? 8 * pick(1, 2) : pick(1, 5);
    const Sizes kernel = pick(0, 4) == 0 ? Sizes{1, 7} : Sizes{pick(1, 3), pick(1, 3)};
    const Sizes dilations{pick(1, 2), pick(1, 2)};
    Sizes x{pick(1, 2), in * group, 0, 0};
    for (std::size_t i = 0; i < 2; ++i) x[i + 2] = (kernel[i] - 1) * dilations[i] + pick(1, 6);
    Case one{"Conv",
             {{x}, {{out * group, in, kernel[0], kernel[1]}}},
             {{"group", group},
              {"dilations", dilations},
              {"strides", Sizes{pick(1, 3), pick(1, 3)}},
              {"pads", Sizes{pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)}}}};
    if (chance()) one.inputs.push_back({{out * group}});
    return one;
  }
  Case pool(const char* name) {
    const Sizes kernel{pick(1, 3), pick(1, 3)};
    Sizes strides{pick(1, kernel[0]), pick(1, kernel[1])};
    Sizes pads;
    for (std::size_t i = 0; i < 4; ++i) pads.push_back(pick(0, kernel[i % 2] - 1));
    const bool ceil = chance();
    // With padding behind, the last window of ceil_mode may have no element of the input.
    if (ceil) pads[2] = pads[3] = 0;
    const Sizes x{pick(1, 2), chance() ? 8 * pick(1, 2) : pick(1, 5), pick(3, 9), pick(3, 9)};
    Case one{name, {{x}}, {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}}};
    if (ceil) one.attributes.set("ceil_mode", std::int64_t{1});
    if (std::string(name) == "AveragePool")
      one.attributes.set("count_include_pad", std::int64_t{chance() ? 1 : 0});
    return one;
  }

  Case normalisation() {
    Sizes x = sizes(2, 5, 5);
    x[0] = pick(3, 5);
    x[1] = pick(1, 17);
    const Operand channels{{x[1]}};
    const Operand statistics{{x[1]}, 3};
    return {"BatchNormalization",
            {{x}, channels, channels, statistics, statistics},
            {{"training_mode", std::int64_t{chance() ? 1 : 0}}, {"momentum", 0.75}}};
  }

  Case recurrent(const std::string& name) {
    const char* const directions[] = {"forward", "reverse", "bidirectional"};
    const auto direction = std::size_t(pick(0, 2));
    const std::int64_t count = direction == 2 ? 2 : 1;
    const std::int64_t gates = name == "LSTM" ? 4 : 3;
    const std::int64_t hidden = pick(1, 9);
    const Sizes x{pick(1, 5), pick(1, 4), pick(1, 9)};
    const Operand state{{count, x[1], hidden}};
    Case one{name == "LSTM" ? "LSTM" : "GRU",
             {{x},
              {{count, gates * hidden, x[2]}},
              {{count, gates * hidden, hidden}},
              chance() ? Operand{{count, 2 * gates * hidden}} : kNone,
              kNone,
              chance() ? state : kNone},
             {{"hidden_size", hidden}, {"direction", std::string(directions[direction])}}};
    if (name == "LSTM" && chance()) one.inputs.push_back(state);
    if (name == "GRU" && chance()) one.attributes.set("linear_before_reset", std::int64_t{1});
    return one;
  }

  Case reduction(const char* name) {
    const Sizes x = sizes(1, 4, 7);
    Sizes axes;
    for (std::size_t d = 0; d < x.size(); ++d)
      if (chance()) axes.push_back(std::int64_t(d) - (chance() ? std::int64_t(x.size()) : 0));
    return {name, {{x}}, {{"axes", axes}, {"keepdims", std::int64_t{chance() ? 1 : 0}}}};
  }

  Case concat() {
    const Sizes x = sizes(1, 4, 5);
    const auto axis = std::size_t(pick(0, std::int64_t(x.size()) - 1));
    Case one{"Concat", {}, {{"axis", std::int64_t(axis)}}};
    for (std::int64_t i = pick(1, 4); i > 0; --i) {
      one.inputs.push_back({x});
      one.inputs.back().sizes[axis] = pick(0, 4);
    }
    return one;
  }
  Case split() {
    Sizes x = sizes(1, 4, 5);
    const auto axis = std::size_t(pick(0, std::int64_t(x.size()) - 1));
    Sizes parts;
    x[axis] = 0;
    for (std::int64_t i = pick(1, 4); i > 0; --i) {
      parts.push_back(pick(i == 1 ? 1 : 0, 4));
      x[axis] += parts.back();
    }
    return {"Split", {{x}}, {{"axis", std::int64_t(axis)}, {"split", parts}}};
  }
  Case transpose() {
    const Sizes x = sizes(1, 5, 5);
    Sizes perm(x.size());
    for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = std::int64_t(i);
    std::shuffle(perm.begin(), perm.end(), random_);
    return {"Transpose", {{x}}, {{"perm", perm}}};
  }
  Case gather() {
    const Sizes x = sizes(1, 3, 5);
    const auto axis = std::size_t(pick(0, std::int64_t(x.size()) - 1));
    return {"Gather", {{x}, {sizes(0, 2, 4), int(x[axis])}}, {{"axis", std::int64_t(axis)}}};
  }
  Case loss() {
    const char* const reductions[] = {"mean", "sum", "none"};
    const Sizes x = sizes(2, 4, 5);
    Sizes labels = x;
    labels.erase(labels.begin() + 1);
    return {"SoftmaxCrossEntropyLoss",
            {{x}, {labels, int(x[1])}},
            {{"reduction", std::string(reductions[pick(0, 2)])}}};
  }

  std::mt19937_64 random_;
};

}  // namespace

std::vector<Case> random_cases(std::uint64_t seed) { return Generator(seed).all(); }

}  // namespace weft::dataflow
