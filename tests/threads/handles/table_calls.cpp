#include "tests/threads/handles/call_lists.hpp"

namespace weft::tests {

std::vector<HandleCall> calls_of_pslib() {
  using pslib::SparseOptions;
  const auto done = [](auto&&...) { return Status(); };
  static std::vector<float> rows(4);
  static const std::array<std::uint64_t, 1> ids{1};
  return {
      {"ParameterServer::works()", Answer::is_quiet,
       [](H& h) { return neutral(!h.server->works()); }},
      {"ParameterServer::serves()", Answer::is_quiet,
       [](H& h) { return neutral(!h.server->serves()); }},
      {"ParameterServer::table(name, specs, options, deadline)", Answer::fails,
       [=](H& h) {
         return done(h.server->table("new", {{"w", kShape}}, {}, at_once()));
       }},
      {"ParameterServer::sparse_table(name, options, deadline)", Answer::fails,
       [=](H& h) {
         SparseOptions options;
         options.dim = 4;
         return done(h.server->sparse_table("new rows", options, at_once()));
       }},
      {"ParameterServer::serve(tables, sparse, deadline)", Answer::fails,
       [](H& h) { return h.server->serve({}, {}, at_once()); }},
      {"ParameterServer::serve(table, deadline)", Answer::fails,
       [](H& h) { return h.server->serve(*h.table, at_once()); }},
      {"Table::parameter(name)", Answer::fails,
       [=](H& h) { return done(h.table->parameter("w")); }},
      {"Table::gradient(name)", Answer::fails, [=](H& h) { return done(h.table->gradient("w")); }},
      {"Table::initialize(deadline)", Answer::fails,
       [](H& h) { return h.table->initialize(at_once()); }},
      {"Table::push()", Answer::fails, [](H& h) { return h.table->push(); }},
      {"Table::pull(deadline)", Answer::fails, [](H& h) { return h.table->pull(at_once()); }},
      {"Table::push_pull(deadline)", Answer::fails,
       [](H& h) { return h.table->push_pull(at_once()); }},
      {"Table::wait_updated(deadline)", Answer::fails,
       [](H& h) { return h.table->wait_updated(at_once()); }},
      {"Table::view(name)", Answer::fails, [](H& h) { return h.table->view("w").status(); }},
      {"Table::view_piece(piece)", Answer::fails,
       [](H& h) {
         const auto& pieces = h.table->pieces();
         return h.table->view_piece(pieces.empty() ? pslib::ShardPiece{} : pieces[0]).status();
       }},
      {"Table::version()", Answer::is_quiet, [](H& h) { return neutral(h.table->version() == 0); }},
      {"Table::pulled()", Answer::fails, [=](H& h) { return done(h.table->pulled()); }},
      {"Table::statistics()", Answer::is_local, [=](H& h) { return done(h.table->statistics()); }},
      {"Table::compression()", Answer::fails, [=](H& h) { return done(h.table->compression()); }},
      {"Table::specs()", Answer::is_quiet, [](H& h) { return neutral(h.table->specs().empty()); }},
      {"Table::pieces()", Answer::is_quiet,
       [](H& h) { return neutral(h.table->pieces().empty()); }},
      {"Table::describe()", Answer::is_local, [=](H& h) { return done(h.table->describe()); }},
      {"SparseTable::lookup(ids, rows, deadline)", Answer::fails,
       [](H& h) { return h.sparse->lookup(ids, rows, at_once()); }},
      {"SparseTable::push(ids, gradients, deadline)", Answer::fails,
       [](H& h) { return h.sparse->push(ids, rows, at_once()); }},
      {"SparseTable::push_lookup(pushed, gradients, ids, rows, deadline)", Answer::fails,
       [](H& h) { return h.sparse->push_lookup(ids, rows, ids, rows, at_once()); }},
      {"SparseTable::flush(deadline)", Answer::fails,
       [](H& h) { return h.sparse->flush(at_once()); }},
      {"SparseTable::dim()", Answer::is_quiet, [](H& h) { return neutral(h.sparse->dim() == 0); }},
      {"SparseTable::version()", Answer::is_quiet,
       [](H& h) { return neutral(h.sparse->version() == 0); }},
      {"SparseTable::statistics()", Answer::is_local,
       [=](H& h) { return done(h.sparse->statistics()); }},
      {"SparseTable::server_of(id)", Answer::is_quiet,
       [](H& h) { return neutral(h.sparse->server_of(1) == -1); }},
      {"Publisher::publication(name, specs, options)", Answer::fails,
       [=](H& h) {
         return done(h.publisher->publication("new", {{"t", DType::f32, kShape}}));
       }},
      {"Publisher::address()", Answer::is_quiet,
       [](H& h) { return neutral(h.publisher->address().empty()); }},
      {"Publisher::subscribers()", Answer::is_quiet,
       [](H& h) { return neutral(h.publisher->subscribers() == 0); }},
      {"Publisher::rejected_connections()", Answer::is_quiet,
       [](H& h) { return neutral(h.publisher->rejected_connections() == 0); }},
      {"Publication::publish(tensors, step)", Answer::fails,
       [](H& h) { return h.publication->publish(std::span(&h.tensor, 1)); }},
      {"Publication::version()", Answer::is_quiet,
       [](H& h) { return neutral(h.publication->version() == 0); }},
      {"Publication::statistics()", Answer::is_quiet,
       [](H& h) { return neutral(h.publication->statistics().version == 0); }},
      {"Publisher::leave(deadline)", Answer::fails,
       [](H& h) { return h.publisher->leave(at_once()); }},
      // A reader is of no world.
      {"Reader::specs()", Answer::is_quiet,
       [](H& h) { return neutral(h.reader->specs().empty()); }},
      {"Reader::receive_into(tensors)", Answer::is_local,
       [](H& h) {
         h.reader->receive_into({h.tensor});
         return Status();
       }},
      {"Reader::pull_latest(deadline)", Answer::is_local,
       [](H& h) { return h.reader->pull_latest(at_once()); }},
      {"Reader::pull_newer(deadline)", Answer::is_local,
       [](H& h) { return h.reader->pull_newer(at_once()); }},
      {"Reader::version()", Answer::is_quiet,
       [](H& h) { return neutral(h.reader->version() == 0); }},
      {"Reader::step()", Answer::is_quiet, [](H& h) { return neutral(h.reader->step() == 0); }},
      {"Reader::whole()", Answer::is_quiet, [](H& h) { return neutral(!h.reader->whole()); }},
      {"Reader::tensor(name)", Answer::is_local, [=](H& h) { return done(h.reader->tensor("t")); }},
      {"Reader::statistics()", Answer::is_quiet,
       [](H& h) { return neutral(h.reader->statistics().full_taken == 0); }},
  };
}

std::vector<HandleCall> calls_of_dataflow() {
  const auto done = [](auto&&...) { return Status(); };
  return {
      {"Executor::plan()", Answer::is_quiet,
       [](H& h) { return neutral(h.executor->plan().parts.empty()); }},
      {"Executor::feed(name)", Answer::fails, [=](H& h) { return done(h.executor->feed("g")); }},
      {"Executor::feed(name, shape)", Answer::fails,
       [=](H& h) { return done(h.executor->feed("g", kShape)); }},
      {"Executor::variable(name)", Answer::is_local,
       [=](H& h) { return done(h.executor->variable("w")); }},
      {"Executor::bind(variable, memory)", Answer::fails,
       [](H& h) {
         h.executor->bind("w", h.tensor);
         return Status();
       }},
      {"Executor::step()", Answer::is_quiet, [](H& h) { return neutral(h.executor->step() == 0); }},
      {"Executor::resume(step)", Answer::is_quiet,
       [](H& h) {
         h.executor->resume(0);
         return Status();
       }},
      {"Executor::run(feeds, deadline)", Answer::fails,
       [](H& h) {
         return h.executor->run({{"g", h.tensor}}, at_once()).status();
       }},
      {"Executor::counters()", Answer::is_quiet,
       [](H& h) { return neutral(h.executor->counters().steps == 0); }},
      {"Executor::report()", Answer::is_local, [=](H& h) { return done(h.executor->report()); }},
      {"VariableCheckpoints::restored()", Answer::is_quiet,
       [](H& h) { return neutral(h.checkpoints->restored() == 0); }},
      {"VariableCheckpoints::step_ended()", Answer::fails,
       [](H& h) { return h.checkpoints->step_ended(); }},
      {"TableVariables::run(feeds, deadline)", Answer::fails,
       [](H& h) {
         return h.variables->run({{"g", h.tensor}}, at_once()).status();
       }},
      {"TableVariables::pull(deadline)", Answer::is_local,
       [](H& h) { return h.variables->pull(at_once()); }},
      {"TracingAllocator::enter(node)", Answer::fails,
       [=](H& h) { return done(h.tracer->enter("another")); }},
      {"TracingAllocator::allocate(dtype, shape)", Answer::fails,
       [=](H& h) { return done(h.tracer->allocate(DType::f32, kShape)); }},
      {"TracingAllocator::to_send(tensor)", Answer::fails,
       [=](H& h) { return done(h.tracer->to_send(h.traced)); }},
      {"TracingAllocator::mark_cut(node, allocation)", Answer::fails,
       [](H& h) {
         h.tracer->mark_cut("node", 0);
         return Status();
       }},
      {"TracingAllocator::next_step()", Answer::fails,
       [](H& h) {
         h.tracer->next_step();
         return Status();
       }},
      {"TracingAllocator::counters()", Answer::is_quiet,
       [](H& h) { return neutral(h.tracer->counters().steps == 0); }},
      {"TracingAllocator::report()", Answer::is_local,
       [=](H& h) { return done(h.tracer->report()); }},
  };
}

}  // namespace weft::tests
