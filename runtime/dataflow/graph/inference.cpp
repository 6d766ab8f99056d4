#include "runtime/dataflow/graph/inference.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>

#include "base/fail.hpp"

namespace weft::dataflow {
namespace {

/// Fills open sizes. Several values, some with many divisors: a shape function may refuse some.
constexpr std::int64_t kSamples[] = {1, 2, 5, 12, 60};

[[noreturn]] void lies(const Node& node, const std::string& how) {
  throw_error(Code::bad_argument, "graph",
              fmt::format("the shape function of {} {}", node_text(node), how),
              "correct the definition: a shape function depends on its argument alone, and calls a "
              "size known only if it is the same for all open sizes of the inputs");
}

std::size_t most_outputs(const Definition& definition) {
  const bool variadic =
      !definition.outputs.empty() && definition.outputs.back().count == Parameter::Count::variadic;
  return variadic ? SIZE_MAX : definition.outputs.size();
}

std::size_t fewest_outputs(const Definition& definition) {
  std::size_t fewest = 0;
  for (const Parameter& output : definition.outputs)
    fewest += output.count == Parameter::Count::one ? 1 : 0;
  return fewest;
}

std::vector<std::optional<TensorType>> filled(std::span<const std::optional<TensorType>> inputs,
                                              std::int64_t value, bool& has_open) {
  std::vector<std::optional<TensorType>> result(inputs.begin(), inputs.end());
  for (auto& input : result) {
    if (!input || input->shape.known()) continue;
    has_open = true;
    Sizes sizes(input->shape.sizes().begin(), input->shape.sizes().end());
    for (std::int64_t& size : sizes)
      if (size == kAnySize) size = value;
    input->shape = PartialShape(sizes);
  }
  return result;
}

}  // namespace

std::string node_text(const Node& node) {
  return fmt::format("node '{}' ({})", node.name, node.definition->name);
}

void Inference::refuse(const std::string& why) const {
  std::string types;
  for (const auto& input : inputs_)
    types += (types.empty() ? "" : ", ") + (input ? input->text() : std::string("none"));
  throw_error(Code::bad_argument, "graph",
              fmt::format("{} with inputs ({}): {}", node_, types, why));
}

std::vector<TensorType> infer_node(const Node& node,
                                   std::span<const std::optional<TensorType>> inputs) {
  std::vector<TensorType> types;
  const std::string text = node_text(node);
  try {
    types = node.definition->infer(Inference(text, node.attributes, inputs));
  } catch (const Error& error) {
    // Errors of shapes and attributes don't know their node.
    if (error.detail().message.find(text) != std::string::npos) throw;
    throw_error(error.code(), "graph", text + ": " + error.detail().message, error.detail().hint);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw_error(Code::bad_argument, "graph",
                fmt::format("the shape function of {} has thrown: {}", text, error.what()));
  }
  if (types.size() > most_outputs(*node.definition) ||
      types.size() < fewest_outputs(*node.definition))
    lies(node, fmt::format("tells {} outputs; the definition has {}", types.size(),
                           node.definition->outputs.size()));
  for (const TensorType& type : types)
    if (type.dtype > DType::boolean) lies(node, "tells a dtype that doesn't exist");
  return types;
}

void audit_node(const Node& node, std::span<const std::optional<TensorType>> inputs) {
  const std::vector<TensorType> told = infer_node(node, inputs);
  if (infer_node(node, inputs) != told) lies(node, "tells other outputs when it is called again");
  for (const std::int64_t sample : kSamples) {
    bool has_open = false;
    const auto known = filled(inputs, sample, has_open);
    if (!has_open) return;
    std::vector<TensorType> now;
    try {
      now = infer_node(node, known);
    } catch (const Error&) {
      continue;  // these sizes are impossible here
    }
    if (now.size() != told.size()) lies(node, "tells another number of outputs for other sizes");
    for (std::size_t i = 0; i < told.size(); ++i)
      if (now[i].dtype != told[i].dtype || !told[i].shape.fits(now[i].shape))
        lies(node, fmt::format("tells {} for output {}, and {} if open sizes are {}",
                               told[i].text(), i, now[i].text(), sample));
  }
}

}  // namespace weft::dataflow
