// Graphs: what is built, compared and refused.
#include "weft/graph.hpp"

#include <gtest/gtest.h>

#include "tests/unit/dataflow/refused.hpp"

namespace weft::dataflow {
namespace {

/// x [?, 4] -> fc -> relu -> out.
Graph small_graph(double factor = 2) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {kAnySize, 4});
  const TensorId w = graph.variable("w", DType::f32, {4, 3});
  const TensorId y = graph.add("MatMul", {x, w}, {}, "fc");
  graph.fetch(
      graph.add("weft.Scale", {graph.add("Relu", {y}, {}, "relu")}, {{"factor", factor}}, "scale"),
      "out");
  return graph;
}

TEST(Graph, InfersTypesWhileItIsBuilt) {
  const Graph graph = small_graph();
  EXPECT_EQ(graph.type({graph.find("fc"), 0}), (TensorType{DType::f32, {kAnySize, 3}}));
  EXPECT_EQ(graph.type({graph.find("w"), 0}).text(), "f32[4, 3]");
  EXPECT_EQ(graph.type({graph.find("scale"), 0}).text(), "f32[?, 3]");
}

TEST(Graph, RefusesUnknownNames) {
  Graph graph = small_graph();
  const TensorId w{graph.find("w"), 0};
  EXPECT_TRUE(refused([&] { graph.add("Softplus", {w}, {}, "s"); }).names("'Softplus'"));
  EXPECT_TRUE(refused([&] { graph.find("nowhere"); }).names("no node is called 'nowhere'"));
  EXPECT_TRUE(refused([&] { graph.fetch({77, 0}, "lost"); }).names("fetch 'lost': there is no"));
  EXPECT_TRUE(refused([&] { graph.fetch({w.node, 1}, "lost"); }).names("fetch 'lost'"));
  EXPECT_EQ(refused([&] { graph.add("Relu", {w}, {}, "fc"); }).code, Code::duplicate_name);
  EXPECT_TRUE(refused([&] {
                graph.add("Relu", {w}, {{"alpha", 1.0}}, "r");
              }).names("node 'r' (Relu) has no attribute alpha"));
  EXPECT_TRUE(
      refused([&] { graph.add("Concat", {w}, {}, "c"); }).names("needs the attribute axis"));
  EXPECT_TRUE(refused([&] {
                graph.add("Concat", {w}, {{"axis", 1.0}}, "c");
              }).names("attribute axis is of another type"));
  EXPECT_TRUE(refused([&] { graph.add("Add", {w}, {}, "a"); }).names("lacks its input 1 (B)"));
  EXPECT_TRUE(refused([&] {
                graph.add("Relu", {w, w}, {}, "r");
              }).names("gets 2 inputs; it has 1"));
  EXPECT_EQ(refused([&] { graph.add("Softplus", {w}); }).message,
            "no definition is called 'Softplus'");
  EXPECT_EQ(refused([&] { graph.feed("", DType::f32, {1}); }).message, "a feed needs a name");
  EXPECT_EQ(refused([&] { graph.variable("", DType::f32, {1}); }).message,
            "a variable needs a name");
}

TEST(Graph, RefusesWindowsThatNoSizeHolds) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {1, 1, 4, 4});
  const TensorId w = graph.feed("w", DType::f32, {1, 1, 3, 3});
  const Sizes pads(4, std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(refused([&] {
                graph.add("Conv", {x, w}, {{"pads", pads}}, "conv");
              }).names("node 'conv' (Conv)"));
}

TEST(Graph, RefusesWrongDtypesAndShapesByNode) {
  Graph graph = small_graph();
  const TensorId w{graph.find("w"), 0};
  const TensorId i = graph.feed("i", DType::i64, {4});
  const TensorId d = graph.variable("d", DType::f64, {3});
  const Refusal dtype = refused([&] { graph.add("Add", {w, d}, {}, "sum"); });
  EXPECT_EQ(dtype.code, Code::bad_argument);
  EXPECT_TRUE(dtype.names("node 'sum' (Add) with inputs (f32[4, 3], f64[3])")) << dtype.message;
  EXPECT_TRUE(refused([&] { graph.add("Relu", {i}, {}, "r"); }).names("no floating-point"));
  EXPECT_TRUE(refused([&] { graph.add("MatMul", {w, w}, {}, "m"); }).names("sizes 3 and 4"));
  EXPECT_TRUE(refused([&] { graph.add("Gather", {w, w}, {}, "g"); }).names("i64 or i32"));
}

