// Control calls throw only weft's Error, for all arguments and when any descriptor can't be opened.
// control_calls.py compares this table with the headers.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <typeinfo>

#include "tests/threads/pslib/subscribers.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/executor.hpp"
#include "weft/pslib.hpp"
#include "weft/tracing.hpp"
#include "weft/variables.hpp"
#include "weft/weft.hpp"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;

/// The objects that the calls need: a job of one rank with one object of each kind.
struct Ground {
  Ground() {
    folder.write("file", "no folder");
    world = World::join();
    const SlotSpec slot_spec{.name = "slot", .shape = {4}, .placement = Placement::dynamic};
    slot = world.expose(slot_spec);
    remote = world.attach(0, slot_spec);
    published = world.expose_published({.name = "published", .shape = {4}});
    viewer = world.attach_published(0, "published");
    signal = Signal::expose(world, "signal");
    all = Collectives::open(world);
    meeting = Rendezvous::open(world, {.name = "meeting"});
    server.emplace(world);
    table.emplace(server->table("table", {{"t", Shape{4}}}, {}));
    pslib::SparseOptions options;
    options.dim = 4;
    sparse.emplace(server->sparse_table("rows", options));
    publisher.emplace(world, place.publisher());
    publication.emplace(publisher->publication("model", {{"t", DType::f32, Shape{4}}}));
    reader.emplace(
        pslib::Reader::join("model", place.reader(), Deadline::after(std::chrono::seconds(5))));
    executor.emplace(world, dataflow::Graph(), dataflow::Kernels());
    tracer.emplace(world);
  }
  static Deadline soon() { return Deadline::after(std::chrono::milliseconds(200)); }
  std::string path(const char* name) const { return (folder.path() / name).string(); }

  TempFolder folder;
  SubscriberAddressFile place;
  World world;
  Slot slot;
  RemoteSlot remote;
  PublishedSlot published;
  PublishedReader viewer;
  Signal signal;
  Collectives all;
  Rendezvous meeting;
  std::optional<pslib::ParameterServer> server;
  std::optional<pslib::Table> table;
  std::optional<pslib::SparseTable> sparse;
  std::optional<pslib::Publisher> publisher;
  std::optional<pslib::Publication> publication;
  std::optional<pslib::Reader> reader;
  std::optional<dataflow::Executor> executor;
  std::optional<dataflow::TracingAllocator> tracer;
};

struct ControlCall {
  const char* name;  ///< as the headers have it
  std::function<void(Ground&)> call;
};

