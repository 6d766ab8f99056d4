// Allocation sites in an executor: of kernels that allocate themselves, and of all its outputs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/gpu_memory.hpp"
#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

constexpr std::int64_t kLongRows =
    1500;  ///< rows from which on the kernel takes its other allocation
constexpr std::size_t kRowBytes = 3 * sizeof(float);

void set_all(const Tensor& tensor, float value) { std::ranges::fill(tensor.as<float>(), value); }

/// Allocates a buffer for work and one for the output, which lies in the middle of it; another one
/// for long outputs.
void allocate_itself(KernelCall& call) {
  const Shape shape = call.input(0).shape();
  const Tensor work = call.allocate(DType::f32, {shape[0]});
  const Tensor whole = call.allocate(DType::f32, {shape[0] + 2, shape[1]});
  Tensor output = whole.slice(0, 1, shape[0]);
  if (shape[0] >= kLongRows) output = call.allocate(DType::f32, shape);
  set_all(work, 1);
  for (std::size_t i = 0; i < output.as<float>().size(); ++i)
    output.as<float>()[i] = call.input(0).as<float>()[i] + work.as<float>()[0];
  call.give(0, output);
}

void relay(KernelCall& call) {
  const Tensor& output = call.output(0);
  std::ranges::copy(call.input(0).as<float>(), output.as<float>().begin());
}

Kernels own_kernels() {
  Kernels kernels;
  kernels.add("Relu", allocate_itself);
  kernels.add("weft.Scale", relay);
  return kernels;
}

/// The bytes that the sends of each step copied. Checks the tensors that arrive.
std::vector<std::uint64_t> copies_by_step(World& world, Executor& executor,
                                          const std::vector<std::int64_t>& rows) {
  std::vector<std::uint64_t> copies;
  std::uint64_t before = 0;
  for (std::size_t step = 0; step < rows.size(); ++step) {
    Tensors feeds;
    if (world.rank() == 0) {
      feeds["x"] = executor.feed("x", {rows[step], 3});
      set_all(feeds["x"], float(step));
    }
    const Result<Tensors> fetched = executor.run(feeds);
    EXPECT_TRUE(fetched.ok()) << fetched.status().text();
    if (!fetched.ok()) return copies;
    for (const auto& [name, tensor] : *fetched) {
      EXPECT_EQ(tensor.shape()[0], rows[step]) << name;
      for (const float value : tensor.as<float>()) EXPECT_EQ(value, float(step + 1)) << name;
    }
    std::uint64_t copied = 0;
    for (const EdgeActivity& edge : executor.report().edges) copied += edge.counters.bytes_copied;
    copies.push_back(copied - before);
    before = copied;
  }
  return copies;
}

TEST(Sites, OfAKernelThatAllocatesItselfAreLearnedByTheFirstStep) {
  for (const bool is_dynamic : {false, true})
    for (const char* fabric : {"shm", "tcp"}) {
      SCOPED_TRACE(std::string(fabric) + (is_dynamic ? " dynamic" : " static"));
      tests::run_on(2, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
        Executor executor(world, one_edge(is_dynamic), own_kernels(), {.way = EdgeWay::slots});
        const std::int64_t rows = is_dynamic ? 7 : 1000;
        const auto copies = copies_by_step(world, executor, {rows, rows, rows});
        const TracingReport sites = executor.report().sites;
        if (world.rank() == 1) {
          EXPECT_EQ(copies, (std::vector<std::uint64_t>{0, 0, 0}));
          EXPECT_TRUE(sites.sites.empty()) << "its kernel asks for its output's memory";
          return;
        }
        EXPECT_EQ(copies, (std::vector<std::uint64_t>{std::uint64_t(rows) * kRowBytes, 0, 0}));
        ASSERT_EQ(sites.sites.size(), 2U) << sites.text();
        EXPECT_EQ(sites.sites[0].node, "y");
        EXPECT_EQ(sites.sites[0].sent_in, 0U) << "the buffer for work stays plain";
        EXPECT_EQ(sites.sites[1].sent_in, 1U);
        EXPECT_EQ(sites.sites[1].copies, 1U);
        EXPECT_EQ(sites.counters.plain_allocations, 4U) << "3 for work, the first output";
        EXPECT_EQ(sites.counters.registered_allocations, 2U);
        EXPECT_EQ(sites.counters.sends, 3U);
      });
    }
}

