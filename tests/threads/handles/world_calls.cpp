#include <memory_resource>
#include <new>

#include "tests/threads/handles/call_lists.hpp"

namespace weft::tests {
namespace {

template <typename T>
std::array<T*, 1> only(T& one) {
  return {&one};
}

}  // namespace

std::vector<HandleCall> calls_of_the_world() {
  using std::string;
  const auto done = [](auto&&...) { return Status(); };
  return {
      {"World::rank()", Answer::is_quiet, [](H& h) { return neutral(h.world.rank() == -1); }},
      {"World::size()", Answer::is_quiet, [](H& h) { return neutral(h.world.size() == 0); }},
      {"World::local_size()", Answer::is_quiet,
       [](H& h) { return neutral(h.world.local_size() == 0); }},
      {"World::host(rank)", Answer::is_local, [=](H& h) { return done(h.world.host(0)); }},
      {"World::allocate(dtype, shape)", Answer::is_local,
       [=](H& h) { return done(h.world.allocate(DType::f32, kShape)); }},
      {"World::allocate(dtype, shape, memory)", Answer::is_local,
       [=](H& h) { return done(h.world.allocate(DType::f32, kShape, weft::Memory::host())); }},
      {"World::copy(from, to, stream, deadline)", Answer::is_local,
       [](H& h) {
         float from[4] = {}, to[4] = {};
         h.world.copy(Tensor::wrap(from, DType::f32, kShape), Tensor::wrap(to, DType::f32, kShape));
         return Status();
       }},
      {"World::adopt(memory, dtype, shape)", Answer::is_local,
       [=](H& h) {
         return done(h.world.adopt(std::make_shared<std::array<float, 4>>(), DType::f32, kShape));
       }},
      {"World::adopt(memory, dtype, shape, unused)", Answer::is_local,
       [=](H& h) {
         static float memory[4] = {};
         return done(h.world.adopt(memory, DType::f32, kShape, [] {}));
       }},
      {"World::memory()", Answer::is_quiet,
       [](H& h) {
         try {
           void* const block = h.world.memory().allocate(64, 64);
           h.world.memory().deallocate(block, 64, 64);
           return neutral(false);
         } catch (const std::bad_alloc&) {
           return neutral(true);
         }
       }},
      {"World::expose(spec)", Answer::fails,
       [=](H& h) { return done(h.world.expose({.name = "new", .shape = kShape})); }},
      {"World::expose(spec, memory)", Answer::fails,
       [=](H& h) {
         float memory[4] = {};
         return done(h.world.expose({.name = "new", .shape = kShape},
                                    Tensor::wrap(memory, DType::f32, kShape)));
       }},
      {"World::expose_published(spec)", Answer::fails,
       [=](H& h) { return done(h.world.expose_published({.name = "new", .shape = kShape})); }},
      {"World::attach(owner, expected, deadline)", Answer::fails,
       [=](H& h) {
         return done(h.world.attach(0, SlotSpec{.name = "no", .shape = kShape}, at_once()));
       }},
      {"World::attach(owner, name, deadline)", Answer::fails,
       [=](H& h) { return done(h.world.attach(0, string("no"), at_once())); }},
      {"World::attach_published(owner, expected, deadline)", Answer::fails,
       [=](H& h) {
         return done(
             h.world.attach_published(0, PublishedSpec{.name = "no", .shape = kShape}, at_once()));
       }},
      {"World::attach_published(owner, name, deadline)", Answer::fails,
       [=](H& h) { return done(h.world.attach_published(0, string("no"), at_once())); }},
      {"World::wait_any(slots, deadline)", Answer::fails,
       [](H& h) { return h.world.wait_any(only(h.slot), at_once()).status(); }},
      {"World::wait_any(readers, deadline)", Answer::fails,
       [](H& h) { return h.world.wait_any(only(h.viewer), at_once()).status(); }},
      {"World::wait_any(requests, deadline)", Answer::fails,
       [](H& h) { return h.world.wait_any(only(h.request), at_once()).status(); }},
      {"World::wait_any(set, deadline)", Answer::fails,
       [](H& h) { return h.world.wait_any(WaitSet{}, at_once()).status(); }},
      {"World::event_fd()", Answer::is_local, [=](H& h) { return done(h.world.event_fd()); }},
      {"World::clear_event()", Answer::is_quiet,
       [](H& h) {
         h.world.clear_event();
         return Status();
       }},
      {"World::declare_dead(rank, why)", Answer::fails,
       [](H& h) {
         h.world.declare_dead(7, "a test");
         return Status();
       }},
      {"World::alive(ranks)", Answer::fails, [](H& h) { return h.world.alive({}); }},
      {"World::group()", Answer::is_quiet,
       [](H& h) { return neutral(h.world.group().size() == 0); }},
      {"World::report()", Answer::is_local, [=](H& h) { return done(h.world.report()); }},
      // Leaving again is no mistake.
      {"World::leave(deadline)", Answer::is_local,
       [](H& h) { return h.world.leave(Deadline::after(std::chrono::seconds(5))); }},
  };
}

std::vector<HandleCall> calls_with_a_world() {
  const auto done = [](auto&&...) { return Status(); };
  return {
      {"World::Collectives::open(world, deadline)", Answer::fails,
       [=](H& h) { return done(Collectives::open(h.world, at_once())); }},
      {"World::Collectives::open(world, ranks, deadline)", Answer::fails,
       [=](H& h) { return done(Collectives::open(h.world, std::array{0}, at_once())); }},
      {"World::Collectives::open(world, group, deadline)", Answer::fails,
       [=](H& h) { return done(Collectives::open(h.world, h.group, at_once())); }},
      {"World::Rendezvous::open(world, spec, deadline)", Answer::fails,
       [=](H& h) { return done(Rendezvous::open(h.world, {.name = "new"}, at_once())); }},
      {"World::Rendezvous::open(world, group, spec, deadline)", Answer::fails,
       [=](H& h) { return done(Rendezvous::open(h.world, h.group, {.name = "new"}, at_once())); }},
      {"World::Signal::expose(world, name, value)", Answer::fails,
       [=](H& h) { return done(Signal::expose(h.world, "new")); }},
      {"World::RemoteSignal::attach(world, owner, name, deadline)", Answer::fails,
       [=](H& h) { return done(RemoteSignal::attach(h.world, 0, "no", at_once())); }},
      {"World::Messages::Messages(world)", Answer::fails,
       [=](H& h) { return done(Messages(h.world)); }},
      {"World::ParameterServer::ParameterServer(world, options, name)", Answer::fails,
       [=](H& h) { return done(pslib::ParameterServer(h.world, {}, "new")); }},
      {"World::ParameterServer::ParameterServer(world, group, options, name)", Answer::fails,
       [=](H& h) { return done(pslib::ParameterServer(h.world, h.group, {}, "new")); }},
      {"World::Publisher::Publisher(world, options)", Answer::fails,
       [=](H& h) { return done(pslib::Publisher(h.world, {.most_subscribers = 1})); }},
      {"World::TracingAllocator::TracingAllocator(world, options)", Answer::fails,
       [=](H& h) { return done(dataflow::TracingAllocator(h.world)); }},
      {"World::Executor::Executor(world, graph, kernels, options)", Answer::fails,
       [=](H& h) {
         return done(dataflow::Executor(h.world, dataflow::Graph(), dataflow::Kernels(),
                                        {.name = "new", .start = at_once()}));
       }},
      {"World::VariableCheckpoints::VariableCheckpoints(world, executor, options, name, deadline)",
       Answer::fails,
       [=](H& h) {
         return done(pslib::VariableCheckpoints(h.world, h.executor.value(), {.folder = "/no"},
                                                "new", at_once()));
       }},
      {"Executor::VariableCheckpoints::VariableCheckpoints(world, executor, options, name, "
       "deadline)",
       Answer::is_local,
       [=](H& h) {
         World world = World::join();
         return done(pslib::VariableCheckpoints(world, h.executor.value(), {.folder = "/no"}, "new",
                                                at_once()));
       }},
      {"World::TableVariables::TableVariables(world, executor, table, views)", Answer::fails,
       [=](H& h) {
         return done(pslib::TableVariables(h.world, h.executor.value(), h.table.value()));
       }},
      {"Executor::load_variables(world, executor, folder, name, version)", Answer::is_local,
       [=](H& h) {
         World world = World::join();
         return done(pslib::load_variables(world, h.executor.value(), "/no"));
       }},
      {"Group::rank()", Answer::is_quiet, [](H& h) { return neutral(h.group.rank() == -1); }},
      {"Group::size()", Answer::is_quiet, [](H& h) { return neutral(h.group.size() == 0); }},
      {"Group::members()", Answer::is_quiet,
       [](H& h) { return neutral(h.group.members().empty()); }},
      {"Group::place_of(world_rank)", Answer::is_quiet,
       [](H& h) { return neutral(h.group.place_of(0) == -1); }},
      {"Group::contains(world_rank)", Answer::is_quiet,
       [](H& h) { return neutral(!h.group.contains(0)); }},
      {"Group::epoch()", Answer::is_quiet, [](H& h) { return neutral(h.group.epoch() == 0); }},
      {"Group::id()", Answer::is_quiet, [](H& h) { return neutral(h.group.id() == 0); }},
      {"Group::subset(places)", Answer::fails,
       [=](H& h) { return done(h.group.subset(std::array{0})); }},
      {"Group::split(colour, key, deadline)", Answer::fails,
       [](H& h) { return h.group.split(0, 0, at_once()).status(); }},
      {"Group::shrink(deadline)", Answer::fails,
       [](H& h) { return h.group.shrink(at_once()).status(); }},
  };
}

}  // namespace weft::tests
