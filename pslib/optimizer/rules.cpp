#include "pslib/optimizer/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "base/fail.hpp"

namespace weft::pslib {

Rule::~Rule() = default;

namespace {

using Kind = Optimizer::Kind;

Optimizer of_kind(Kind kind, float learning_rate) {
  Optimizer optimizer;
  optimizer.kind = kind;
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

// A rule's constants besides learning rate and weight decay, each with its accepted range.
enum class Range : std::uint8_t { decay, above_zero, not_negative };

struct Constant {
  std::string_view name;
  float Optimizer::*member;
  Range range;
};

struct Description {
  std::string_view name;
  std::size_t states;
  std::array<Constant, 3> constants;
};

constexpr Constant kMomentum{"momentum", &Optimizer::momentum, Range::decay};
constexpr Constant kEpsilon{"epsilon", &Optimizer::epsilon, Range::above_zero};
constexpr Constant kBeta1{"beta1", &Optimizer::beta1, Range::decay};
constexpr Constant kBeta2{"beta2", &Optimizer::beta2, Range::decay};

// In the order of Kind.
constexpr std::array<Description, 10> kRules{{
    {"sgd", 0, {}},
    {"momentum", 1, {{kMomentum}}},
    {"nesterov", 1, {{kMomentum}}},
    {"adagrad", 1, {{kEpsilon}}},
    {"rmsprop", 1, {{{"rho", &Optimizer::rho, Range::decay}, kEpsilon}}},
    {"adam", 2, {{kBeta1, kBeta2, kEpsilon}}},
    {"adamw", 2, {{kBeta1, kBeta2, kEpsilon}}},
    {"ftrl",
     2,
     {{{"beta", &Optimizer::ftrl_beta, Range::not_negative},
       {"l1", &Optimizer::l1, Range::not_negative},
       {"l2", &Optimizer::l2, Range::not_negative}}}},
    {"lars", 1, {{kMomentum, {"trust", &Optimizer::trust, Range::above_zero}}}},
    {"user", 0, {}},
}};

constexpr std::array<std::string_view, 5> kSchedules{"constant", "step", "exponential", "linear",
                                                     "cosine"};

const Description& describe(Kind kind) { return kRules[static_cast<std::size_t>(kind)]; }

void require(bool good, std::string_view constant, const auto& value, std::string_view accepted) {
  if (!good)
    throw_error(Code::bad_argument, "optimizer", fmt::format("{} is {}", constant, value),
                fmt::format("{} must be {}", constant, accepted));
}

void check_range(std::string_view name, float value, Range range) {
  switch (range) {
    case Range::decay:
      return require(value >= 0.0F && value < 1.0F, name, value, "in [0, 1)");
    case Range::above_zero:
      return require(value > 0.0F && std::isfinite(value), name, value, "above 0");
    case Range::not_negative:
      return require(value >= 0.0F && std::isfinite(value), name, value, "0 or above");
  }
}

void check_rule(const Optimizer& optimizer) {
  require(optimizer.kind <= Kind::user, "kind", static_cast<int>(optimizer.kind),
          "a value of Optimizer::Kind");
  require(std::isfinite(optimizer.learning_rate), "learning_rate", optimizer.learning_rate,
          "a finite number");
  check_range("weight_decay", optimizer.weight_decay, Range::not_negative);
  for (const Constant& constant : describe(optimizer.kind).constants)
    if (constant.member != nullptr)
      check_range(constant.name, optimizer.*constant.member, constant.range);
  if (optimizer.kind == Kind::ftrl)
    require(optimizer.learning_rate > 0.0F, "learning_rate", optimizer.learning_rate,
            "above 0 with ftrl, which divides by it");
  if (optimizer.kind != Kind::user) return;
  require(optimizer.rule != nullptr, "rule", "missing", "given with Kind::user");
  require(optimizer.rule->states() <= Rule::kMostStates, "rule->states()", optimizer.rule->states(),
          "2 at most");
}

bool is_default(const Schedule& schedule) {
  return schedule.kind == Schedule::Kind::constant && schedule.warmup == 0;
}

}  // namespace

Optimizer Optimizer::sgd(float learning_rate) { return of_kind(Kind::sgd, learning_rate); }

Optimizer Optimizer::with_momentum(float learning_rate, float momentum) {
  Optimizer optimizer = of_kind(Kind::momentum, learning_rate);
  optimizer.momentum = momentum;
  return optimizer;
}

Optimizer Optimizer::nesterov(float learning_rate, float momentum) {
  Optimizer optimizer = of_kind(Kind::nesterov, learning_rate);
  optimizer.momentum = momentum;
  return optimizer;
}

Optimizer Optimizer::adagrad(float learning_rate, float epsilon) {
  Optimizer optimizer = of_kind(Kind::adagrad, learning_rate);
  optimizer.epsilon = epsilon;
  return optimizer;
}

Optimizer Optimizer::rmsprop(float learning_rate, float rho, float epsilon) {
  Optimizer optimizer = of_kind(Kind::rmsprop, learning_rate);
  optimizer.rho = rho;
  optimizer.epsilon = epsilon;
  return optimizer;
}

Optimizer Optimizer::adam(float learning_rate, float beta1, float beta2, float epsilon) {
  Optimizer optimizer = of_kind(Kind::adam, learning_rate);
  optimizer.beta1 = beta1;
  optimizer.beta2 = beta2;
  optimizer.epsilon = epsilon;
  return optimizer;
}

Optimizer Optimizer::adamw(float learning_rate, float weight_decay, float beta1, float beta2,
                           float epsilon) {
  Optimizer optimizer = adam(learning_rate, beta1, beta2, epsilon);
  optimizer.kind = Kind::adamw;
  optimizer.weight_decay = weight_decay;
  return optimizer;
}

Optimizer Optimizer::ftrl(float learning_rate, float l1, float l2, float beta) {
  Optimizer optimizer = of_kind(Kind::ftrl, learning_rate);
  optimizer.l1 = l1;
  optimizer.l2 = l2;
  optimizer.ftrl_beta = beta;
  return optimizer;
}

Optimizer Optimizer::lars(float learning_rate, float weight_decay, float momentum, float trust) {
  Optimizer optimizer = of_kind(Kind::lars, learning_rate);
  optimizer.weight_decay = weight_decay;
  optimizer.momentum = momentum;
  optimizer.trust = trust;
  return optimizer;
}

Optimizer Optimizer::with(std::shared_ptr<const Rule> rule, float learning_rate) {
  Optimizer optimizer = of_kind(Kind::user, learning_rate);
  optimizer.rule = std::move(rule);
  return optimizer;
}

void check(const TableOptions& options) {
  check_rule(options.optimizer);
  const Schedule& schedule = options.schedule;
  require(schedule.kind <= Schedule::Kind::cosine, "schedule.kind", static_cast<int>(schedule.kind),
          "a value of Schedule::Kind");
  require(schedule.period > 0, "schedule.period", schedule.period, "1 or above");
  require(schedule.gamma > 0.0F && std::isfinite(schedule.gamma), "schedule.gamma", schedule.gamma,
          "above 0");
  check_range("schedule.floor", schedule.floor, Range::not_negative);
  if (options.optimizer.kind == Kind::ftrl)
    require(is_default(schedule), "schedule.kind", name(schedule.kind),
            "constant, without a warm-up, with ftrl");
  check_range("clip_norm", options.clip_norm, Range::not_negative);
  require(options.consistency.k > 0, "consistency.k", options.consistency.k, "1 or above");
  const CheckpointOptions& saved = options.checkpoint;
  require(saved.folder.find('\0') == saved.folder.npos, "checkpoint.folder", "a name with a NUL",
          "a name without a NUL");
  if (saved.every > 0) {
    require(!saved.folder.empty(), "checkpoint.folder", "empty", "given with checkpoint.every");
    require(saved.every % std::max(options.accumulate, 1U) == 0, "checkpoint.every", saved.every,
            "a multiple of accumulate: gradients that are being added up are not saved");
  }
  const Compression& compression = options.compression;
  require(compression.kind != Compression::Kind::top_k ||
              (compression.ratio > 0.0F && compression.ratio < 1.0F),
          "compression.ratio", compression.ratio, "above 0 and below 1");
  require(options.accumulate > 0, "accumulate", options.accumulate, "1 or above");
  require(options.wire == DType::f32 || options.wire == DType::f16 || options.wire == DType::bf16,
          "wire", weft::name(options.wire), "f32, f16 or bf16");
}

std::string_view name(Schedule::Kind kind) noexcept {
  return kSchedules[static_cast<std::size_t>(kind)];
}

std::optional<Kind> rule_named(std::string_view name) noexcept {
  const auto at = std::ranges::find(kRules, name, &Description::name);
  if (at == kRules.end()) return std::nullopt;
  return static_cast<Kind>(at - kRules.begin());
}

std::optional<Schedule::Kind> schedule_named(std::string_view name) noexcept {
  const auto at = std::ranges::find(kSchedules, name);
  if (at == kSchedules.end()) return std::nullopt;
  return static_cast<Schedule::Kind>(at - kSchedules.begin());
}

std::string rule_name(const Optimizer& optimizer) {
  if (optimizer.kind == Kind::user) return optimizer.rule->text();
  return std::string(describe(optimizer.kind).name);
}

std::string text(const Optimizer& optimizer) {
  const Description& rule = describe(optimizer.kind);
  std::string words =
      fmt::format("{}(learning_rate {}", rule_name(optimizer), optimizer.learning_rate);
  for (const Constant& constant : rule.constants)
    if (constant.member != nullptr)
      words += fmt::format(", {} {}", constant.name, optimizer.*constant.member);
  if (optimizer.weight_decay != 0.0F)
    words += fmt::format(", weight_decay {}", optimizer.weight_decay);
  return words + ")";
}

std::string text(const Consistency& consistency) {
  switch (consistency.kind) {
    case Consistency::Kind::bsp:
      return "bsp";
    case Consistency::Kind::ssp:
      return fmt::format("ssp(staleness {})", consistency.staleness);
    case Consistency::Kind::async:
      return "async";
    case Consistency::Kind::k_of_n:
      return fmt::format("k_of_n(k {}, late {})", consistency.k,
                         consistency.late == Consistency::Late::folded ? "folded" : "dropped");
  }
  return "unknown";
}

std::string text(const Compression& compression) {
  switch (compression.kind) {
    case Compression::Kind::none:
      return "none";
    case Compression::Kind::int8:
      return "int8";
    case Compression::Kind::top_k:
      return fmt::format("top_k(ratio {})", compression.ratio);
  }
  return "unknown";
}

std::string text(const TableOptions& options) {
  std::string words = text(options.optimizer) + "\n";
  const Schedule& schedule = options.schedule;
  if (!is_default(schedule))
    words +=
        fmt::format("schedule {} (warmup {}, period {}, gamma {}, floor {})\n", name(schedule.kind),
                    schedule.warmup, schedule.period, schedule.gamma, schedule.floor);
  if (options.clip_norm > 0.0F) words += fmt::format("clip_norm {}\n", options.clip_norm);
  if (options.accumulate > 1) words += fmt::format("accumulate {}\n", options.accumulate);
  if (options.consistency.kind != Consistency::Kind::bsp) words += text(options.consistency) + "\n";
  if (options.checkpoint.every > 0)
    words += fmt::format("checkpoint every {}, keep {}\n", options.checkpoint.every,
                         options.checkpoint.keep);
  if (options.wire != DType::f32) words += fmt::format("wire {}\n", weft::name(options.wire));
  if (options.compression.kind != Compression::Kind::none)
    words += fmt::format("compression {}\n", text(options.compression));
  return words;
}

std::size_t states(const Optimizer& optimizer) noexcept {
  return optimizer.kind == Kind::user ? optimizer.rule->states() : describe(optimizer.kind).states;
}

}  // namespace weft::pslib
