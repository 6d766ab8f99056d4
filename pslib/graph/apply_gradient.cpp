// The operator that updates a variable by an optimizer's rule.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <new>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "pslib/graph/update_attributes.hpp"
#include "pslib/optimizer/exact_sum.hpp"
#include "pslib/optimizer/rule_step.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {
namespace {

using dataflow::Definition;
using dataflow::Inference;
using dataflow::KernelCall;
using dataflow::Parameter;
using dataflow::Reuse;
using dataflow::TensorType;

constexpr const char* kName = "weft.ApplyGradient";

std::vector<TensorType> infer_update(const Inference& in) {
  const std::size_t states = rule_in(in.attributes()).states;
  if (in.inputs() != 3 + states)
    in.refuse(
        fmt::format("the rule needs a variable, its gradient, updates and {} states", states));
  const TensorType& variable = in.input(0);
  if (variable.dtype != DType::f32 || !variable.shape.known())
    in.refuse("the variable must be f32, of a known shape");
  if (in.input(1) != variable) in.refuse("the gradient must be as the variable");
  if (in.input(2) != TensorType{DType::i64, {}}) in.refuse("updates must be one i64, a scalar");
  std::vector<TensorType> outputs{variable, in.input(2)};
  for (std::size_t i = 3; i < in.inputs(); ++i) {
    if (!in.has(i) || in.input(i) != variable) in.refuse("the states must be as the variable");
    outputs.push_back(variable);
  }
  return outputs;
}

Definition definition() {
  constexpr auto kOptional = Parameter::Count::optional;
  return {.name = kName,
          .inputs = {{"variable"},
                     {"gradient"},
                     {"updates"},
                     {"state0", kOptional},
                     {"state1", kOptional}},
          .outputs = {{"new_variable"},
                      {"new_updates"},
                      {"new_state0", kOptional},
                      {"new_state1", kOptional}},
          .attributes = update_attribute_specs(),
          .infer = infer_update,
          .reuses = {{0, 0, Reuse::Kind::must},
                     {2, 1, Reuse::Kind::must},
                     {3, 2, Reuse::Kind::must},
                     {4, 3, Reuse::Kind::must}}};
}

/// The user's rules by text.
class UserRules {
 public:
  explicit UserRules(std::span<const std::shared_ptr<const Rule>> rules) {
    for (const auto& rule : rules) {
      if (!rule) throw_error(Code::bad_argument, "with_updates", "a rule is missing");
      if (!rules_.emplace(rule->text(), rule).second)
        throw_error(Code::bad_argument, "with_updates",
                    fmt::format("two rules have the text '{}'", rule->text()));
    }
  }

  std::shared_ptr<const Rule> find(const KernelCall& call, const GraphRule& rule) const {
    const auto at = rules_.find(rule.user_rule);
    if (at == rules_.end() || at->second->states() != rule.states)
      throw_error(Code::bad_argument, "kernel",
                  fmt::format("node '{}' ({}): there is no rule '{}' with {} states", call.node(),
                              kName, rule.user_rule, rule.states),
                  "give the graph's user rules to with_updates()");
    return at->second;
  }
  std::mutex& mutex() { return mutex_; }

 private:
  std::map<std::string, std::shared_ptr<const Rule>> rules_;
  std::mutex mutex_;
};

double squares_of(std::span<const float> values) {
  constexpr std::size_t kPiece = 1 << 20;
  ExactSum all;
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    add_squares(all, values.subspan(first, std::min(kPiece, values.size() - first)));
    all.carry();
  }
  return all.value();
}

/// One update: the same rule and kernels as a table's server.
class Update {
 public:
  Update(KernelCall& call, UserRules& users)
      : rule_(rule_in(call.attributes())),
        users_(users),
        variable_(call.output(0).as<float>()),
        gradient_(call.input(1).as<float>()),
        updates_(call.output(1).as<std::int64_t>()[0]) {
    if (is_users()) rule_.optimizer.rule = users.find(call, rule_);
    for (std::size_t i = 0; i < rule_.states; ++i)
      states_[i] = call.output(2 + i).as<float>().data();
  }

  void run() {
    double norms[2] = {};
    if (rule_.optimizer.kind == Optimizer::Kind::lars) {
      norms[0] = squares_of(variable_);
      norms[1] = squares_of(gradient_);
      if (!std::isfinite(norms[1])) return;
    }
    ++updates_;
    AppliedRule applied(rule_.optimizer, rule_.schedule, kBlock);
    RuleConstants constants = applied.constants(static_cast<std::uint64_t>(updates_), 1.0F);
    if (rule_.optimizer.kind == Optimizer::Kind::lars)
      constants.kernel.rate *= trust_ratio(rule_.optimizer, norms[0], norms[1], 1.0F);
    std::unique_lock<std::mutex> lock;
    if (is_users()) lock = std::unique_lock(users_.mutex());
    for (std::size_t first = 0; first < variable_.size(); first += kBlock)
      apply(applied, constants, first, std::min(kBlock, variable_.size() - first));
  }

 private:
  static constexpr std::size_t kBlock = 4096;

  bool is_users() const { return rule_.optimizer.kind == Optimizer::Kind::user; }

  void apply(AppliedRule& applied, const RuleConstants& constants, std::size_t first,
             std::size_t count) const {
    const auto from = [&](float* array) { return array != nullptr ? array + first : nullptr; };
    const float* const gradient = gradient_.data() + first;
    float* const values = variable_.data() + first;
    applied.apply(constants, {values, values, from(states_[0]), from(states_[1])}, {&gradient, 1},
                  count);
  }

  GraphRule rule_;
  UserRules& users_;
  const std::span<float> variable_;
  const std::span<const float> gradient_;
  std::int64_t& updates_;
  std::array<float*, Rule::kMostStates> states_{};
};

}  // namespace

dataflow::Definitions with_updates(dataflow::Definitions own) {
  return control_call("with_updates", [&] {
    if (!own.find(kName)) own.add(definition());
    return std::move(own);
  });
}

dataflow::Kernels with_updates(dataflow::Kernels own,
                               std::span<const std::shared_ptr<const Rule>> rules) {
  return control_call("with_updates", [&] {
    const auto users = std::make_shared<UserRules>(rules);
    if (own.find(kName) == nullptr)
      own.add(kName, [users](KernelCall& call) { Update(call, *users).run(); });
    return std::move(own);
  });
}

}  // namespace weft::pslib
