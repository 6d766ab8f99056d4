// The work of single nodes, and the errors that they end with.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/fail.hpp"
#include "runtime/dataflow/execute/step_runner.hpp"
#include "runtime/dataflow/graph/inference.hpp"
#include "runtime/world/services.hpp"

namespace weft::dataflow {

Result<bool> StepRunner::advance(const Entry& entry) noexcept {
  try {
    switch (at(entry.node).work) {
      case Work::send:
        return send(entry);
      case Work::receive:
        return receive(entry);
      default:
        if (const Status status = compute(entry.node); !status.ok()) return status;
        return true;
    }
  } catch (const Error& error) {
    if (error.status().code() != Code::ok) return error.status();
    return refuse(Code::system, [] {
      return error_detail(Code::system, "step", "it threw an Error without a code");
    });
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = Code::exhausted, .message = "out of memory"});
  } catch (const std::exception& error) {
    return refuse(Code::system, [&] {
      return error_detail(Code::system, "step", fmt::format("it threw '{}'", error.what()));
    });
  } catch (...) {
    return refuse(Code::system, [] {
      return error_detail(Code::system, "step", "it threw what is no std::exception");
    });
  }
}

Status StepRunner::compute(NodeId node) {
  const auto index = static_cast<std::size_t>(node);
  switch (at(node).work) {
    case Work::variable:
      values_[index] = {memory_.variable(node)};
      break;
    case Work::fetch:
      fetch(node);
      break;
    case Work::assign:
      assign(node);
      break;
    case Work::alias:
      alias(node);
      break;
    case Work::kernel:
      run_kernel(node);
      break;
    default:
      break;  // a feed has its value already
  }
  return {};
}

std::vector<Tensor> StepRunner::inputs_of(NodeId node) const {
  std::vector<Tensor> inputs;
  for (const TensorId input : at(node).node->inputs)
    inputs.push_back(input.none() ? Tensor()
                                  : values_[static_cast<std::size_t>(input.node)]
                                           [static_cast<std::size_t>(input.output)]);
  return inputs;
}

Tensor StepRunner::output_memory(NodeId node, const std::vector<Tensor>& inputs, std::size_t output,
                                 DType dtype, const Shape& shape) {
  const Home& home = at(node).homes[output];
  if (home.kind != Home::Kind::input) return memory_.get(node, output, dtype, shape);
  const Tensor& input = inputs[home.input];
  if (dtype != input.dtype() || shape.elements() != input.shape().elements())
    throw_error(Code::mismatch, "kernel",
                fmt::format("output {} of {} is {}{} and has the memory of an input, {}", output,
                            node_text(*at(node).node), name(dtype), shape.text(), input.text()));
  return shape == input.shape() ? input : input.part(0, shape);
}

void StepRunner::run_kernel(NodeId node) {
  const Instruction& one = at(node);
  const std::vector<Tensor> inputs = inputs_of(node);
  std::uint32_t allocations = 0;
  KernelCall call(
      *one.node, inputs,
      [&](std::size_t output, DType dtype, const Shape& shape) {
        return output_memory(node, inputs, output, dtype, shape);
      },
      [&](DType dtype, const Shape& shape) {
        return memory_.allocate(node, allocations++, dtype, shape);
      },
      step_.number);
  (*one.kernel)(call);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < call.results().size(); ++i) {
    if (!call.results()[i])
      throw_error(Code::bad_argument, "kernel",
                  fmt::format("the kernel gave no output {} ({})", i,
                              one.node->definition
                                  ->outputs[std::min(i, one.node->definition->outputs.size() - 1)]
                                  .name),
                  "ask for its memory by KernelCall::output");
    outputs.push_back(*call.results()[i]);
  }
  values_[static_cast<std::size_t>(node)] = std::move(outputs);
}

void StepRunner::alias(NodeId node) {
  const std::vector<Tensor> inputs = inputs_of(node);
  KernelCall call(*at(node).node, inputs, [&](std::size_t output, DType dtype, const Shape& shape) {
    return output_memory(node, inputs, output, dtype, shape);
  });
  for (std::size_t i = 0; i < call.outputs(); ++i)
    values_[static_cast<std::size_t>(node)].push_back(call.output(i));
}

void StepRunner::assign(NodeId node) {
  const std::vector<Tensor> inputs = inputs_of(node);
  const Tensor& variable = inputs[0];
  const Tensor& value = inputs[1];
  // The value may be the variable itself, under another name.
  if (variable.data() != value.data() && variable.bytes() > 0)
    std::memmove(variable.data(), value.data(), variable.bytes());
  values_[static_cast<std::size_t>(node)] = {variable};
}

void StepRunner::fetch(NodeId node) {
  const Tensor copy = copy_of(inputs_of(node)[0]);
  const std::lock_guard lock(mutex_);
  fetched_[at(node).node->name] = copy;
}

