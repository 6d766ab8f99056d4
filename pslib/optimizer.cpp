#include "pslib/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>

namespace weft::pslib {
namespace {

hwy::AlignedFreeUniquePtr<float[]> zeros(std::int64_t elements) {
  const auto size = static_cast<std::size_t>(elements);
  auto memory = hwy::AllocateAligned<float>(size);
  if (!memory) throw std::bad_alloc();
  std::fill_n(memory.get(), size, 0.0F);
  return memory;
}

void require(bool good, std::string_view constant, float value, std::string_view accepted) {
  if (good) return;
  ErrorDetail detail;
  detail.code = Code::bad_argument;
  detail.operation = "optimizer";
  detail.message = fmt::format("{} is {}", constant, value);
  detail.hint = fmt::format("{} must be {}", constant, accepted);
  throw Error(std::move(detail));
}

bool is_decay(float value) { return value >= 0.0F && value < 1.0F; }

}  // namespace

Optimizer Optimizer::sgd(float learning_rate) {
  Optimizer optimizer;
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

Optimizer Optimizer::with_momentum(float learning_rate, float momentum) {
  Optimizer optimizer;
  optimizer.kind = Kind::momentum;
  optimizer.learning_rate = learning_rate;
  optimizer.momentum = momentum;
  return optimizer;
}

Optimizer Optimizer::adam(float learning_rate, float beta1, float beta2, float epsilon) {
  Optimizer optimizer;
  optimizer.kind = Kind::adam;
  optimizer.learning_rate = learning_rate;
  optimizer.beta1 = beta1;
  optimizer.beta2 = beta2;
  optimizer.epsilon = epsilon;
  return optimizer;
}

void check(const Optimizer& optimizer) {
  require(std::isfinite(optimizer.learning_rate), "learning_rate", optimizer.learning_rate,
          "a finite number");
  if (optimizer.kind == Optimizer::Kind::momentum)
    require(is_decay(optimizer.momentum), "momentum", optimizer.momentum, "in [0, 1)");
  if (optimizer.kind != Optimizer::Kind::adam) return;
  require(is_decay(optimizer.beta1), "beta1", optimizer.beta1, "in [0, 1)");
  require(is_decay(optimizer.beta2), "beta2", optimizer.beta2, "in [0, 1)");
  require(optimizer.epsilon > 0.0F, "epsilon", optimizer.epsilon, "above 0");
}

std::string text(const Optimizer& optimizer) {
  switch (optimizer.kind) {
    case Optimizer::Kind::sgd:
      return fmt::format("sgd(learning_rate {})", optimizer.learning_rate);
    case Optimizer::Kind::momentum:
      return fmt::format("momentum(learning_rate {}, momentum {})", optimizer.learning_rate,
                         optimizer.momentum);
    case Optimizer::Kind::adam:
      return fmt::format("adam(learning_rate {}, beta1 {}, beta2 {}, epsilon {})",
                         optimizer.learning_rate, optimizer.beta1, optimizer.beta2,
                         optimizer.epsilon);
  }
  return "unknown";
}

Updater::Updater(const Optimizer& optimizer, std::int64_t elements) : optimizer_(optimizer) {
  if (optimizer.kind != Optimizer::Kind::sgd) first_ = zeros(elements);
  if (optimizer.kind == Optimizer::Kind::adam) second_ = zeros(elements);
}

void Updater::begin_step() noexcept {
  ++step_;
  if (optimizer_.kind != Optimizer::Kind::adam) return;
  const double t = static_cast<double>(step_);
  const double first = 1.0 - std::pow(static_cast<double>(optimizer_.beta1), t);
  const double second = 1.0 - std::pow(static_cast<double>(optimizer_.beta2), t);
  adam_ = {.beta1 = optimizer_.beta1,
           .beta2 = optimizer_.beta2,
           .rate = static_cast<float>(optimizer_.learning_rate / first),
           .second_scale = static_cast<float>(1.0 / second),
           .epsilon = optimizer_.epsilon};
}

void Updater::apply(float* parameters, std::int64_t offset, kernels::Gradients gradients,
                    std::int64_t count) noexcept {
  const auto size = static_cast<std::size_t>(count);
  switch (optimizer_.kind) {
    case Optimizer::Kind::sgd:
      kernels::sgd(parameters, gradients, size, optimizer_.learning_rate);
      break;
    case Optimizer::Kind::momentum:
      kernels::momentum(parameters, first_.get() + offset, gradients, size,
                        optimizer_.learning_rate, optimizer_.momentum);
      break;
    case Optimizer::Kind::adam:
      kernels::adam(parameters, first_.get() + offset, second_.get() + offset, gradients, size,
                    adam_);
      break;
  }
}

}  // namespace weft::pslib