TEST(Sites, ThatAreMetLateAreCopiedOnce) {
  tests::run_on(2, [](World& world) {
    Executor executor(world, one_edge(true), own_kernels());
    const auto copies =
        copies_by_step(world, executor, {5, 5, kLongRows, kLongRows, 5, 2 * kLongRows});
    if (world.rank() != 0) return;
    EXPECT_EQ(copies,
              (std::vector<std::uint64_t>{5 * kRowBytes, 0, kLongRows * kRowBytes, 0, 0, 0}));
    const TracingReport sites = executor.report().sites;
    EXPECT_EQ(sites.counters.sent_sites, 2U) << sites.text();
    EXPECT_EQ(sites.counters.late_sites, 1U);
    EXPECT_NE(executor.report().text().find("allocation 2 of \"y\": sent since step 3"),
              std::string::npos)
        << executor.report().text();
  });
}

/// x -> y, in place z, alias a; z goes to two ranks, and so does a.
Graph chain(bool is_dynamic) {
  Graph graph;
  graph.place_next({0});
  const TensorId x =
      graph.feed("x", DType::f32, PartialShape{is_dynamic ? kAnySize : std::int64_t{10}, 3});
  const TensorId y = graph.add("Relu", {x}, {}, "y");
  const TensorId z = graph.add("Tanh", {y}, {}, "z");
  const TensorId a = graph.add("Reshape", {z}, {{"shape", Sizes{-1}}}, "a");
  for (const int rank : {1, 2}) {
    graph.fetch(z, "z" + std::to_string(rank), {rank});
    graph.fetch(a, "a" + std::to_string(rank), {rank});
  }
  return graph;
}

TEST(Sites, OfTracedOutputsAreThoseThatTensorsInPlaceAndAliasesComeFrom) {
  for (const bool is_dynamic : {false, true})
    tests::run_on(3, [&](World& world) {
      SCOPED_TRACE(is_dynamic ? "dynamic" : "static");
      Kernels kernels;
      kernels.add("Relu", [](KernelCall& call) { set_all(call.output(0), 1); });
      kernels.add("Tanh", relay);
      Executor executor(world, chain(is_dynamic), kernels,
                        {.sent = SentMemory::traced, .way = EdgeWay::slots});
      std::vector<std::uint64_t> copied;
      for (int step = 0; step < 4; ++step) {
        Tensors feeds;
        if (world.rank() == 0) feeds["x"] = executor.feed("x", {10, 3});
        const auto fetched = executor.run(feeds);
        ASSERT_TRUE(fetched.ok()) << fetched.status().text();
        for (const auto& [name, tensor] : *fetched) EXPECT_EQ(tensor.as<float>()[29], 1) << name;
        copied.push_back(0);
        for (const EdgeActivity& edge : executor.report().edges)
          copied.back() += edge.counters.bytes_copied;
      }
      if (world.rank() != 0) return;
      EXPECT_EQ(copied, (std::vector<std::uint64_t>(4, 4 * 10 * kRowBytes)))
          << "each of four edges copied in step 1";
      const TracingReport sites = executor.report().sites;
      ASSERT_EQ(sites.counters.sent_sites, 1U) << sites.text();
      for (const TracedSite& site : sites.sites) {
        if (site.sent_in == 0) continue;
        EXPECT_EQ(site.node, is_dynamic ? "z" : "y")
            << "a is z's memory, which is y's where the sizes are known to be equal";
        EXPECT_EQ(site.copies, 4U);
      }
    });
}