Result<bool> StepRunner::send(const Entry& entry) {
  SendEnd& end = *ends_.sends[at(entry.node).edge];
  if (!entry.is_under_way) {
    const Tensor tensor = inputs_of(entry.node)[0];
    memory_.note_sent(tensor);
    end.start(tensor);
  }
  if (!entry.is_due && !end.is_sent()) return false;
  if (const Status status = end.finish(step_.deadline); !status.ok()) return status;
  return true;
}

Result<bool> StepRunner::receive(const Entry& entry) {
  ReceiveEnd& end = *ends_.receives[at(entry.node).edge];
  if (!entry.is_due && !end.is_there()) return false;
  Result<Tensor> tensor = end.take(step_.deadline);
  if (!tensor.ok()) return tensor.status();
  values_[static_cast<std::size_t>(entry.node)] = {std::move(*tensor)};
  return true;
}

std::string StepRunner::place_of(NodeId node) const {
  const Instruction& one = at(node);
  if (one.peer < 0) return node_text(*one.node);
  const Edge& edge = plan_.edges[one.edge];
  return fmt::format("{}, edge {} from rank {} to {}", node_text(*one.node), edge.name, edge.from,
                     edge.to);
}

Status StepRunner::about(NodeId node, const Status& status) const noexcept {
  return altered(status, [&](ErrorDetail& detail) {
    detail.operation = operation();
    // Most errors of kernels name their node already.
    const std::string place = place_of(node);
    if (!detail.message.starts_with(place))
      detail.message = fmt::format("{}: {}", place, detail.message);
    detail.rank = world_.rank();
    if (detail.peer < 0) detail.peer = at(node).peer;
  });
}

Status StepRunner::late() noexcept {
  return described(Code::timeout, world_.rank(), -1, [&] {
    ErrorDetail detail = error_detail(Code::timeout, operation(), "the step did not end in time",
                                      "check that these ranks run the same step");
    detail.rank = world_.rank();
    using std::chrono::milliseconds;
    constexpr std::size_t kMostNamed = 4;
    std::size_t named = 0;
    for (const Entry& entry : queue_) {
      if (!entry.is_under_way && at(entry.node).work != Work::receive) continue;
      const int peer = at(entry.node).peer;
      if (detail.peer < 0) detail.peer = peer;
      if (named++ >= kMostNamed) continue;
      detail.message += (named == 1 ? ": waiting for " : "; ") + place_of(entry.node) +
                        suspicion_of(world_, peer);
    }
    if (named > kMostNamed) detail.message += fmt::format("; and {} more", named - kMostNamed);
    if (const auto longest = activity_.longest(); named == 0 && longest.node >= 0) {
      detail.message += fmt::format("; it waits for no other rank, {} took {} ms",
                                    place_of(longest.node), longest.took / milliseconds(1));
      detail.hint = "give the step more time";
    }
    return Status(std::move(detail));
  });
}

std::string StepRunner::story_of(const Neighbours::News& news) const {
  const auto origin = static_cast<std::size_t>(news.origin);
  const bool has_node = news.node >= 0 && origin < plan_.parts.size() &&
                        static_cast<std::size_t>(news.node) < plan_.parts[origin].graph.size();
  const std::string at_node =
      has_node ? " at " + node_text(plan_.parts[origin].graph.node(news.node)) : "";
  return news.from == news.origin
             ? fmt::format("rank {} has failed in its step{}", news.origin, at_node)
             : fmt::format("rank {} ended its step because of rank {}{}", news.from, news.origin,
                           has_node ? ", which failed" + at_node : "");
}

Status StepRunner::told(const Neighbours::News& news) const noexcept {
  return described(Code::closed, world_.rank(), news.origin, [&] {
    const auto awaited =
        std::find_if(queue_.begin(), queue_.end(), [](const Entry& e) { return e.is_under_way; });
    const bool is_awaiting = awaited != queue_.end();
    // A rank that gave up waiting for this one says no more than this one knows.
    const bool is_own = news.origin == world_.rank() && is_awaiting;
    const std::array<int, 1> origin{is_own ? at(awaited->node).peer : news.origin};
    const Status alive = world_.alive(origin);
    // It told of its error first, and has left since.
    const bool has_failed =
        alive.ok() || (alive.code() == Code::peer_left && !news.is_gone && !is_own);
    ErrorDetail detail =
        has_failed ? error_detail(Code::closed, {}, {}, "see that rank's error") : alive.detail();
    const std::string why = has_failed ? "" : ": " + detail.message;
    detail.operation = operation();
    detail.message = story_of(news) + why + (is_awaiting ? "; waiting for " : "");
    if (is_awaiting) detail.message += place_of(awaited->node);
    detail.rank = world_.rank();
    detail.peer = origin[0];
    return Status(std::move(detail));
  });
}

}  // namespace weft::dataflow
