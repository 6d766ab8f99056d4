// The update rules as the papers write them, in double precision, element by element.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <vector>

#include "weft/pslib.hpp"

namespace weft::tests {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random_floats(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Floats values(count);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// A step's gradients, worker by worker.
inline std::vector<Floats> random_gradients(std::size_t workers, std::size_t count,
                                            std::mt19937& random) {
  std::vector<Floats> gradients(workers);
  for (Floats& gradient : gradients) gradient = random_floats(count, random);
  return gradients;
}

/// One table of one tensor under its options.
class Reference {
 public:
  Reference(pslib::TableOptions options, const Floats& parameters)
      : options_(std::move(options)),
        rule_(options_.optimizer),
        p_(parameters.begin(), parameters.end()),
        a_(p_.size()),
        b_(p_.size()),
        sum_(p_.size()) {}

  void step(const std::vector<Floats>& gradients) {
    for (const Floats& gradient : gradients)
      for (std::size_t i = 0; i < p_.size(); ++i) sum_[i] += gradient[i];
    gradients_ += gradients.size();
    if (++waiting_ < options_.accumulate) return;
    for (double& g : sum_) g /= static_cast<double>(gradients_);
    update(std::move(sum_));
    sum_.assign(p_.size(), 0.0);
    gradients_ = waiting_ = 0;
  }
  const Doubles& parameters() const { return p_; }

 private:
  using Kind = pslib::Optimizer::Kind;

  static double norm(const Doubles& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
  }

  void update(Doubles g) {
    ++t_;
    if (options_.clip_norm > 0 && norm(g) > options_.clip_norm) {
      const double factor = options_.clip_norm / norm(g);
      for (double& value : g) value *= factor;
    }
    rate_ = rule_.learning_rate * scheduled();
    trust_ = 1;
    if (rule_.kind == Kind::lars && norm(p_) > 0 && norm(g) > 0)
      trust_ = rule_.trust * norm(p_) / (norm(g) + rule_.weight_decay * norm(p_));
    for (std::size_t i = 0; i < p_.size(); ++i) element(p_[i], g[i], a_[i], b_[i]);
  }

  double scheduled() const {
    using Schedules = pslib::Schedule::Kind;
    const pslib::Schedule& schedule = options_.schedule;
    const double t = t_;
    const double warmup = static_cast<double>(schedule.warmup);
    if (t <= warmup) return t / warmup;
    const double done = (t - warmup - 1) / static_cast<double>(schedule.period);
    const double floor = schedule.floor;
    switch (schedule.kind) {
      case Schedules::constant:
        return 1;
      case Schedules::step:
        return std::pow(schedule.gamma, std::floor(done));
      case Schedules::exponential:
        return std::pow(schedule.gamma, done);
      case Schedules::linear:
        return done >= 1 ? floor : 1 - done * (1 - floor);
      case Schedules::cosine:
        return done >= 1 ? floor
                         : floor + (1 - floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
    }
    return 0;
  }

  void element(double& p, double g, double& a, double& b) const {
    if (rule_.kind != Kind::adamw) g += rule_.weight_decay * p;
    const double mu = rule_.momentum;
    const double epsilon = rule_.epsilon;
    switch (rule_.kind) {
      case Kind::sgd:
        p -= rate_ * g;
        return;
      case Kind::momentum:
        a = mu * a + g;
        p -= rate_ * a;
        return;
      case Kind::nesterov:
        a = mu * a + g;
        p -= rate_ * (g + mu * a);
        return;
      case Kind::adagrad:
        a += g * g;
        p -= rate_ * g / (std::sqrt(a) + epsilon);
        return;
      case Kind::rmsprop:
        a = rule_.rho * a + (1 - static_cast<double>(rule_.rho)) * g * g;
        p -= rate_ * g / (std::sqrt(a) + epsilon);
        return;
      case Kind::adam:
      case Kind::adamw:
        return adam(p, g, a, b);
      case Kind::ftrl:
        return ftrl(p, g, a, b);
      case Kind::lars:
        a = mu * a + rate_ * trust_ * g;
        p -= a;
        return;
      case Kind::user:
        return;
    }
  }

  void adam(double& p, double g, double& m, double& v) const {
    const double b1 = rule_.beta1;
    const double b2 = rule_.beta2;
    if (rule_.kind == Kind::adamw) p -= rate_ * rule_.weight_decay * p;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double m_hat = m / (1 - std::pow(b1, t_));
    const double v_hat = v / (1 - std::pow(b2, t_));
    p -= rate_ * m_hat / (std::sqrt(v_hat) + rule_.epsilon);
  }

  void ftrl(double& w, double g, double& z, double& n) const {
    const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / rate_;
    z += g - sigma * w;
    n += g * g;
    const double sign = z < 0 ? -1 : 1;
    if (std::abs(z) <= rule_.l1)
      w = 0;
    else
      w = -(z - sign * rule_.l1) / ((rule_.ftrl_beta + std::sqrt(n)) / rate_ + rule_.l2);
  }

  pslib::TableOptions options_;
  pslib::Optimizer rule_;
  Doubles p_, a_, b_, sum_;
  std::size_t gradients_ = 0;
  std::size_t waiting_ = 0;
  int t_ = 0;
  double rate_ = 0;
  double trust_ = 1;
};

/// Every rule with its name; rules that take a weight decay also with one. The epsilons are large
/// enough that a gradient's last bits don't decide the sign of a step.
inline std::map<std::string, pslib::Optimizer> every_rule() {
  using pslib::Optimizer;
  std::map<std::string, Optimizer> rules{
      {"sgd", Optimizer::sgd(0.1F)},
      {"momentum", Optimizer::with_momentum(0.1F, 0.9F)},
      {"nesterov", Optimizer::nesterov(0.1F, 0.9F)},
      {"adagrad", Optimizer::adagrad(0.05F)},
      {"rmsprop", Optimizer::rmsprop(0.01F, 0.9F, 1e-2F)},
      {"adam", Optimizer::adam(0.01F)},
      {"adamw", Optimizer::adamw(0.01F, 0.1F)},
      {"ftrl", Optimizer::ftrl(0.1F)},
      {"ftrl_sparse", Optimizer::ftrl(0.1F, 0.3F, 0.2F)},
      {"lars", Optimizer::lars(0.5F, 0.01F, 0.9F, 0.1F)},
  };
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"}) {
    Optimizer decayed = rules.at(name);
    decayed.weight_decay = 0.05F;
    decayed.epsilon = 1e-2F;
    rules.emplace(std::string(name) + "_decay", decayed);
  }
  return rules;
}

}  // namespace weft::tests
