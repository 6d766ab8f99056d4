#include "pslib/graph/update_attributes.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "pslib/optimizer/rules.hpp"

namespace weft::pslib {
namespace {

using dataflow::Attributes;
using dataflow::AttributeSpec;

struct Number {
  const char* name;
  float Optimizer::*member;
};

constexpr Number kNumbers[] = {{"learning_rate", &Optimizer::learning_rate},
                               {"weight_decay", &Optimizer::weight_decay},
                               {"momentum", &Optimizer::momentum},
                               {"rho", &Optimizer::rho},
                               {"beta1", &Optimizer::beta1},
                               {"beta2", &Optimizer::beta2},
                               {"epsilon", &Optimizer::epsilon},
                               {"ftrl_beta", &Optimizer::ftrl_beta},
                               {"l1", &Optimizer::l1},
                               {"l2", &Optimizer::l2},
                               {"trust", &Optimizer::trust}};

std::uint64_t count_in(const Attributes& attributes, const char* name) {
  const std::int64_t count = attributes.integer(name);
  if (count < 0)
    throw_error(Code::bad_argument, "optimizer", fmt::format("{} is {}", name, count),
                fmt::format("{} must be 0 or above", name));
  return static_cast<std::uint64_t>(count);
}

Schedule schedule_in(const Attributes& attributes) {
  Schedule schedule;
  const std::string& word = attributes.word("schedule");
  const auto kind = schedule_named(word);
  if (!kind)
    throw_error(Code::bad_argument, "optimizer", fmt::format("there is no schedule {}", word));
  schedule.kind = *kind;
  schedule.warmup = count_in(attributes, "warmup");
  schedule.period = count_in(attributes, "period");
  schedule.gamma = static_cast<float>(attributes.number("gamma"));
  schedule.floor = static_cast<float>(attributes.number("floor"));
  return schedule;
}

void check_constants(const GraphRule& rule) {
  TableOptions options(rule.optimizer);
  options.schedule = rule.schedule;
  // The kernel has the object of a user rule, whose constants are its own.
  if (rule.optimizer.kind == Optimizer::Kind::user) {
    options.optimizer.kind = Optimizer::Kind::sgd;
    if (rule.states > Rule::kMostStates)
      throw_error(Code::bad_argument, "optimizer", fmt::format("states is {}", rule.states),
                  fmt::format("states must be {} at most", Rule::kMostStates));
  }
  check(options);
}

}  // namespace

std::vector<AttributeSpec> update_attribute_specs() {
  std::vector<AttributeSpec> specs{
      {"rule", std::string(), true}, {"user_rule", std::string()}, {"states", std::int64_t{0}}};
  for (const auto& [name, value] : update_attributes({}, {}))
    if (name != "rule" && name != "user_rule" && name != "states") specs.push_back({name, value});
  return specs;
}

Attributes update_attributes(const Optimizer& optimizer, const Schedule& schedule) {
  const bool is_users = optimizer.kind == Optimizer::Kind::user;
  Attributes all{{"rule", is_users ? "user" : rule_name(optimizer)},
                 {"user_rule", is_users ? optimizer.rule->text() : std::string()},
                 {"states", static_cast<std::int64_t>(states(optimizer))},
                 {"schedule", std::string(name(schedule.kind))},
                 {"warmup", static_cast<std::int64_t>(schedule.warmup)},
                 {"period", static_cast<std::int64_t>(schedule.period)},
                 {"gamma", static_cast<double>(schedule.gamma)},
                 {"floor", static_cast<double>(schedule.floor)}};
  for (const Number& number : kNumbers)
    all.set(number.name, static_cast<double>(optimizer.*number.member));
  return all;
}

GraphRule rule_in(const Attributes& attributes) {
  GraphRule rule;
  const std::string& word = attributes.word("rule");
  const auto kind = rule_named(word);
  if (!kind) throw_error(Code::bad_argument, "optimizer", fmt::format("there is no rule {}", word));
  rule.optimizer.kind = *kind;
  for (const Number& number : kNumbers)
    rule.optimizer.*number.member = static_cast<float>(attributes.number(number.name));
  rule.schedule = schedule_in(attributes);
  rule.user_rule = attributes.word("user_rule");
  rule.states =
      *kind == Optimizer::Kind::user ? count_in(attributes, "states") : states(rule.optimizer);
  check_constants(rule);
  return rule;
}

}  // namespace weft::pslib
