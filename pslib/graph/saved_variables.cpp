#include "pslib/graph/saved_variables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"

namespace weft::pslib {
namespace {

// safetensors keeps this name for itself.
constexpr const char* kReserved = "__metadata__";

void sort_by_name(std::vector<SavedVariable>& variables) {
  std::ranges::sort(variables, {}, &SavedVariable::name);
}

}  // namespace

std::vector<SavedVariable> variables_of(const dataflow::Part& part) {
  std::vector<SavedVariable> variables;
  for (const dataflow::Node& node : part.graph.nodes()) {
    if (node.definition->name != "weft.Variable") continue;
    if (node.name == kReserved)
      throw_error(Code::bad_argument, "checkpoint",
                  fmt::format("a variable can't be saved as '{}'", kReserved), "rename it");
    variables.push_back({node.name, node.outputs[0].dtype, node.outputs[0].shape.shape()});
  }
  sort_by_name(variables);
  return variables;
}

Manifest manifest_of(const dataflow::Plan& plan, std::uint64_t step) {
  Manifest manifest{.version = step, .updates = step, .rule = {}, .tensors = {}};
  manifest.variables.emplace();
  for (const dataflow::Part& part : plan.parts)
    for (SavedVariable& variable : variables_of(part))
      manifest.variables->push_back(std::move(variable));
  sort_by_name(*manifest.variables);
  return manifest;
}

void restore_variables(const Checkpoint& from, std::span<const SavedVariable> variables,
                       dataflow::Executor& executor) {
  for (const SavedVariable& variable : variables) {
    const Tensor memory = executor.variable(variable.name);
    try {
      from.read_variable(variable.name, {memory.data(), memory.bytes()});
    } catch (const Error& error) {
      throw_error(error.code(), "restore",
                  fmt::format("variable '{}': {}", variable.name, error.detail().message),
                  error.detail().hint);
    }
  }
}

}  // namespace weft::pslib
