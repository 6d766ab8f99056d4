// How a shard turns gradients into new parameters: update rules, their schedules, a rule of one's
// own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/api.hpp"

namespace weft::pslib {

/// What a rule of the user's own is told of an update.
struct RuleStep {
  std::uint64_t update = 1;    ///< counts from 1
  float learning_rate = 0.0F;  ///< the optimizer's, by the schedule
  float weight_decay = 0.0F;   ///< not in the gradient yet
};

/// A rule of the user's own: called for short runs of elements, in any order; an element's result
/// may depend on nothing but that element's values.
/// Thread-safety: apply() is called by one thread at a time for one table.
class WEFT_API Rule {
 public:
  static constexpr std::size_t kMostStates = 2;

  Rule() = default;
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  virtual ~Rule();

  /// The rule and its constants, as users read them. Ranks compare it: equal text, equal rule.
  virtual std::string text() const = 0;
  /// Arrays of state, one f32 for each parameter, which start as zeros: at most kMostStates.
  virtual std::size_t states() const noexcept = 0;
  /// `gradient` is the contributors' average. All spans that there are have the same size.
  virtual void apply(const RuleStep& step, std::span<float> parameters,
                     std::span<const float> gradient,
                     std::array<std::span<float>, kMostStates> states) const noexcept = 0;
};

/// The rule by which a shard turns the workers' averaged gradient g into new parameters p, with
/// learning rate lr and weight decay wd. All rules but adamw, lars and user first add wd p to g.
/// State (velocity, moments) lies beside the parameters on the shard, in f32, and starts as zeros.
struct WEFT_API Optimizer {
  enum class Kind : std::uint8_t {
    sgd,       ///< p -= lr g
    momentum,  ///< v = mu v + g; p -= lr v. Sutskever et al. 2013
    nesterov,  ///< v = mu v + g; p -= lr (g + mu v). The same, as common frameworks write it
    adagrad,   ///< s += g^2; p -= lr g / (sqrt(s) + epsilon). Duchi, Hazan, Singer 2011
    rmsprop,   ///< s = rho s + (1 - rho) g^2; p -= lr g / (sqrt(s) + epsilon). Hinton 2012
    adam,      ///< Kingma and Ba 2015, algorithm 1, with bias correction
    adamw,     ///< the same after p -= lr wd p. Loshchilov and Hutter 2019, algorithm 2
    /// FTRL-proximal with per-coordinate rates, McMahan et al. 2013, algorithm 1. It derives the
    /// parameters from its state, which starts as zeros, so it forgets the initial ones step by
    /// step. Its rate must not be scheduled.
    ftrl,
    /// v = mu v + lr r (g + wd p); p -= v, where r = trust |p| / (|g| + wd |p|) over each whole
    /// tensor, 1 where either norm is 0. You, Gitman, Ginsburg 2017, algorithm 1.
    lars,
    user  ///< `rule`
  };
  Kind kind = Kind::sgd;
  float learning_rate = 0.01F;
  float weight_decay = 0.0F;
  float momentum = 0.9F;   ///< mu
  float rho = 0.9F;        ///< rmsprop
  float beta1 = 0.9F;      ///< adam, adamw
  float beta2 = 0.999F;    ///< adam, adamw
  float epsilon = 1e-8F;   ///< adagrad, rmsprop, adam, adamw
  float ftrl_beta = 1.0F;  ///< beta, next to the root of n
  float l1 = 0.0F;         ///< ftrl
  float l2 = 0.0F;         ///< ftrl
  float trust = 0.001F;    ///< lars
  std::shared_ptr<const Rule> rule{};

  static Optimizer sgd(float learning_rate);
  static Optimizer with_momentum(float learning_rate, float momentum = 0.9F);
  static Optimizer nesterov(float learning_rate, float momentum = 0.9F);
  static Optimizer adagrad(float learning_rate, float epsilon = 1e-10F);
  static Optimizer rmsprop(float learning_rate, float rho = 0.9F, float epsilon = 1e-8F);
  static Optimizer adam(float learning_rate, float beta1 = 0.9F, float beta2 = 0.999F,
                        float epsilon = 1e-8F);
  static Optimizer adamw(float learning_rate, float weight_decay, float beta1 = 0.9F,
                         float beta2 = 0.999F, float epsilon = 1e-8F);
  static Optimizer ftrl(float learning_rate, float l1 = 0.0F, float l2 = 0.0F, float beta = 1.0F);
  static Optimizer lars(float learning_rate, float weight_decay, float momentum = 0.9F,
                        float trust = 0.001F);
  static Optimizer with(std::shared_ptr<const Rule> rule, float learning_rate);
};

/// How the learning rate goes on from update to update: a warm-up, then a shape.
struct WEFT_API Schedule {
  enum class Kind : std::uint8_t {
    constant,
    step,         ///< times gamma after each `period` updates
    exponential,  ///< times gamma^(1 / period) after each update
    linear,       ///< from 1 to `floor` in `period` updates
    cosine        ///< the same along half a cosine. Loshchilov and Hutter 2017, without restarts
  };
  Kind kind = Kind::constant;
  std::uint64_t warmup = 0;  ///< updates in which the factor rises evenly to 1: 1/w, 2/w, ... 1
  std::uint64_t period = 1;  ///< updates, counted from the end of the warm-up
  float gamma = 0.1F;
  float floor = 0.0F;  ///< what linear and cosine end at

  /// What the learning rate is multiplied by in an update, counted from 1.
  double factor(std::uint64_t update) const noexcept;
};

}  // namespace weft::pslib
