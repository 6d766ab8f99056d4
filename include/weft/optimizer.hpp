// Optimizers: how a shard turns gradients into new parameters, learning-rate schedules, user rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/api.hpp"

namespace weft::pslib {

/// The constants of one update, as a user rule gets them.
struct RuleStep {
  std::uint64_t update = 1;    ///< number of the update, from 1
  float learning_rate = 0.0F;  ///< the optimizer's, multiplied by the schedule's factor
  float weight_decay = 0.0F;   ///< the optimizer's; not yet added to the gradient
};

/// A user rule. weft calls apply() for short runs of elements, in any order, so an element's result
/// may depend only on that element's values. Tables share ownership of the rule. Thread-safety: for
/// one table, one thread at a time calls apply().
class WEFT_API Rule {
 public:
  static constexpr std::size_t kMostStates = 2;

  Rule() = default;
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  virtual ~Rule();

  /// The rule and its constants, for people. Ranks compare it: rules with equal texts must be
  /// equal.
  virtual std::string text() const = 0;
  /// The number of state arrays, at most kMostStates. Each has one f32 per parameter and starts as
  /// zeros.
  virtual std::size_t states() const noexcept = 0;
  /// Updates `parameters` and `states` in place. `gradient` is the mean of the contributors'
  /// gradients. All spans have the same size; states beyond states() are empty. The spans are valid
  /// during the call.
  virtual void apply(const RuleStep& step, std::span<float> parameters,
                     std::span<const float> gradient,
                     std::array<std::span<float>, kMostStates> states) const noexcept = 0;
};

/// The rule by which a shard turns the mean gradient g of the workers into new parameters p, with
/// learning rate lr and weight decay wd. All rules but adamw, lars and user first add wd p to g.
/// The rule's state (velocity, moments) lies beside the parameters on the shard, in f32, and starts
/// as zeros.
struct WEFT_API Optimizer {
  enum class Kind : std::uint8_t {
    sgd,       ///< p -= lr g
    momentum,  ///< v = mu v + g; p -= lr v. Sutskever et al. 2013
    nesterov,  ///< v = mu v + g; p -= lr (g + mu v). Same source, in the form of common frameworks
    adagrad,   ///< s += g^2; p -= lr g / (sqrt(s) + epsilon). Duchi, Hazan, Singer 2011
    rmsprop,   ///< s = rho s + (1 - rho) g^2; p -= lr g / (sqrt(s) + epsilon). Hinton 2012
    adam,      ///< Kingma and Ba 2015, algorithm 1, with bias correction
    adamw,     ///< as adam, after p -= lr wd p. Loshchilov and Hutter 2019, algorithm 2
    /// FTRL-proximal with per-coordinate rates, McMahan et al. 2013, algorithm 1. The rule derives
    /// the parameters from its state, which starts as zeros, so the initial parameters fade step by
    /// step. Requires a constant schedule.
    ftrl,
    /// v = mu v + lr r (g + wd p); p -= v, where r = trust |p| / (|g| + wd |p|) over each whole
    /// tensor, r = 1 if either norm is 0. You, Gitman, Ginsburg 2017, algorithm 1.
    lars,
    user  ///< the user rule in `rule`
  };
  Kind kind = Kind::sgd;
  float learning_rate = 0.01F;
  float weight_decay = 0.0F;
  float momentum = 0.9F;               ///< mu
  float rho = 0.9F;                    ///< rmsprop
  float beta1 = 0.9F;                  ///< adam, adamw
  float beta2 = 0.999F;                ///< adam, adamw
  float epsilon = 1e-8F;               ///< adagrad, rmsprop, adam, adamw
  float ftrl_beta = 1.0F;              ///< ftrl: beta, added to sqrt(n)
  float l1 = 0.0F;                     ///< ftrl
  float l2 = 0.0F;                     ///< ftrl
  float trust = 0.001F;                ///< lars
  std::shared_ptr<const Rule> rule{};  ///< user; shared with every table that uses it

  // One factory per kind; parameters are the fields of the same name.
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

/// A factor on the learning rate as a function of the update: a warm-up, then a shape.
struct WEFT_API Schedule {
  enum class Kind : std::uint8_t {
    constant,
    step,         ///< multiplied by `gamma` after every `period` updates
    exponential,  ///< multiplied by gamma^(1 / period) after every update
    linear,       ///< falls from 1 to `floor` within `period` updates
    cosine        ///< the same along half a cosine. Loshchilov and Hutter 2017, without restarts
  };
  Kind kind = Kind::constant;
  std::uint64_t warmup = 0;  ///< number w of updates in which the factor rises: 1/w, 2/w, ... 1
  std::uint64_t period = 1;  ///< updates, counted from the end of the warm-up
  float gamma = 0.1F;        ///< step, exponential
  float floor = 0.0F;        ///< linear, cosine: the final factor

  /// The factor on the learning rate in update number `update`, from 1; 0 stands for 1.
  double factor(std::uint64_t update) const noexcept;
};

}  // namespace weft::pslib