const std::string kLong(100'000, 'n');
const Shape kShape{4};

std::vector<int> no_ranks() { return {-1, 7, std::numeric_limits<int>::max()}; }

pslib::TableOptions saved_in(const std::string& folder) {
  pslib::TableOptions options;
  options.checkpoint = {.folder = folder, .every = 1};
  return options;
}

const std::vector<ControlCall>& calls() {
  static const std::vector<ControlCall> all{
      {"World::join", [](Ground&) { (void)World::join(); }},
      {"World::join",
       [](Ground&) {
         (void)World::join({.rank = 7, .size = 2, .address = kLong, .token = kLong});
       }},
      {"World::host", [](Ground& g) { (void)g.world.host(0); }},
      {"World::host", [](Ground& g) { (void)g.world.host(1 << 30); }},
      {"World::allocate", [](Ground& g) { (void)g.world.allocate(DType::f32, kShape); }},
      {"World::allocate",
       [](Ground& g) { (void)g.world.allocate(DType::f64, {std::int64_t{1} << 58}); }},
      {"World::allocate",
       [](Ground& g) { (void)g.world.allocate(DType::f32, kShape, Memory::gpu(31'000)); }},
      {"World::copy",
       [](Ground& g) {
         const Tensor from = g.world.allocate(DType::f32, kShape);
         g.world.copy(from, g.world.allocate(DType::f32, kShape), {}, Ground::soon());
       }},
      {"World::copy",
       [](Ground& g) {
         const Tensor from = g.world.allocate(DType::f32, kShape);
         g.world.copy(from, Tensor(), Stream::cuda(nullptr), Ground::soon());
       }},
      {"World::adopt",
       [](Ground& g) { (void)g.world.adopt(std::make_shared<int>(), DType::f32, {1}); }},
      {"World::adopt", [](Ground& g) { (void)g.world.adopt(nullptr, DType::f32, kShape, {}); }},
      {"World::expose", [](Ground& g) { (void)g.world.expose({.name = "a", .shape = kShape}); }},
      {"World::expose", [](Ground& g) { (void)g.world.expose({.name = kLong, .shape = kShape}); }},
      {"World::expose",
       [](Ground& g) { (void)g.world.expose({.name = "a", .shape = kShape}, Tensor()); }},
      {"World::attach", [](Ground& g) { (void)g.world.attach(0, "none", Ground::soon()); }},
      {"World::attach", [](Ground& g) { (void)g.world.attach(-5, "slot", Ground::soon()); }},
      {"World::attach", [](Ground& g) { (void)g.world.attach(0, kLong, Ground::soon()); }},
      {"World::expose_published",
       [](Ground& g) { (void)g.world.expose_published({.name = "b", .shape = kShape}); }},
      {"World::expose_published",
       [](Ground& g) { (void)g.world.expose_published({.name = kLong, .shape = kShape}); }},
      {"World::attach_published",
       [](Ground& g) { (void)g.world.attach_published(0, "none", Ground::soon()); }},
      {"World::attach_published",
       [](Ground& g) { (void)g.world.attach_published(0, "slot", Ground::soon()); }},
      {"World::event_fd", [](Ground& g) { (void)g.world.event_fd(); }},
      {"World::declare_dead", [](Ground& g) { g.world.declare_dead(9, kLong); }},
      {"World::report", [](Ground& g) { (void)g.world.report(); }},
      {"Slot::allocate_with", [](Ground& g) { g.slot.allocate_with({}); }},
      {"Slot::also_needs", [](Ground& g) { g.slot.also_needs(no_ranks()); }},
      {"RemoteSlot::also_needs", [](Ground& g) { g.remote.also_needs(no_ranks()); }},
      {"PublishedSlot::also_needs", [](Ground& g) { g.published.also_needs(no_ranks()); }},
      {"PublishedReader::also_needs", [](Ground& g) { g.viewer.also_needs(no_ranks()); }},
      {"RemoteSlot::use_queue_pair", [](Ground& g) { g.remote.use_queue_pair(-1); }},
      {"Signal::expose", [](Ground& g) { (void)Signal::expose(g.world, "another"); }},
      {"Signal::expose", [](Ground& g) { (void)Signal::expose(g.world, kLong); }},
      {"Signal::also_needs", [](Ground& g) { g.signal.also_needs(no_ranks()); }},
      {"RemoteSignal::attach",
       [](Ground& g) { (void)RemoteSignal::attach(g.world, 0, "signal", Ground::soon()); }},
      {"Messages::Messages", [](Ground& g) { (void)Messages(g.world); }},
      {"Rendezvous::open",
       [](Ground& g) { (void)Rendezvous::open(g.world, {.name = "r"}, Ground::soon()); }},
      {"Rendezvous::open",
       [](Ground& g) { (void)Rendezvous::open(g.world, {.name = kLong}, Ground::soon()); }},
      {"Rendezvous::recv",
       [](Ground& g) {
         const std::vector<KeyStep> wanted{{kLong, 1}, {"k", 2}};
         (void)g.meeting.recv(99, wanted, Ground::soon());
         (void)g.meeting.recv(0, wanted, Ground::soon());
       }},
      {"Collectives::open", [](Ground& g) { (void)Collectives::open(g.world, Ground::soon()); }},
      {"Collectives::open",
       [](Ground& g) { (void)Collectives::open(g.world, no_ranks(), Ground::soon()); }},
      {"Collectives::plan", [](Ground& g) { (void)g.all.plan(barrier()); }},
      {"Collectives::plan", [](Ground& g) { (void)g.all.plan(broadcast(Tensor(), 9)); }},
      {"Collectives::start", [](Ground& g) { (void)g.all.start(barrier()); }},
      {"Group::subset", [](Ground& g) { (void)g.world.group().subset(no_ranks()); }},
      {"Group::subset", [](Ground& g) { (void)g.world.group().subset(std::vector{0}); }},
      {"make_shard_map",
       [](Ground&) {
         const std::vector<pslib::TensorSpec> specs{{"t", Shape{1 << 20}}};
         (void)pslib::make_shard_map(specs, std::vector{0, 1, 2}, 1);
       }},
      {"ParameterServer::ParameterServer",
       [](Ground& g) { (void)pslib::ParameterServer(g.world, {}, "x"); }},
      {"ParameterServer::ParameterServer",
       [](Ground& g) { (void)pslib::ParameterServer(g.world, {.servers = no_ranks()}); }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table("fresh", {{"t", kShape}}, {},
                               Deadline::after(std::chrono::seconds(5)));
       }},
      {"ParameterServer::table", [](Ground& g) { (void)g.server->table("a", {}, {}); }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table(kLong, {{"t", kShape}}, {});
       }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table("b", {{"t", kShape}}, saved_in("/proc/self/none"));
       }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table("c", {{"t", kShape}}, saved_in(g.path("file")));
       }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table("../d", {{"t", kShape}}, saved_in(g.path("x")));
       }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table("e", {{"t", kShape}}, saved_in("/" + kLong));
       }},
      {"ParameterServer::table",
       [](Ground& g) {
         (void)g.server->table("saved", {{"t", kShape}}, saved_in(g.path("checkpoints")));
       }},
      {"ParameterServer::sparse_table",
       [](Ground& g) { (void)g.server->sparse_table("f", {}, Ground::soon()); }},
      {"ParameterServer::serve", [](Ground& g) { (void)g.server->serve({}); }},
      {"Table::parameter", [](Ground& g) { (void)g.table->parameter("none"); }},
      {"Table::gradient", [](Ground& g) { (void)g.table->gradient("none"); }},
      {"Table::pulled", [](Ground& g) { (void)g.table->pulled(); }},
      {"Table::statistics", [](Ground& g) { (void)g.table->statistics(); }},
      {"Table::compression", [](Ground& g) { (void)g.table->compression(); }},
      {"Table::describe", [](Ground& g) { (void)g.table->describe(); }},
      {"SparseTable::statistics", [](Ground& g) { (void)g.sparse->statistics(); }},
      {"Publisher::Publisher",
       [](Ground& g) {
         (void)pslib::Publisher(g.world, {.address = g.path("at"), .token_file = g.place.token()});
       }},
      {"Publisher::Publisher",
       [](Ground& g) { (void)pslib::Publisher(g.world, {.address = kLong}); }},
      {"Publisher::Publisher",
       [](Ground& g) {
         (void)pslib::Publisher(g.world,
                                {.address = g.path("none/a"), .token_file = g.place.token()});
       }},
      {"Publisher::publication",
       [](Ground& g) {
         (void)g.publisher->publication("p", {{"t", DType::f32, kShape}});
       }},
      {"Publisher::publication", [](Ground& g) { (void)g.publisher->publication(kLong, {}); }},
      {"Reader::join",
       [](Ground& g) { (void)pslib::Reader::join("none", g.place.reader(), Ground::soon()); }},
      {"Reader::receive_into", [](Ground& g) { g.reader->receive_into({Tensor()}); }},
      {"Reader::tensor", [](Ground& g) { (void)g.reader->tensor("none"); }},
      {"Executor::Executor",
       [](Ground& g) {
         const dataflow::Executor executor(g.world, dataflow::Graph(), {}, {.name = kLong});
       }},
      {"Executor::feed", [](Ground& g) { (void)g.executor->feed("none"); }},
      {"Executor::variable", [](Ground& g) { (void)g.executor->variable("none"); }},
      {"Executor::bind", [](Ground& g) { g.executor->bind("none", Tensor()); }},
      {"Executor::report", [](Ground& g) { (void)g.executor->report(); }},
      {"with_updates", [](Ground&) { (void)pslib::with_updates(dataflow::Kernels(), {}); }},
      {"with_updates",
       [](Ground&) {
         const std::shared_ptr<const pslib::Rule> none[1];
         (void)pslib::with_updates(dataflow::Kernels(), none);
       }},
      {"apply_gradients",
       [](Ground&) {
         dataflow::Graph graph;
         (void)pslib::apply_gradients(graph, dataflow::TensorId{9, 0}, {}, {});
       }},
      {"push_gradients",
       [](Ground&) {
         dataflow::Graph graph;
         const dataflow::TensorId none[1];
         (void)pslib::push_gradients(graph, none, none);
       }},
      {"table_specs",
       [](Ground&) {
         const dataflow::TensorId none[1];
         (void)pslib::table_specs(dataflow::Graph(), none);
       }},
      {"VariableCheckpoints::VariableCheckpoints",
       [](Ground& g) {
         (void)pslib::VariableCheckpoints(g.world, *g.executor, {.folder = g.path("file")});
       }},
      {"load_variables",
       [](Ground& g) { (void)pslib::load_variables(g.world, *g.executor, g.path("file")); }},
      {"TableVariables::TableVariables",
       [](Ground& g) { (void)pslib::TableVariables(g.world, *g.executor, *g.table); }},
      {"TracingAllocator::TracingAllocator",
       [](Ground& g) { (void)dataflow::TracingAllocator(g.world, {.max_sites = 0}); }},
      {"TracingAllocator::enter", [](Ground& g) { (void)g.tracer->enter(kLong); }},
      {"TracingAllocator::enter", [](Ground& g) { (void)g.tracer->enter("node"); }},
      {"TracingAllocator::allocate", [](Ground& g) { (void)g.tracer->allocate(DType::f32, {1}); }},
      {"TracingAllocator::allocate",
       [](Ground& g) {
         const auto running = g.tracer->enter("node");
         (void)g.tracer->allocate(DType::f64, Shape{Shape::kMaxElements});
       }},
      {"TracingAllocator::to_send", [](Ground& g) { (void)g.tracer->to_send(Tensor()); }},
      {"TracingAllocator::mark_cut",
       [](Ground& g) { g.tracer->mark_cut("node", std::numeric_limits<std::uint32_t>::max()); }},
      {"TracingAllocator::next_step", [](Ground& g) { g.tracer->next_step(); }},
      {"TracingAllocator::report", [](Ground& g) { (void)g.tracer->report(); }},
      {"TracingReport::text", [](Ground&) { (void)dataflow::TracingReport().text(); }},
      {"TracingReport::json", [](Ground&) { (void)dataflow::TracingReport().json(); }},
      {"Kernels::add", [](Ground&) { dataflow::Kernels().add("Relu", {}); }},
      {"KernelCall::KernelCall",
       [](Ground&) { const dataflow::KernelCall call(dataflow::Node(), {}, {}); }},
      {"KernelCall::output",
       [](Ground&) {
         dataflow::Graph graph;
         const auto id =
             graph.add("weft.Fill", {}, {{"dtype", "f32"}, {"shape", dataflow::Sizes{2}}});
         const auto none = [](std::size_t, DType, const Shape&) { return Tensor(); };
         (void)dataflow::KernelCall(graph.node(id.node), {}, none).output(1);
       }},
      {"KernelCall::allocate",
       [](Ground&) {
         const auto none = [](std::size_t, DType, const Shape&) { return Tensor(); };
         const dataflow::Node node;
         (void)dataflow::KernelCall(node, {}, none).allocate(DType::f64, {4});
       }},
      {"KernelCall::give",
       [](Ground&) {
         const auto none = [](std::size_t, DType, const Shape&) { return Tensor(); };
         dataflow::Graph graph;
         const auto id =
             graph.add("weft.Fill", {}, {{"dtype", "f32"}, {"shape", dataflow::Sizes{2}}});
         dataflow::KernelCall(graph.node(id.node), {}, none).give(0, Tensor());
       }},
  };
  return all;
}