TEST(Graph, ChecksValuesAgainstTheirTypes) {
  const Graph graph = small_graph();
  const TensorId x{graph.find("x"), 0};
  EXPECT_EQ(refused([&] { graph.check_value(x, DType::f32, {7, 4}); }).code, Code::ok);
  const Refusal dims = refused([&] { graph.check_value(x, DType::f32, {7, 4, 1}); });
  EXPECT_EQ(dims.code, Code::mismatch);
  EXPECT_TRUE(dims.names("node 'x' (weft.Feed)") && dims.names("another number of dimensions"));
  EXPECT_TRUE(refused([&] { graph.check_value(x, DType::f64, {7, 4}); }).names("another dtype"));
  EXPECT_TRUE(refused([&] { graph.check_value(x, DType::f32, {7, 5}); }).names("other sizes"));
}

TEST(Graph, RefusesCyclesByName) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {2});
  const TensorId a = graph.add("Add", {x, x}, {}, "a");
  const TensorId b = graph.add("Relu", {a}, {}, "b");
  graph.add("Tanh", {b}, {}, "behind");
  graph.replace_input(a.node, 1, b);
  const Refusal refusal = refused([&] { graph.infer(); });
  EXPECT_EQ(refusal.code, Code::bad_argument);
  EXPECT_TRUE(refusal.names("in a cycle") && refusal.names("a -> b")) << refusal.message;
  EXPECT_FALSE(refusal.names("behind ->")) << refusal.message;
}

TEST(Graph, RefusesACycleOfRunAfter) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {2});
  const TensorId a = graph.add("Relu", {x}, {}, "a");
  const TensorId b = graph.add("Relu", {a}, {}, "b");
  graph.run_after(a.node, b.node);
  EXPECT_TRUE(refused([&] { graph.order(); }).names("in a cycle"));
}

TEST(Graph, RunsNodesInOrder) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {2});
  const TensorId a = graph.add("Relu", {x});
  const TensorId b = graph.add("Tanh", {x});
  graph.run_after(a.node, b.node);
  EXPECT_EQ(graph.order(), (std::vector<NodeId>{x.node, b.node, a.node}));
}

Graph with_definition(Definition::InferFunction infer, const PartialShape& shape) {
  Definitions all = Definitions::standard();
  all.add({.name = "my.Op", .inputs = {{"x"}}, .outputs = {{"y"}}, .infer = std::move(infer)});
  Graph graph(all);
  graph.add("my.Op", {graph.feed("x", DType::f32, shape)}, {}, "mine");
  return graph;
}

TEST(Graph, NamesTheNodeWhoseShapeFunctionThrows) {
  const Refusal refusal = refused([] {
    with_definition(
        [](const Inference&) -> std::vector<TensorType> { throw std::runtime_error("oops"); }, {4});
  });
  EXPECT_EQ(refusal.code, Code::bad_argument);
  EXPECT_EQ(refusal.message, "the shape function of node 'mine' (my.Op) has thrown: oops");
}

TEST(Graph, RefusesShapeFunctionsThatLie) {
  using Types = std::vector<TensorType>;
  // Calls an open size known.
  Graph known = with_definition(
      [](const Inference& in) {
        return Types{{in.dtype(0), {in.shape(0)[0] == kAnySize ? 8 : in.shape(0)[0]}}};
      },
      {kAnySize});
  Refusal refusal = refused([&] { known.infer(); });
  EXPECT_EQ(refusal.code, Code::bad_argument);
  EXPECT_TRUE(refusal.names("shape function of node 'mine' (my.Op) tells f32[8]"))
      << refusal.message;
  // Changes its mind.
  auto calls = std::make_shared<std::int64_t>(0);
  Graph moody = with_definition(
      [calls](const Inference& in) {
        return Types{{in.dtype(0), {++*calls}}};
      },
      {4});
  EXPECT_TRUE(refused([&] { moody.infer(); }).names("when it is called again"));
  // Too many outputs; another number of dimensions once the sizes are known.
  EXPECT_TRUE(refused([] {
                with_definition([](const Inference& in) { return Types(2, in.input(0)); }, {4});
              }).names("tells 2 outputs; the definition has 1"));
  Graph dims = with_definition(
      [](const Inference& in) {
        return Types{{in.dtype(0), in.shape(0).known() ? PartialShape{1} : PartialShape{1, 1}}};
      },
      {kAnySize});
  EXPECT_TRUE(refused([&] { dims.infer(); }).names("'mine'"));
  // Throws: the error names the node.
  EXPECT_TRUE(refused([] {
                with_definition(
                    [](const Inference& in) {
                      return Types{{in.dtype(0), {in.attributes().integer("n")}}};
                    },
                    {4});
              }).names("node 'mine' (my.Op): no attribute n"));
}

