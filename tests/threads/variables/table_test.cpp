// Variables in a table: the graph works in the table's tensors.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/variables/models.hpp"

namespace weft::pslib {
namespace {

using tests::run_on;
using tests::settings;
using tests::tells;
using tests::thrown_by;

constexpr int kSteps = 8;

enum class Loop : std::uint8_t { by_hand, bound, viewed };

struct Job {
  int ranks = 2;
  int servers = 0;  ///< that only serve; 0: all ranks do both
  Consistency consistency{};
  Compression compression{};
  const char* fabric = "auto";
  int replicas = 1;
};

/// The memory that kernels have read and written.
struct Touched {
  std::mutex mutex;
  std::set<const std::byte*> read;
  std::set<const std::byte*> written;
};

Kernels watched(Touched& touched) {
  const Kernels inner = kernels();
  Kernels all;
  std::vector<std::string> names = dataflow::Definitions::standard().names();
  names.emplace_back("test.Noise");
  for (const std::string& name : names)
    all.add(name, [&touched, kernel = *inner.find(name)](dataflow::KernelCall& call) {
      kernel(call);
      const std::lock_guard lock(touched.mutex);
      for (std::size_t i = 0; i < call.inputs(); ++i)
        if (call.has(i)) touched.read.insert(call.input(i).data());
      for (std::size_t i = 0; i < call.outputs(); ++i)
        touched.written.insert(call.output(i).data());
    });
  return all;
}

void copy(const Tensor& from, const Tensor& to) {
  std::memcpy(to.data(), from.data(), from.bytes());
}

/// One worker's loop.
class Worker {
 public:
  Worker(World& world, Executor& executor, Table& table)
      : world_(world), executor_(executor), table_(table) {}

  std::string run(Loop loop) { return loop == Loop::by_hand ? by_hand() : by_table(loop); }

 private:
  std::string own(const std::string& name) const {
    return name + "@" + std::to_string(world_.rank());
  }
  std::string loss_of(const dataflow::Tensors& fetched) const {
    return bytes_of(fetched.at(own("loss")));
  }

  std::string by_hand() {
    std::string losses;
    for (int step = 0; step < kSteps; ++step) {
      for (const TensorSpec& spec : table_.specs())
        copy(table_.parameter(spec.name), executor_.variable(own(spec.name)));
      losses +=
          loss_of(executor_.run(feeds(executor_, world_.rank(), std::uint64_t(step))).value());
      for (const TensorSpec& spec : table_.specs())
        copy(executor_.variable(own(spec.name + "/gradient")), table_.gradient(spec.name));
      table_.push_pull().or_throw();
    }
    return losses;
  }

  std::string by_table(Loop loop) {
    TableVariables bound(world_, executor_, table_, loop == Loop::viewed);
    std::string losses;
    for (int step = 0; step < kSteps; ++step)
      losses += loss_of(bound.run(feeds(executor_, world_.rank(), std::uint64_t(step))).value());
    bound.pull().or_throw();
    bound.pull().or_throw();
    return losses;
  }

