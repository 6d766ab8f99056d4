// Attributes, and definitions by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/standard.hpp"
#include "weft/definition.hpp"

namespace weft::dataflow {
namespace {

std::string value_text(const AttributeValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  // Hexadecimal digits show every bit, so that equal texts mean equal values.
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:a}", *number);
  if (const auto* word = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *word);
  return fmt::format("[{}]", fmt::join(std::get<Sizes>(value), ", "));
}

template <typename Value>
const Value& get(const Attributes& attributes, std::string_view name, const char* type) {
  const AttributeValue* value = attributes.find(name);
  const auto* typed = value == nullptr ? nullptr : std::get_if<Value>(value);
  if (typed == nullptr)
    throw_error(Code::bad_argument, "graph", fmt::format("no attribute {} of type {}", name, type));
  return *typed;
}

void check_parameters(const Definition& definition, const std::vector<Parameter>& parameters) {
  for (std::size_t i = 0; i + 1 < parameters.size(); ++i)
    if (parameters[i].count == Parameter::Count::variadic)
      throw_error(Code::bad_argument, "graph",
                  fmt::format("definition {}: {} is variadic but not the last", definition.name,
                              parameters[i].name));
}

std::string parameters_text(const std::vector<Parameter>& parameters) {
  std::string text;
  for (const Parameter& parameter : parameters) {
    if (!text.empty()) text += ", ";
    text += parameter.name;
    if (parameter.count == Parameter::Count::optional) text += "?";
    if (parameter.count == Parameter::Count::variadic) text += "...";
  }
  return text;
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values)
    : values_(values) {}

void Attributes::set(std::string name, AttributeValue value) {
  values_.insert_or_assign(std::move(name), std::move(value));
}

const AttributeValue* Attributes::find(std::string_view name) const noexcept {
  const auto at = values_.find(name);
  return at == values_.end() ? nullptr : &at->second;
}

std::int64_t Attributes::integer(std::string_view name) const {
  return get<std::int64_t>(*this, name, "integer");
}
double Attributes::number(std::string_view name) const {
  return get<double>(*this, name, "number");
}
const std::string& Attributes::word(std::string_view name) const {
  return get<std::string>(*this, name, "word");
}
const Sizes& Attributes::sizes(std::string_view name) const {
  return get<Sizes>(*this, name, "sizes");
}

std::string Attributes::text() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (!text.empty()) text += ' ';
    text += name + '=' + value_text(value);
  }
  return text;
}

std::string Definition::text() const {
  std::string text =
      fmt::format("{}({}) -> ({})", name, parameters_text(inputs), parameters_text(outputs));
  for (const AttributeSpec& attribute : attributes)
    text += fmt::format(" {}={}{}", attribute.name, value_text(attribute.value),
                        attribute.required ? " required" : "");
  static constexpr const char* kKinds[] = {"may overwrite", "overwrites", "is"};
  for (const Reuse& reuse : reuses)
    text += fmt::format("; output {} {} input {}", reuse.output,
                        kKinds[static_cast<std::size_t>(reuse.kind)], reuse.input);
  return text;
}

void Definitions::add(Definition definition) {
  if (definition.name.empty() || !definition.infer)
    throw_error(Code::bad_argument, "graph",
                fmt::format("definition '{}' has no {}", definition.name,
                            definition.name.empty() ? "name" : "shape function"),
                "give it a name and a shape function");
  check_parameters(definition, definition.inputs);
  check_parameters(definition, definition.outputs);
  for (const Reuse& reuse : definition.reuses)
    if (reuse.input >= definition.inputs.size() || reuse.output >= definition.outputs.size())
      throw_error(Code::bad_argument, "graph",
                  fmt::format("definition {} reuses input {} for output {}; it has {} and {}",
                              definition.name, reuse.input, reuse.output, definition.inputs.size(),
                              definition.outputs.size()));
  if (definitions_.contains(definition.name))
    throw_error(Code::duplicate_name, "graph",
                fmt::format("there is a definition {} already", definition.name),
                "prefix your own names: \"mine." + definition.name + "\"");
  std::string name = definition.name;
  definitions_.emplace(std::move(name), std::make_shared<const Definition>(std::move(definition)));
}

std::shared_ptr<const Definition> Definitions::find(std::string_view name) const {
  const auto at = definitions_.find(name);
  return at == definitions_.end() ? nullptr : at->second;
}

std::vector<std::string> Definitions::names() const {
  std::vector<std::string> names;
  for (const auto& [name, definition] : definitions_) names.push_back(name);
  return names;
}

const Definitions& Definitions::standard() {
  static const Definitions standard = [] {
    Definitions all;
    add_state(all);
    add_elementwise(all);
    add_matrices(all);
    add_windows(all);
    add_normalisation(all);
    add_recurrent(all);
    add_movement(all);
    add_reductions(all);
    add_lookups(all);
    return all;
  }();
  return standard;
}

}  // namespace weft::dataflow
