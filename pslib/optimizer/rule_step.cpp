#include "pslib/optimizer/rule_step.hpp"

#include <algorithm>
#include <cmath>

namespace weft::pslib {
namespace {

using Kind = Optimizer::Kind;

bool adds_decay(Kind kind) { return kind != Kind::adamw && kind != Kind::user; }

}  // namespace

float trust_ratio(const Optimizer& rule, double parameters, double gradient, float scale) noexcept {
  const double of_parameters = std::sqrt(parameters);
  const double of_gradient = scale * std::sqrt(gradient);
  if (of_parameters == 0.0 || of_gradient == 0.0) return 1.0F;
  const double decay = rule.weight_decay;
  return static_cast<float>(rule.trust * of_parameters / (of_gradient + decay * of_parameters));
}

AppliedRule::AppliedRule(const Optimizer& rule, const Schedule& schedule, std::size_t longest)
    : rule_(rule), schedule_(schedule), kernel_(kernels::update_for(rule.kind)) {
  if (kernel_ == nullptr) averaged_.resize(longest);
}

RuleConstants AppliedRule::constants(std::uint64_t update, float scale) const noexcept {
  const double t = static_cast<double>(update);
  const double rate = rule_.learning_rate * schedule_.factor(update);
  RuleConstants made;
  made.told = {.update = update,
               .learning_rate = static_cast<float>(rate),
               .weight_decay = rule_.weight_decay};
  made.kernel = {.scale = scale,
                 .rate = static_cast<float>(rate),
                 .weight_decay = adds_decay(rule_.kind) ? rule_.weight_decay : 0.0F,
                 .keep1 = rule_.momentum,
                 .keep2 = rule_.rho,
                 .second_scale = 1.0F,
                 .epsilon = rule_.epsilon,
                 .shrink = 1.0F,
                 .beta = rule_.ftrl_beta,
                 .l1 = rule_.l1,
                 .l2 = rule_.l2};
  if (rule_.kind != Kind::adam && rule_.kind != Kind::adamw) return made;
  made.kernel.keep1 = rule_.beta1;
  made.kernel.keep2 = rule_.beta2;
  made.kernel.rate =
      static_cast<float>(rate / (1.0 - std::pow(static_cast<double>(rule_.beta1), t)));
  made.kernel.second_scale =
      static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(rule_.beta2), t)));
  if (rule_.kind == Kind::adamw)
    made.kernel.shrink = static_cast<float>(1.0 - rate * static_cast<double>(rule_.weight_decay));
  return made;
}

void AppliedRule::apply(const RuleConstants& constants, const kernels::Arrays& arrays,
                        kernels::Gradients gradients, std::size_t count) noexcept {
  if (kernel_ != nullptr) {
    kernel_(arrays, gradients, count, constants.kernel);
    return;
  }
  kernels::average(averaged_.data(), gradients, count, constants.kernel.scale);
  if (arrays.from != arrays.to) std::copy_n(arrays.from, count, arrays.to);
  const auto span = [&](float* first) {
    return first != nullptr ? std::span(first, count) : std::span<float>();
  };
  rule_.rule->apply(constants.told, {arrays.to, count}, {averaged_.data(), count},
                    {span(arrays.first), span(arrays.second)});
}

}  // namespace weft::pslib
