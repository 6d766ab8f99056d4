// Update rules, schedules, consistency, compression and checkpoints.
#include "bindings/c/optimizer.hpp"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bindings/c/sized.hpp"

namespace weft::c {
namespace {

using pslib::Optimizer;

static_assert(WEFT_OPTIMIZER_USER == static_cast<int>(Optimizer::Kind::user));
static_assert(WEFT_SCHEDULE_COSINE == static_cast<int>(pslib::Schedule::Kind::cosine));
static_assert(WEFT_CONSISTENCY_K_OF_N == static_cast<int>(pslib::Consistency::Kind::k_of_n));
static_assert(WEFT_COMPRESSION_TOP_K == static_cast<int>(pslib::Compression::Kind::top_k));
static_assert(WEFT_RULE_MAX_STATES == pslib::Rule::kMostStates);

/// A rule of the caller's.
class CallersRule final : public pslib::Rule {
 public:
  explicit CallersRule(const weft_rule& from)
      : text_(text_of("rule", "rule->text", from.text)),
        states_(from.states),
        apply_(&given("rule", "rule->apply", from.apply)),
        context_(from.context),
        unused_(from.unused) {
    if (states_ > kMostStates)
      throw_error(Code::bad_argument, "rule", "rule->states is " + std::to_string(states_),
                  "a rule has at most " + std::to_string(kMostStates) + " state arrays");
  }
  ~CallersRule() override {
    if (unused_ != nullptr) unused_(context_);
  }

  std::string text() const override { return text_; }
  std::size_t states() const noexcept override { return states_; }
  void apply(const pslib::RuleStep& step, std::span<float> parameters,
             std::span<const float> gradient,
             std::array<std::span<float>, kMostStates> states) const noexcept override {
    const weft_rule_step told = {.struct_size = sizeof told,
                                 .update = step.update,
                                 .learning_rate = step.learning_rate,
                                 .weight_decay = step.weight_decay};
    std::array<float*, kMostStates> arrays{};
    for (std::size_t i = 0; i < states_; ++i) arrays[i] = states[i].data();
    apply_(context_, &told, parameters.data(), gradient.data(), arrays.data(), parameters.size());
  }

 private:
  const std::string text_;
  const std::size_t states_;
  const weft_rule_function apply_;
  void* const context_;
  void (*const unused_)(void*);
};

weft_optimizer fields_of(const Optimizer& from) {
  weft_optimizer to{};
  to.kind = static_cast<weft_optimizer_kind>(from.kind);
  to.learning_rate = from.learning_rate;
  to.weight_decay = from.weight_decay;
  to.momentum = from.momentum;
  to.rho = from.rho;
  to.beta1 = from.beta1;
  to.beta2 = from.beta2;
  to.epsilon = from.epsilon;
  to.ftrl_beta = from.ftrl_beta;
  to.l1 = from.l1;
  to.l2 = from.l2;
  to.trust = from.trust;
  return to;
}

Optimizer defaults_of(Optimizer::Kind kind) {
  Optimizer made = kind == Optimizer::Kind::adagrad ? Optimizer::adagrad(Optimizer().learning_rate)
                                                    : Optimizer();
  made.kind = kind;
  return made;
}

Optimizer::Kind checked_kind(const char* operation, weft_optimizer_kind kind) {
  return checked_value(operation, "optimizer->kind", kind, Optimizer::Kind::user);
}

}  // namespace

Optimizer optimizer_of(const char* operation, const weft_optimizer* given_optimizer) {
  if (given_optimizer == nullptr) return {};
  const auto from = read_sized(operation, "optimizer", given_optimizer, fields_of(Optimizer()));
  Optimizer to;
  to.kind = checked_kind(operation, from.kind);
  to.learning_rate = from.learning_rate;
  to.weight_decay = from.weight_decay;
  to.momentum = from.momentum;
  to.rho = from.rho;
  to.beta1 = from.beta1;
  to.beta2 = from.beta2;
  to.epsilon = from.epsilon;
  to.ftrl_beta = from.ftrl_beta;
  to.l1 = from.l1;
  to.l2 = from.l2;
  to.trust = from.trust;
  if (to.kind == Optimizer::Kind::user)
    to.rule = std::make_shared<CallersRule>(read_sized(operation, "optimizer->rule", from.rule));
  return to;
}

pslib::Schedule schedule_of(const char* operation, const weft_schedule* given_schedule) {
  const auto from = read_optional(operation, "schedule", given_schedule);
  pslib::Schedule to;
  to.kind = checked_value(operation, "schedule->kind", from.kind, pslib::Schedule::Kind::cosine);
  to.warmup = from.warmup;
  if (from.period != 0) to.period = from.period;
  if (from.gamma != 0) to.gamma = from.gamma;
  to.floor = from.floor;
  return to;
}

pslib::Consistency consistency_of(const char* operation, const weft_consistency* given_one) {
  using pslib::Consistency;
  const auto from = read_optional(operation, "consistency", given_one);
  Consistency to;
  to.kind = checked_value(operation, "consistency->kind", from.kind, Consistency::Kind::k_of_n);
  to.late = checked_value(operation, "consistency->late", from.late, Consistency::Late::folded);
  to.staleness = from.staleness;
  if (from.k != 0) to.k = from.k;
  return to;
}

pslib::Compression compression_of(const char* operation, const weft_compression* given_one) {
  using pslib::Compression;
  const auto from = read_optional(operation, "compression", given_one);
  Compression to;
  to.kind = checked_value(operation, "compression->kind", from.kind, Compression::Kind::top_k);
  if (from.ratio != 0) to.ratio = from.ratio;
  return to;
}

pslib::CheckpointOptions checkpoint_of(const char* operation,
                                       const weft_checkpoint_options* given_options) {
  const auto from = read_optional(operation, "checkpoint", given_options);
  pslib::CheckpointOptions to;
  if (from.folder != nullptr) to.folder = from.folder;
  to.every = from.every;
  if (from.keep != 0) to.keep = from.keep == WEFT_KEEP_ALL ? 0 : from.keep;
  to.restore = from.no_restore == 0;
  return to;
}

DType wire_of(const char* operation, weft_dtype dtype) {
  return dtype == 0 ? DType::f32 : checked_dtype(operation, dtype);
}

}  // namespace weft::c

using namespace weft::c;

weft_code weft_optimizer_defaults(weft_optimizer_kind kind, weft_optimizer* optimizer) {
  return guarded([&] {
    const auto wanted = checked_kind("optimizer_defaults", kind);
    write_sized("optimizer_defaults", "optimizer", optimizer, fields_of(defaults_of(wanted)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_schedule_factor(const weft_schedule* schedule, uint64_t update, double* factor) {
  return guarded([&] {
    auto& out = given("schedule_factor", "factor", factor);
    out = schedule_of("schedule_factor", &given("schedule_factor", "schedule", schedule))
              .factor(update);
    return WEFT_CODE_OK;
  });
}
