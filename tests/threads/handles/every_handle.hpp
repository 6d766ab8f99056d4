// One handle of every kind, all made from one world of one rank.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/threads/pslib/subscribers.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/executor.hpp"
#include "weft/pslib.hpp"
#include "weft/tracing.hpp"
#include "weft/variables.hpp"
#include "weft/weft.hpp"

namespace weft::tests {

/// Files that the handles need. Stays until all of them have gone.
struct Places {
  TempFolder checkpoints;
  SubscriberAddressFile publisher;
};

/// Default-constructed: handles without a state, and none of those that need one. The world is
/// declared last, so that it goes first.
struct EveryHandle {
  Slot slot;
  RemoteSlot remote;
  Arrival arrival;  ///< of `slot`
  Request request;  ///< pending
  PublishedSlot published;
  PublishedReader viewer;
  Arrival viewed;  ///< of `viewer`
  Signal signal;
  RemoteSignal remote_signal;
  Group group;
  Collectives collectives;
  Plan plan;
  std::optional<Messages> messages;
  MessageRequest message;  ///< a receive that nothing matches
  Rendezvous rendezvous;
  std::optional<pslib::ParameterServer> server;
  std::optional<pslib::Table> table;
  std::optional<pslib::SparseTable> sparse;
  std::optional<pslib::Publisher> publisher;
  std::optional<pslib::Publication> publication;
  std::optional<pslib::Reader> reader;
  std::optional<dataflow::Executor> executor;
  std::optional<pslib::VariableCheckpoints> checkpoints;
  std::optional<pslib::TableVariables> variables;
  std::optional<dataflow::TracingAllocator> tracer;
  std::unique_ptr<dataflow::RunningNode> running;
  Tensor tensor;
  Tensor traced;
  World world;
};

inline const Shape kShape{4};
inline Deadline at_once() { return Deadline::after(std::chrono::milliseconds(1)); }

inline dataflow::Graph graph_with_a_variable() {
  dataflow::Graph graph;
  graph.place_next({0});
  const std::array gradients{graph.feed("g", DType::f32, kShape)};
  const std::array variables{graph.variable("w", DType::f32, kShape)};
  (void)pslib::push_gradients(graph, gradients, variables);
  return graph;
}

/// All handles, in use. Throws Error.
inline std::unique_ptr<EveryHandle> make_every_handle(const Places& places) {
  auto made = std::make_unique<EveryHandle>();
  EveryHandle& all = *made;
  all.world = World::join();
  World& world = all.world;
  all.tensor = world.allocate(DType::f32, kShape);
  all.slot = world.expose({.name = "slot", .shape = kShape});
  all.remote = world.attach(0, "slot");
  all.remote.put(all.tensor).wait().or_throw();
  all.arrival = all.slot.wait().value();
  all.request = all.remote.put(all.tensor);
  all.published = world.expose_published({.name = "published", .shape = kShape});
  all.viewer = world.attach_published(0, "published");
  (void)all.published.next().value();
  all.published.publish().or_throw();
  all.viewed = all.viewer.view().value();
  all.signal = Signal::expose(world, "signal");
  all.remote_signal = RemoteSignal::attach(world, 0, "signal");
  all.group = world.group();
  all.collectives = Collectives::open(world);
  all.plan = all.collectives.start(barrier());
  all.messages.emplace(world);
  all.message = all.messages->irecv(0, 1, all.tensor);
  all.rendezvous = Rendezvous::open(world);
  all.server.emplace(world);
  all.table.emplace(all.server->table("table", {{"w", kShape}}, {}));
  pslib::SparseOptions rows;
  rows.dim = 4;
  all.sparse.emplace(all.server->sparse_table("rows", rows));
  all.publisher.emplace(world, places.publisher.publisher());
  all.publication.emplace(all.publisher->publication("model", {{"t", DType::f32, kShape}}));
  all.reader.emplace(pslib::Reader::join("model", places.publisher.reader(),
                                         Deadline::after(std::chrono::seconds(20))));
  all.executor.emplace(world, graph_with_a_variable(), dataflow::Kernels());
  all.checkpoints.emplace(world, *all.executor,
                          pslib::CheckpointOptions{.folder = places.checkpoints.path().string()});
  all.variables.emplace(world, *all.executor, *all.table);
  all.tracer.emplace(world);
  all.running.reset(new dataflow::RunningNode(all.tracer->enter("node")));
  all.traced = all.tracer->allocate(DType::f32, kShape);
  return made;
}

/// A kind of handle, and how one lets go of it.
struct Kind {
  const char* name;  ///< the class, as the headers have it
  void (*drop)(EveryHandle&);
};

inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"Slot", [](EveryHandle& h) { h.slot = {}; }},
      {"RemoteSlot", [](EveryHandle& h) { h.remote = {}; }},
      {"Arrival", [](EveryHandle& h) { h.arrival = {}; }},
      {"Request", [](EveryHandle& h) { h.request = {}; }},
      {"PublishedSlot", [](EveryHandle& h) { h.published = {}; }},
      {"PublishedReader", [](EveryHandle& h) { h.viewer = {}; }},
      {"Arrival of a PublishedReader", [](EveryHandle& h) { h.viewed = {}; }},
      {"Signal", [](EveryHandle& h) { h.signal = {}; }},
      {"RemoteSignal", [](EveryHandle& h) { h.remote_signal = {}; }},
      {"Group", [](EveryHandle& h) { h.group = {}; }},
      {"Collectives", [](EveryHandle& h) { h.collectives = {}; }},
      {"Plan", [](EveryHandle& h) { h.plan = {}; }},
      {"Messages", [](EveryHandle& h) { h.messages.reset(); }},
      {"MessageRequest", [](EveryHandle& h) { h.message = {}; }},
      {"Rendezvous", [](EveryHandle& h) { h.rendezvous = {}; }},
      {"ParameterServer", [](EveryHandle& h) { h.server.reset(); }},
      {"Table", [](EveryHandle& h) { h.table.reset(); }},
      {"SparseTable", [](EveryHandle& h) { h.sparse.reset(); }},
      {"Publisher", [](EveryHandle& h) { h.publisher.reset(); }},
      {"Publication", [](EveryHandle& h) { h.publication.reset(); }},
      {"Reader", [](EveryHandle& h) { h.reader.reset(); }},
      {"Executor", [](EveryHandle& h) { h.executor.reset(); }},
      {"VariableCheckpoints", [](EveryHandle& h) { h.checkpoints.reset(); }},
      {"TableVariables", [](EveryHandle& h) { h.variables.reset(); }},
      {"TracingAllocator", [](EveryHandle& h) { h.tracer.reset(); }},
      {"RunningNode", [](EveryHandle& h) { h.running.reset(); }},
      {"Tensor", [](EveryHandle& h) { h.tensor = {}; }},
      {"World", [](EveryHandle& h) { h.world = {}; }},
  };
  return all;
}

/// A call of a handle, and the answer that an empty one and an orphan give.
struct HandleCall {
  enum class Answer : std::uint8_t {
    fails,     ///< empty: bad_argument with the type's name; orphan: closed
    is_local,  ///< empty: as `fails`; orphan: anything but a crash
    is_quiet,  ///< empty: what the call returned is neutral; orphan: anything but a crash
    has_ended  ///< empty: ok; orphan: closed
  };
  const char* name;  ///< as the headers have it: class, function and the names of its parameters
  Answer answer;
  /// Returns the call's status, or for `is_quiet` ok() if the answer was neutral. May throw Error.
  std::function<Status(EveryHandle&)> call;

  std::string type() const {
    const std::string whole = name;
    return whole.substr(0, whole.find("::"));
  }
};

/// Every public call of every handle.
const std::vector<HandleCall>& handle_calls();

/// Whether `all` has a handle for the call: handles that can't be empty may be missing.
bool has_handle_for(const EveryHandle& all, const HandleCall& call);

/// The call's status; that of the Error that it throws.
inline Status outcome(const HandleCall& call, EveryHandle& all) {
  try {
    return call.call(all);
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace weft::tests