TEST(Sites, AreNotNeededWhereTheGraphTells) {
  tests::run_on(3, [](World& world) {
    Kernels kernels;
    kernels.add("Relu", [](KernelCall& call) { set_all(call.output(0), 1); });
    kernels.add("Tanh", relay);
    Executor executor(world, chain(true), kernels);
    Tensors feeds;
    if (world.rank() == 0) feeds["x"] = executor.feed("x", {10, 3});
    ASSERT_TRUE(executor.run(feeds).ok());
    for (const EdgeActivity& edge : executor.report().edges)
      EXPECT_EQ(edge.counters.bytes_copied, 0U) << edge.edge.name << ", in step 1 too";
    EXPECT_TRUE(executor.report().sites.sites.empty());
  });
}

/// The poster: each allocation that is sent costs a registration.
TEST(Sites, OfCutEdgesAreRegisteredOneByOneToCompare) {
  tests::run_on(2, [](World& world) {
    Kernels kernels;
    kernels.add("Relu", relay);
    kernels.add("weft.Scale", relay);
    Executor executor(world, one_edge(true), kernels, {.sent = SentMemory::registered});
    std::uint64_t registered = 0;
    for (const std::int64_t rows : {5, 6, 7}) {
      Tensors feeds;
      if (world.rank() == 0) {
        feeds["x"] = executor.feed("x", {rows, 3});
        set_all(feeds["x"], float(rows));
      }
      const auto fetched = executor.run(feeds);
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      if (world.rank() == 1) {
        EXPECT_EQ(fetched->at("out").as<float>()[0], float(rows));
        continue;
      }
      const ExecutorReport report = executor.report();
      EXPECT_EQ(report.edges[0].counters.bytes_copied, 0U);
      EXPECT_EQ(report.sites.counters.registrations, ++registered) << rows << " rows";
    }
  });
}

/// Published memory is the executor's: what lies elsewhere is copied there, in each step.
TEST(Sites, OfAViewedTensorAreCopiedWhereItIsPublished) {
  tests::run_on(2, tests::settings().with(Setting::fabric, "shm"), [&](World& world) {
    Executor executor(world, one_edge(false), own_kernels());
    ASSERT_EQ(executor.plan().edges[0].kind, EdgeKind::viewed);
    const auto copies = copies_by_step(world, executor, {1000, 1000, 1000});
    const std::uint64_t each = world.rank() == 0 ? 1000 * kRowBytes : 0;
    EXPECT_EQ(copies, (std::vector<std::uint64_t>{each, each, each}));
  });
}

/// Runs one step in which the kernel of "y" gives what `choose` returns.
void expect_refused(Code code, const std::string& words,
                    const std::function<Tensor(KernelCall&)>& choose) {
  tests::Meeting meeting(2);
  tests::run_on(2, [&](World& world) {
    Kernels giving;
    giving.add("Relu", [&](KernelCall& call) { call.give(0, choose(call)); });
    giving.add("weft.Scale", relay);
    Executor executor(world, one_edge(false), giving);
    meeting.wait();
    Tensors feeds;
    if (world.rank() == 0) feeds["x"] = executor.feed("x");
    const Status status = executor.run(feeds).status();
    if (world.rank() == 0) {
      EXPECT_TRUE(tests::tells(status, code, {words, "'y'"})) << status.text();
    }
  });
}

TEST(Sites, OfMemoryThatTheAnalysisCanNotKnowAreRefused) {
  expect_refused(Code::bad_argument, "memory of an input",
                 [](KernelCall& call) { return call.input(0); });
  expect_refused(Code::mismatch, "the graph says", [](KernelCall& call) {
    return call.allocate(DType::f32, {2, 3});
  });
  expect_refused(Code::mismatch, "the graph says", [](KernelCall& call) {
    return call.allocate(DType::f64, {1000, 3});
  });
  expect_refused(Code::bad_argument, "no memory, or is not dense", [](KernelCall& call) {
    return call.allocate(DType::f32, {1000, 6}).slice(1, 0, 3);
  });
  const tests::GpuMemory gpu;
  expect_refused(Code::bad_argument, "lies on a GPU", [&gpu](KernelCall&) {
    return gpu.tensor({1000, 3});
  });
}

}  // namespace
}  // namespace weft::dataflow
