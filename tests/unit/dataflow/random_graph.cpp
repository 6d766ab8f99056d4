#include "tests/unit/dataflow/random_graph.hpp"

#include <algorithm>
#include <set>

#include "weft/error.hpp"

namespace weft::dataflow {
namespace {

using reference::Array;

/// Own definitions beside the standard ones: an operator in place, and one that cuts rows off.
const Definitions& definitions() {
  static const Definitions all_of_them = [] {
    Definitions all = Definitions::standard();
    all.add({.name = "test.Negate",
             .inputs = {{"x"}},
             .outputs = {{"y"}},
             .infer = [](const Inference& in) { return std::vector{in.input(0)}; },
             .reuses = {{0, 0, Reuse::Kind::must}}});
    all.add({.name = "test.Tail",
             .inputs = {{"x"}},
             .outputs = {{"y"}},
             .infer = [](const Inference& in) {
               Sizes sizes(in.shape(0).sizes().begin(), in.shape(0).sizes().end());
               if (sizes.empty() || sizes[0] == 0) in.refuse("there is no row");
               if (sizes[0] != kAnySize) --sizes[0];
               return std::vector<TensorType>{{in.dtype(0), PartialShape(sizes)}};
             }});
    return all;
  }();
  return all_of_them;
}

reference::OwnKernels own_kernels() {
  return {{"test.Negate",
           [](reference::Call& call) {
             for (double& x : *call.out[0].data) x = -x;
           }},
          {"test.Tail", [](reference::Call& call) {
             const auto& x = *call.x(0).data;
             auto& y = *call.out[0].data;
             std::copy(x.end() - std::ptrdiff_t(y.size()), x.end(), y.begin());
           }}};
}

Array random_array(const Sizes& sizes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Array array(sizes);
  for (double& x : *array.data) x = double(random() % 2001) / 1000 - 1;
  return array;
}

}  // namespace

const std::vector<OpenSizes>& RandomGraph::cases() {
  // Far apart, so that a size that depends on an open one shows it.
  static const std::vector<OpenSizes> all_cases = [] {
    std::vector<OpenSizes> all;
    for (const std::int64_t a : {2, 3, 7})
      for (const std::int64_t b : {4, 5, 11}) all.push_back({a, b});
    return all;
  }();
  return all_cases;
}

RandomGraph::RandomGraph(std::uint64_t seed) : random_(seed), graph_(definitions()) {
  add_sources();
  const std::uint64_t nodes = 3 + pick(8);
  for (std::uint64_t i = 0; i < nodes; ++i) try_add();
  add_fetches();
}

void RandomGraph::add_sources() {
  const int feeds = 1 + int(pick(3));
  for (int i = 0; i < feeds; ++i) add_feed(i);
  const std::uint64_t variables = pick(3);
  for (std::uint64_t i = 0; i < variables; ++i) {
    const Shape shape = pick(2) == 0 ? Shape{3} : Shape{2, 3};
    const TensorId tensor = graph_.variable("v" + std::to_string(i), DType::f64, shape);
    types_[tensor].assign(cases().size(), {DType::f64, shape});
    pool_.push_back(tensor);
    variables_.push_back(tensor);
  }
}

void RandomGraph::add_feed(int i) {
  Sizes open;
  std::vector<int>& symbols = symbols_["x" + std::to_string(i)];
  const std::uint64_t dims = 1 + pick(3);
  for (std::uint64_t d = 0; d < dims; ++d) {
    symbols.push_back(int(pick(4)) - 2 < 0 ? -1 : int(pick(2)));
    open.push_back(symbols.back() >= 0 ? kAnySize : 2 + std::int64_t(pick(2)));
  }
  const TensorId tensor = graph_.feed("x" + std::to_string(i), DType::f64, PartialShape(open));
  for (const OpenSizes& one : cases()) {
    Sizes sizes = open;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (symbols[d] >= 0) sizes[d] = symbols[d] == 0 ? one.a : one.b;
    types_[tensor].push_back({DType::f64, PartialShape(sizes)});
  }
  pool_.push_back(tensor);
}

Sizes RandomGraph::random_shape(TensorId of) {
  const std::size_t dims = graph_.type(of).shape.dims();
  switch (pick(4)) {
    case 0:
      return {-1};
    case 1:
      return {-1, 1 + std::int64_t(pick(3))};
    case 2:
      return dims > 1 ? Sizes{0, -1} : Sizes{1, -1};
    default: {
      Sizes sizes(dims, 0);
      sizes.push_back(1);
      return sizes;
    }
  }
}

void RandomGraph::try_add() {
  const TensorId x = any();
  const auto axis = [&] {
    const std::size_t dims = graph_.type(x).shape.dims();
    return std::int64_t(dims == 0 ? 0 : pick(dims));
  };
  switch (pick(14)) {
    case 0:
      return try_add("Relu", {x}, {});
    case 1:
      return try_add("Tanh", {x}, {});
    case 2:
      return try_add("Add", {x, any()}, {});
    case 3:
      return try_add("Mul", {x, any()}, {});
    case 4:
      return try_add("MatMul", {x, any()}, {});
    case 5:
      return try_add("Transpose", {x}, {});
    case 6:
    case 7:
      return try_add("Reshape", {x}, {{"shape", random_shape(x)}});
    case 8:
      return try_add("Concat", {x, any(), x}, {{"axis", axis()}});
    case 9:
      return try_add("Split", {x}, {{"axis", axis()}, {"num_outputs", 1 + std::int64_t(pick(3))}});
    case 10:
      return try_add("ReduceMean", {x},
                     {{"axes", Sizes{axis()}}, {"keepdims", std::int64_t(pick(2))}});
    case 11:
      return try_add("test.Tail", {x}, {});
    case 12:
      return try_add("test.Negate", {x}, {});
    default:
      if (variables_.empty()) return;
      const TensorId variable = variables_[pick(variables_.size())];
      // Most tensors are of another shape; look for one that fits.
      for (int i = 0; i < 8; ++i) {
        const TensorId value = any();
        if (value.node != variable.node && graph_.type(value) == graph_.type(variable))
          return try_add("weft.Assign", {variable, value}, {});
      }
  }
}

bool RandomGraph::infer_all(const std::string& definition, const std::vector<TensorId>& inputs,
                            const Attributes& attributes, Concrete& types) const {
  const auto found = definitions().find(definition);
  Attributes complete = attributes;
  for (const AttributeSpec& spec : found->attributes)
    if (complete.find(spec.name) == nullptr) complete.set(spec.name, spec.value);
  try {
    for (std::size_t i = 0; i < cases().size(); ++i) {
      std::vector<std::optional<TensorType>> known;
      for (const TensorId input : inputs) known.emplace_back(types_.at(input)[i]);
      types.push_back(found->infer(Inference(definition, complete, known)));
      for (const TensorType& type : types.back())
        if (type.shape.shape().elements() > 2000 || type.shape.dims() > 4) return false;
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

void RandomGraph::try_add(const std::string& definition, const std::vector<TensorId>& inputs,
                          const Attributes& attributes) {
  Concrete types;
  if (!infer_all(definition, inputs, attributes, types)) return;
  Graph larger = graph_;
  TensorId first;
  try {
    first = larger.add(definition, inputs, attributes);
    larger.infer();
  } catch (const Error&) {
    return;  // for example a second reader of what is overwritten
  }
  graph_ = std::move(larger);
  for (std::size_t o = 0; o < types[0].size(); ++o) {
    const TensorId output{first.node, std::int32_t(o)};
    for (const auto& one : types) types_[output].push_back(one[o]);
    pool_.push_back(output);
  }
}

void RandomGraph::add_fetches() {
  std::set<TensorId> read;
  for (const Node& node : graph_.nodes()) read.insert(node.inputs.begin(), node.inputs.end());
  for (const TensorId tensor : pool_) {
    // Tensors with one reader may be overwritten in place.
    if (read.contains(tensor) && pick(3) != 0) continue;
    Graph larger = graph_;
    try {
      larger.fetch(tensor, "f" + std::to_string(tensor.node) + "_" + std::to_string(tensor.output));
      larger.infer();
    } catch (const Error&) {
      continue;
    }
    graph_ = std::move(larger);
  }
}

void RandomGraph::place(int ranks, bool some_on_gpu) {
  for (NodeId i = 0; i < NodeId(graph_.size()); ++i)
    graph_.place(i, {int(pick(std::uint64_t(ranks))),
                     some_on_gpu && pick(4) == 0 ? Memory::gpu : Memory::host});
  // An assignment, its variable and the aliases between them belong to one rank.
  for (NodeId i = 0; i < NodeId(graph_.size()); ++i)
    for (const Reuse& reuse : graph_.node(i).definition->reuses) {
      if (reuse.kind != Reuse::Kind::must) continue;
      std::vector<NodeId> path{i};
      for (TensorId at = graph_.node(i).inputs[reuse.input]; !at.none(); at = memory_from(at))
        path.push_back(at.node);
      if (graph_.node(path.back()).definition->name != "weft.Variable") continue;
      for (const NodeId node : path) graph_.place(node, graph_.node(path.back()).placement);
    }
}

TensorId RandomGraph::memory_from(TensorId tensor) const {
  const Node& node = graph_.node(tensor.node);
  for (const Reuse& reuse : node.definition->reuses)
    if (reuse.kind != Reuse::Kind::may && reuse.output == std::size_t(tensor.output))
      return node.inputs[reuse.input];
  return {};
}

reference::Run RandomGraph::run(int steps, std::uint64_t order) const {
  reference::Run run;
  run.steps = steps;
  run.seed = order;
  run.own = own_kernels();
  run.variable = [](const Node& node) {
    return random_array(node.attributes.sizes("shape"), std::hash<std::string>()(node.name));
  };
  run.feed = [this](const Node& node, int step) {
    const OpenSizes& one = cases()[std::size_t(step) * 4 % cases().size()];
    Sizes sizes = node.attributes.sizes("shape");
    const std::vector<int>& symbols = symbols_.at(node.name);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (symbols[d] >= 0) sizes[d] = symbols[d] == 0 ? one.a : one.b;
    return random_array(sizes, std::hash<std::string>()(node.name) + std::uint64_t(step));
  };
  return run;
}

}  // namespace weft::dataflow