enum class Outcome { returned, refused, escaped };

Outcome outcome_of(const ControlCall& each, Ground& ground, std::string& what) {
  try {
    each.call(ground);
    return Outcome::returned;
  } catch (const Error& error) {
    what = error.what();
    return Outcome::refused;
  } catch (const std::exception& error) {
    what = typeid(error).name() + std::string(": ") + error.what();
  } catch (...) {
    what = "no std::exception";
  }
  return Outcome::escaped;
}

TEST(ControlCalls, ThrowErrorsAloneWhateverTheyAreGiven) {
  Ground ground;
  std::string what;
  for (const ControlCall& each : calls())
    EXPECT_NE(outcome_of(each, ground, what), Outcome::escaped) << each.name << ": " << what;
}

TEST(ControlCalls, ThrowErrorsAloneWhereverDescriptorsEnd) {
  Ground ground;
  std::string what;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  for (rlim_t more = 0; more < 24; ++more) {
    const int next = ::dup(0);
    ::close(next);
    const rlimit few{static_cast<rlim_t>(next) + more, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (const ControlCall& each : calls()) {
      const std::string_view name = each.name;
      if (name != "World::join" && name != "ParameterServer::table" &&
          name != "Publisher::Publisher")
        continue;
      EXPECT_NE(outcome_of(each, ground, what), Outcome::escaped)
          << name << ", descriptor " << more << ": " << what;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  }
}

}  // namespace
}  // namespace weft::tests