  World& world_;
  Executor& executor_;
  Table& table_;
};

/// The losses of each worker. `refused`: its one worker is refused, and servers see it leave.
std::map<int, std::string> losses(const Job& job, Loop loop, bool refused = false) {
  std::map<int, std::string> all;
  std::mutex mutex;
  run_on(job.ranks, settings().with(Setting::fabric, job.fabric), [&](World& world) {
    Layer layer;
    push_gradients(layer.graph, gradients(layer.graph, layer.loss, layer.variables),
                   layer.variables);
    std::vector<int> workers;
    for (int rank = 0; rank < job.ranks - job.servers; ++rank) workers.push_back(rank);
    Touched touched;
    Executor executor(world, replicate(layer.graph, {.workers = workers}).graph, watched(touched));
    ParameterServer server(world, {.dedicated_servers = job.servers, .replicas = job.replicas});
    TableOptions options(Optimizer::adam(0.02F));
    options.consistency = job.consistency;
    options.compression = job.compression;
    Table table = server.table("model", table_specs(layer.graph, layer.variables), options);
    if (!server.works()) {
      Table* const tables[] = {&table};
      const Status served = server.serve(tables);
      if (!refused) served.or_throw();
    } else {
      for (const TensorSpec& spec : table.specs())
        dataflow::fill_at_random(table.parameter(spec.name), std::uint64_t(spec.name[0]));
      table.initialize().or_throw();
      std::string own;
      const auto run = [&] { own = Worker(world, executor, table).run(loop); };
      if (refused) {
        EXPECT_TRUE(tells(thrown_by(run), Code::bad_argument,
                          {"only the parameters of a bsp table without replicas are read"}));
        return;
      }
      run();
      for (const TensorSpec& spec : table.specs()) {
        EXPECT_EQ(touched.written.contains(table.gradient(spec.name).data()), loop != Loop::by_hand)
            << "a gradient is computed where the table reads it: " << spec.name;
        // Views come with the first pull.
        EXPECT_EQ(touched.read.contains(table.parameter(spec.name).data()), loop != Loop::by_hand)
            << spec.name;
        const Tensor last = executor.variable(spec.name + "@" + std::to_string(world.rank()));
        if (loop == Loop::viewed) {
          EXPECT_EQ(last.data(), table.view(spec.name).value().bytes().data());
          EXPECT_NE(last.data(), table.parameter(spec.name).data());
        }
      }
      // An asynchronous table copies its words to servers.
      if (job.servers == 0) {
        EXPECT_EQ(tests::all_counters(world).bytes_copied, 0U);
      }
      const std::lock_guard lock(mutex);
      all[world.rank()] = own;
    }
    world.leave().or_throw();
  });
  return all;
}

TEST(TableVariablesOfAGraph, HaveTheBitsOfALoopByHand) {
  for (const char* fabric : {"shm", "tcp"})
    for (const int ranks : {2, 3, 4}) {
      const Job job{.ranks = ranks, .fabric = fabric};
      const auto by_hand = losses(job, Loop::by_hand);
      ASSERT_EQ(by_hand.size(), std::size_t(ranks));
      ASSERT_EQ(by_hand.at(0).size(), kSteps * sizeof(float));
      EXPECT_NE(by_hand.at(0).substr(0, 4), by_hand.at(0).substr(28)) << "it learns";
      EXPECT_EQ(losses(job, Loop::bound), by_hand) << ranks << " ranks by " << fabric;
      EXPECT_EQ(losses(job, Loop::viewed), by_hand) << ranks << " ranks by " << fabric;
    }
}

TEST(TableVariablesOfAGraph, HaveTheTablesStalenessReplicasAndCompression) {
  // With one worker the order of pushes is fixed, so that equal runs have equal bits.
  std::vector<Job> jobs{{.ranks = 2, .servers = 1, .consistency = Consistency::ssp(1)},
                        {.ranks = 2, .servers = 1, .consistency = Consistency::async()},
                        {.ranks = 2, .servers = 1, .consistency = Consistency::first(1)},
                        {.ranks = 3, .servers = 2, .compression = Compression::int8()},
                        {.ranks = 3, .servers = 2, .compression = Compression::top_k(0.3F)},
                        {.ranks = 3, .servers = 2, .replicas = 2}};
  for (const Job& job : jobs)
    for (const char* fabric : {"shm", "tcp"}) {
      Job on = job;
      on.fabric = fabric;
      const auto by_hand = losses(on, Loop::by_hand);
      EXPECT_EQ(losses(on, Loop::bound), by_hand) << fabric;
      if (job.compression.kind != Compression::Kind::none) {
        EXPECT_EQ(losses(on, Loop::viewed), by_hand) << fabric;
      }
    }
}

TEST(TableVariablesOfAGraph, LearnWhileWorkersAreOutOfStep) {
  for (const char* fabric : {"shm", "tcp"})
    for (const auto& [worker, bytes] :
         losses({.ranks = 4, .servers = 1, .consistency = Consistency::ssp(2), .fabric = fabric},
                Loop::bound)) {
      float first = 0;
      float last = 0;
      std::memcpy(&first, bytes.data(), sizeof first);
      std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
      EXPECT_LT(last, first) << worker;
    }
}

TEST(TableVariablesOfAGraph, NeedVariablesThatTheGraphOnlyReads) {
  run_on(1, [](World& world) {
    const auto refusal = [&](Graph& graph, const std::vector<TensorSpec>& specs, Options options,
                             bool views) {
      for (dataflow::NodeId i = 0; i < dataflow::NodeId(graph.size()); ++i) graph.place(i, {0});
      Executor executor(world, graph, kernels());
      ParameterServer server(world, options);
      Table table = server.table("model", specs, Optimizer::sgd(0.1F));
      return thrown_by([&] { TableVariables(world, executor, table, views); });
    };
    Layer unread;
    EXPECT_TRUE(tells(refusal(unread.graph, {{"w", {6, 5}}}, {}, false), Code::bad_argument,
                      {"no variable 'w/gradient' or 'w/gradient@0'", "push_gradients()"}));
    EXPECT_TRUE(tells(refusal(unread.graph, {{"w", {5, 6}}}, {}, false), Code::mismatch,
                      {"node 'w'", "f32[5, 6]"}));
    EXPECT_TRUE(tells(refusal(unread.graph, {{"loss", {1}}}, {}, false), Code::bad_argument,
                      {"no variable 'loss'"}));
    Layer assigned;
    apply_gradients(assigned.graph, assigned.loss, assigned.variables, Optimizer::sgd(0.1F));
    EXPECT_TRUE(tells(refusal(assigned.graph, {{"w", {6, 5}}}, {}, false), Code::bad_argument,
                      {"node 'update of w' assigns variable 'w'"}));
  });
}

TEST(TableVariablesOfAGraph, AreNotViewedWhileWorkersAreOutOfStep) {
  losses({.ranks = 2, .servers = 1, .consistency = Consistency::ssp(1)}, Loop::viewed, true);
}

TEST(TableVariablesOfAGraph, AreNotViewedOnReplicas) {
  losses({.ranks = 3, .servers = 2, .replicas = 2}, Loop::viewed, true);
}

TEST(TableVariablesOfAGraph, AreNotViewedIfTheyAreSplit) {
  run_on(2, [](World& world) {
    Layer layer;
    push_gradients(layer.graph, gradients(layer.graph, layer.loss, layer.variables),
                   layer.variables);
    Executor executor(world, replicate(layer.graph, {.workers = {0, 1}}).graph, kernels());
    ParameterServer server(world, {.split_bytes = 16});
    Table table =
        server.table("model", table_specs(layer.graph, layer.variables), Optimizer::sgd(0.1F));
    table.initialize().or_throw();
    EXPECT_TRUE(tells(thrown_by([&] { TableVariables(world, executor, table, true); }),
                      Code::bad_argument, {"tensor 'w' is split"}));
    world.leave().or_throw();
  });
}

}  // namespace
}  // namespace weft::pslib