TEST(Graph, RefusesIncompleteDefinitions) {
  Definitions all = Definitions::standard();
  const auto like = [](const Inference& in) { return std::vector{in.input(0)}; };
  EXPECT_TRUE(refused([&] { all.add({.name = "my.Op"}); }).names("has no shape function"));
  EXPECT_EQ(refused([&] { all.add({.name = "Relu", .infer = like}); }).code, Code::duplicate_name);
  EXPECT_TRUE(refused([&] {
                all.add({.name = "my.Op",
                         .inputs = {{"x", Parameter::Count::variadic}, {"y"}},
                         .infer = like});
              }).names("x is variadic but not the last"));
  EXPECT_TRUE(refused([&] {
                all.add({.name = "my.Op", .inputs = {{"x"}}, .infer = like, .reuses = {{0, 0}}});
              }).names("reuses input 0 for output 0"));
}

/// A graph whose definitions have "my.Negate", which overwrites its input.
Graph in_place_graph() {
  Definitions all = Definitions::standard();
  all.add({.name = "my.Negate",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = [](const Inference& in) { return std::vector{in.input(0)}; },
           .reuses = {{0, 0, Reuse::Kind::must}}});
  return Graph(all);
}

TEST(Graph, RefusesOverwritingWithASecondReader) {
  Graph graph = in_place_graph();
  const TensorId x = graph.feed("x", DType::f32, {2, 2});
  const TensorId y = graph.add("Relu", {x}, {}, "y");
  const TensorId flat = graph.add("Reshape", {y}, {{"shape", Sizes{-1}}}, "flat");
  graph.add("my.Negate", {flat}, {}, "negate");
  EXPECT_EQ(refused([&] { graph.infer(); }).code, Code::ok);
  graph.add("Tanh", {y}, {}, "second");
  const Refusal refusal = refused([&] { graph.infer(); });
  EXPECT_EQ(refusal.code, Code::bad_argument);
  EXPECT_TRUE(
      refusal.names("node 'negate' (my.Negate) works in place on the output of node 'flat' "
                    "(Reshape), which has a second reader: node 'second' (Tanh)"))
      << refusal.message;
  Graph feeds = in_place_graph();
  feeds.add("my.Negate", {feeds.feed("x", DType::f32, {2})}, {}, "negate");
  EXPECT_TRUE(refused([&] { feeds.infer(); }).names("overwrites the feed of node 'x'"));
}

TEST(Graph, RefusesAssignmentsWithoutAnOrder) {
  Graph twice;
  TensorId v = twice.variable("v", DType::f32, {2});
  twice.assign(v, twice.add("Relu", {v}), "first");
  twice.assign(v, twice.add("Tanh", {v}), "second");
  EXPECT_TRUE(
      refused([&] { twice.infer(); }).names("node 'second' (weft.Assign) assigns node 'v'"));

  Graph late;
  v = late.variable("v", DType::f32, {2});
  const TensorId next = late.assign(v, late.add("Relu", {v}), "assign");
  late.add("Add", {next, v}, {}, "both");
  EXPECT_TRUE(refused([&] { late.infer(); }).names("node 'both' (Add) reads the old value"));

  Graph swap;
  const TensorId a = swap.variable("a", DType::f32, {2});
  const TensorId b = swap.variable("b", DType::f32, {2});
  swap.assign(a, b, "a_is_b");
  swap.assign(b, a, "b_is_a");
  EXPECT_TRUE(refused([&] { swap.infer(); }).names("in a cycle"));

  Graph shapes;
  v = shapes.variable("v", DType::f32, {2});
  const TensorId x = shapes.feed("x", DType::f32, {kAnySize});
  EXPECT_TRUE(refused([&] { shapes.assign(v, x, "a"); }).names("must be of one shape"));
}

TEST(Graph, AreEqualOnlyIfBuiltAlike) {
  const Graph graph = small_graph();
  EXPECT_EQ(graph.digest(), small_graph().digest());
  EXPECT_EQ(refused([&] { compare(graph, 0, small_graph().text(), 1); }).code, Code::ok);
  const Graph other = small_graph(3);
  EXPECT_NE(graph.digest(), other.digest());
  const Refusal refusal = refused([&] { compare(graph, 0, other.text(), 5); });
  EXPECT_EQ(refusal.code, Code::mismatch);
  EXPECT_TRUE(refusal.names("first at node 'scale' (weft.Scale): rank 0") &&
              refusal.names("rank 5"))
      << refusal.message;
  Graph longer = small_graph();
  longer.feed("extra", DType::f32, {1});
  EXPECT_TRUE(refused([&] { compare(graph, 0, longer.text(), 1); }).names("node 'extra'"));
  EXPECT_TRUE(refused([&] { compare(longer, 0, graph.text(), 1); }).names("node 'extra'"));
  Graph placed = small_graph();
  placed.place(placed.find("relu"), {1});
  EXPECT_TRUE(refused([&] { compare(graph, 0, placed.text(), 1); }).names("node 'relu'"));
}

}  // namespace
}  // namespace weft::dataflow
