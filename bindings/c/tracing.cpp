// Allocation sites of engines without a graph.
#include "weft/tracing.hpp"

#include <atomic>
#include <string>
#include <utility>

#include "bindings/c/sized.hpp"
#include "bindings/c/tensor.hpp"

using namespace weft::c;

struct weft_tracer {
  OpenIn open;
  weft::dataflow::TracingAllocator allocator;
  std::atomic<int> running{0};  ///< nodes, whose handles must be freed first
};

struct weft_running_node {
  weft::dataflow::RunningNode node;
  weft_tracer* tracer;
  weft_running_node* outer;
};

namespace {

static_assert(WEFT_TRACING_OFF == static_cast<int>(weft::dataflow::TracingMode::off));

/// This thread's innermost running node.
thread_local weft_running_node* innermost = nullptr;

weft::dataflow::TracingOptions options_of(const weft_tracing_options* given_options) {
  const auto from = read_optional("tracer", "options", given_options);
  weft::dataflow::TracingOptions to;
  to.mode = checked_value("tracer", "mode", from.mode, weft::dataflow::TracingMode::off);
  if (from.max_sites != 0) to.max_sites = from.max_sites;
  return to;
}

weft_tensor* handle_of(const weft_tracer& tracer, weft::Tensor tensor) {
  const weft_memory memory = memory_of(tracer.open.world(), tensor);
  return new_tensor(std::move(tensor), memory);
}

}  // namespace

weft_code weft_tracer_open(weft_world* world, const weft_tracing_options* options,
                           weft_tracer** tracer) {
  return guarded([&] {
    auto& self = in_rank("tracer", "world", world);
    auto& out = given("tracer", "tracer", tracer);
    out = new weft_tracer{OpenIn(self),
                          weft::dataflow::TracingAllocator(self.world, options_of(options))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_close(weft_tracer* tracer) {
  return guarded([&] {
    check_closed("tracer_close", in_rank("tracer_close", "tracer", tracer).running,
                 "running nodes of this tracer");
    delete tracer;
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_enter(weft_tracer* tracer, const char* node, weft_running_node** running) {
  return guarded([&] {
    auto& out = given("enter", "running", running);
    auto& self = in_rank("enter", "tracer", tracer);
    out = new weft_running_node{self.allocator.enter(&given("enter", "node", node)), tracer,
                                innermost};
    innermost = out;
    ++self.running;
    return WEFT_CODE_OK;
  });
}

weft_code weft_running_node_leave(weft_running_node* running) {
  return guarded([&] {
    auto& leaving = given("leave_node", "running", running);
    if (running != innermost)
      weft::throw_error(weft::Code::bad_argument, "leave_node",
                        "the node is not the innermost one that runs on this thread",
                        "leave nodes in reverse order, each on the thread that entered it");
    weft_tracer& tracer = *leaving.tracer;
    check_not_forked("leave_node", world_of(tracer));
    innermost = leaving.outer;
    delete running;
    --tracer.running;
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_allocate(weft_tracer* tracer, weft_dtype dtype, const int64_t* dims,
                               size_t ndims, weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("allocate", "tensor", tensor);
    auto& self = in_rank("allocate", "tracer", tracer);
    out = handle_of(self, self.allocator.allocate(checked_dtype("allocate", dtype),
                                                  shape_of("allocate", dims, ndims)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_to_send(weft_tracer* tracer, const weft_tensor* tensor,
                              weft_tensor** to_send) {
  return guarded([&] {
    auto& out = given("to_send", "to_send", to_send);
    auto& self = in_rank("to_send", "tracer", tracer);
    out = handle_of(self, self.allocator.to_send(given("to_send", "tensor", tensor).tensor));
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_mark_cut(weft_tracer* tracer, const char* node, uint32_t allocation) {
  return guarded([&] {
    auto& self = in_rank("mark_cut", "tracer", tracer);
    self.allocator.mark_cut(&given("mark_cut", "node", node), allocation);
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_next_step(weft_tracer* tracer) {
  return guarded([&] {
    in_rank("next_step", "tracer", tracer).allocator.next_step();
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_get_counters(const weft_tracer* tracer, weft_tracing_counters* counters) {
  return guarded([&] {
    const auto from = in_rank("counters", "tracer", tracer).allocator.counters();
    write_sized("counters", "counters", counters,
                weft_tracing_counters{.struct_size = 0,
                                      .steps = from.steps,
                                      .plain_allocations = from.plain_allocations,
                                      .registered_allocations = from.registered_allocations,
                                      .sends = from.sends,
                                      .copies = from.copies,
                                      .bytes_copied = from.bytes_copied,
                                      .registrations = from.registrations,
                                      .sites = from.sites,
                                      .sent_sites = from.sent_sites,
                                      .late_sites = from.late_sites});
    return WEFT_CODE_OK;
  });
}

weft_code weft_tracer_report(const weft_tracer* tracer, char** json) {
  return guarded([&] {
    auto& out = given("report", "json", json);
    out = new_text(in_rank("report", "tracer", tracer).allocator.report().json());
    return WEFT_CODE_OK;
  });
}
