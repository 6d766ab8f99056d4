// An update of one element, alone and in plain C++: to the bit what a table computes.
#pragma once

#include <cmath>
#include <cstdint>
#include <weft/pslib.hpp>

namespace weft::tests {

// [rules]
/// Update number `t`, from 1, of one element. `g`: the mean gradient, clipped already. `rate`: the
/// learning rate times Schedule::factor(t), in f64. `s`: the rule's state, zeros before the first
/// update. `trust`: lars' r. Returns the new parameter.
inline float updated(const pslib::Optimizer& rule, std::uint64_t t, double rate, float trust,
                     float g, float p, float (&s)[2]) {
  using enum pslib::Optimizer::Kind;
  using std::fma;
  using std::sqrt;
  const auto lr = static_cast<float>(rate);
  const float mu = rule.momentum;
  if (rule.kind != adamw) g = fma(rule.weight_decay, p, g);
  switch (rule.kind) {
    case sgd:
      return fma(-lr, g, p);
    case momentum:
      s[0] = fma(mu, s[0], g);
      return fma(-lr, s[0], p);
    case nesterov:
      s[0] = fma(mu, s[0], g);
      return fma(-lr, fma(mu, s[0], g), p);
    case adagrad:
      s[0] = fma(g, g, s[0]);
      return fma(-lr, g / (sqrt(s[0]) + rule.epsilon), p);
    case rmsprop:
      s[0] = fma(rule.rho, s[0], (1.0F - rule.rho) * (g * g));
      return fma(-lr, g / (sqrt(s[0]) + rule.epsilon), p);
    case adam:
    case adamw: {
      s[0] = fma(rule.beta1, s[0], (1.0F - rule.beta1) * g);
      s[1] = fma(rule.beta2, s[1], (1.0F - rule.beta2) * (g * g));
      const auto n = static_cast<double>(t);
      const auto step = static_cast<float>(rate / (1.0 - std::pow(double(rule.beta1), n)));
      const auto scale = static_cast<float>(1.0 / (1.0 - std::pow(double(rule.beta2), n)));
      const double decay = rule.kind == adamw ? rule.weight_decay : 0.0;
      const auto shrink = static_cast<float>(1.0 - rate * decay);
      return fma(-step, s[0] / (sqrt(scale * s[1]) + rule.epsilon), shrink * p);
    }
    case ftrl: {
      const float before = s[1];
      s[1] = fma(g, g, before);
      const float sigma = (sqrt(s[1]) - sqrt(before)) / lr;
      s[0] = fma(-sigma, p, s[0] + g);
      if (std::abs(s[0]) <= rule.l1) return 0.0F;
      const float strength = (rule.ftrl_beta + sqrt(s[1])) / lr + rule.l2;
      return (std::copysign(rule.l1, s[0]) - s[0]) / strength;
    }
    case lars:
      s[0] = fma(mu, s[0], (lr * trust) * g);
      return p - s[0];
    case user:
      break;
  }
  return p;
}
// [end]

}  // namespace weft::tests
