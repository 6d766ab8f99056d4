#include "exchange.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels.hpp"

namespace images {

using weft::DType;
using weft::Memory;
using weft::Tensor;
using weft::pslib::TensorSpec;

namespace {

weft::pslib::TableOptions options(Memory memory, float learning_rate) {
  weft::pslib::TableOptions options(weft::pslib::Optimizer::adam(learning_rate));
  options.memory = memory;
  return options;
}

}  // namespace

ByTable::ByTable(weft::World& world, std::vector<TensorSpec> specs, Memory memory,
                 float learning_rate)
    : server_(world),
      table_(server_.table("network", std::move(specs), options(memory, learning_rate))) {}

ByAllReduce::ByAllReduce(weft::World& world, std::vector<TensorSpec> specs, Memory memory,
                         float learning_rate, Gpu* gpu)
    : specs_(std::move(specs)),
      learning_rate_(learning_rate),
      world_(world),
      gpu_(gpu),
      parameters_(zeros(world, memory)),
      gradients_(zeros(world, memory)),
      first_(zeros(world, memory)),
      second_(zeros(world, memory)),
      rates_here_(world.allocate(DType::f32, {2})),
      rates_(memory.is_host() ? rates_here_ : world.allocate(DType::f32, {2}, memory)),
      ranks_(weft::Collectives::open(world)),
      sum_(ranks_.plan(weft::all_reduce(gradients_, weft::Reduction::sum))) {}

Tensor ByAllReduce::zeros(weft::World& world, Memory memory) const {
  long elements = 0;
  for (const TensorSpec& spec : specs_) elements += spec.shape.elements();
  const Tensor here = world.allocate(DType::f32, {elements});
  std::ranges::fill(here.as<float>(), 0.0F);
  if (memory.is_host()) return here;
  Tensor there = world.allocate(DType::f32, {elements}, memory);
  world.copy(here, there);
  return there;
}

Tensor ByAllReduce::part(const Tensor& all, const std::string& name) const {
  long first = 0;
  for (const TensorSpec& spec : specs_) {
    if (spec.name == name) return all.part(first, spec.shape);
    first += spec.shape.elements();
  }
  throw std::logic_error("no tensor " + name);
}

void ByAllReduce::begin() { ranks_.run(weft::broadcast(parameters_, 0)).or_throw(); }

kernels::Adam ByAllReduce::adam(const Tensor& rates) const {
  return {1.0F / static_cast<float>(ranks_.size()),
          floats(rates),
          floats(gradients_),
          floats(parameters_),
          floats(first_),
          floats(second_)};
}

void ByAllReduce::set() {
  const auto step = static_cast<float>(++step_);
  const auto rates = rates_here_.as<float>();
  rates[0] = learning_rate_ / (1.0F - std::pow(kernels::Adam::kBeta1, step));
  rates[1] = 1.0F / (1.0F - std::pow(kernels::Adam::kBeta2, step));
}

void ByAllReduce::update() {
  set();
  sum_.run().or_throw();
  const kernels::Adam step = adam(rates_here_);
  for (long i = 0; i < step.threads(); ++i) step(i);
}

void ByAllReduce::put_on_stream() {
  world_.copy(rates_here_, rates_, gpu_->stream());
  // One rank has nothing to add.
  if (ranks_.size() > 1) sum_.start(gpu_->stream()).or_throw();
  gpu_->run(adam(rates_));
}

void ByAllReduce::check() {
  const std::uint32_t* const outcome = sum_.outcome();
  // The next call says why.
  if (outcome != nullptr && *outcome != 0) sum_.start(gpu_->stream()).or_throw();
}

}  // namespace images
