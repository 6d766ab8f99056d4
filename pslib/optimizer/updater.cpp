#include "pslib/optimizer/updater.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/kernels/combine.hpp"
#include "pslib/optimizer/rules.hpp"

namespace weft::pslib {
namespace {

using Kind = Optimizer::Kind;

hwy::AlignedFreeUniquePtr<float[]> zeros(std::int64_t elements) {
  const auto size = static_cast<std::size_t>(elements);
  auto memory = hwy::AllocateAligned<float>(size);
  if (!memory) throw std::bad_alloc();
  std::fill_n(memory.get(), size, 0.0F);
  return memory;
}

std::size_t norm_count(const TableOptions& options, std::size_t tensors) {
  if (options.optimizer.kind == Kind::lars) return 1 + 2 * tensors;
  return options.clip_norm > 0.0F ? 1 : 0;
}

}  // namespace

Updater::Updater(const TableOptions& options, std::size_t tensors, std::int64_t elements,
                 std::size_t contributors, bool compressed)
    : rule_(options.optimizer, options.schedule, kBlock),
      clip_norm_(options.clip_norm),
      accumulate_(options.accumulate),
      wire_(options.wire),
      norms_(norm_count(options, tensors)),
      pointers_(contributors + 1) {
  for (std::size_t i = 0; i < states(options.optimizer); ++i) states_[i] = zeros(elements);
  if (accumulate_ > 1) sums_ = zeros(elements);
  for (const auto& state : states_)
    if (state) arrays_.push_back(state.get());
  if (sums_) arrays_.push_back(sums_.get());
  if (wire_ != DType::f32 || compressed) widened_.resize(contributors * kBlock);
  if (measures()) averaged_.resize(kBlock);
}

void Updater::resume(const Progress& progress) noexcept {
  update_ = progress.updates;
  kept_ = static_cast<std::uint32_t>(progress.kept);
  contributions_ = static_cast<std::size_t>(progress.contributions);
}

void Updater::begin(std::size_t contributors) noexcept {
  if (due()) {
    kept_ = 0;
    contributions_ = 0;
  }
  ++kept_;
  contributions_ += contributors;
  is_settled_ = false;
  if (!due()) return;
  ++update_;
  std::ranges::fill(norms_, ExactSum{});
}

// Calls act(offset in the region, gradients, count) for each block of a run; accumulated gradients
// come first.
template <typename Act>
void Updater::for_each_block(const Run& run, Sources sources, const Act& act) noexcept {
  const auto count = static_cast<std::size_t>(run.count);
  const std::size_t width = size_of(wire_);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t size = std::min(kBlock, count - start);
    const std::int64_t offset = run.offset + static_cast<std::int64_t>(start);
    std::size_t used = 0;
    if (kept_ > 1) pointers_[used++] = sums_.get() + offset;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Source& source = sources[i];
      if (wire_ == DType::f32 && source.format == nullptr) {
        pointers_[used++] = reinterpret_cast<const float*>(source.at) + start;
        continue;
      }
      float* const block = widened_.data() + i * kBlock;
      if (source.format != nullptr)
        source.format->read(block, source.at, run.tensor,
                            run.first + static_cast<std::int64_t>(start), size);
      else
        weft::kernels::widen(block, source.at + start * width, wire_, size);
      pointers_[used++] = block;
    }
    act(offset, kernels::Gradients(pointers_.data(), used), size);
  }
}

void Updater::keep(const Run& run, Sources sources) noexcept {
  for_each_block(run, sources,
                 [&](std::int64_t offset, kernels::Gradients gradients, std::size_t count) {
                   kernels::average(sums_.get() + offset, gradients, count, 1.0F);
                 });
}

void Updater::measure(const Run& run, const float* parameters, Sources sources) noexcept {
  const float scale = 1.0F / static_cast<float>(contributions_);
  const bool by_tensor = norms_.size() > 1;
  for_each_block(run, sources,
                 [&](std::int64_t offset, kernels::Gradients gradients, std::size_t count) {
                   kernels::average(averaged_.data(), gradients, count, scale);
                   const std::span<const float> gradient(averaged_.data(), count);
                   add_squares(norms_[0], gradient);
                   if (!by_tensor) return;
                   add_squares(norms_[1 + 2 * run.tensor], {parameters + offset, count});
                   add_squares(norms_[2 + 2 * run.tensor], gradient);
                 });
  for (ExactSum& norm : norms_) norm.carry();
}

void Updater::settle() noexcept {
  if (is_settled_ || !due()) return;
  is_settled_ = true;
  if (skips()) {
    --update_;
    ++skipped_;
    return;
  }
  constants_ = rule_.constants(update_, clip_factor() / static_cast<float>(contributions_));
}

void Updater::apply(const Run& run, const float* from, float* to, Sources sources) noexcept {
  settle();
  if (skips()) {
    if (from != to) std::copy_n(from + run.offset, run.count, to + run.offset);
    return;
  }
  RuleConstants constants = constants_;
  if (rule_.rule().kind == Kind::lars) constants.kernel.rate *= trust_ratio(run.tensor);
  const auto state = [&](std::size_t i, std::int64_t offset) {
    return states_[i] ? states_[i].get() + offset : nullptr;
  };
  for_each_block(
      run, sources, [&](std::int64_t offset, kernels::Gradients gradients, std::size_t count) {
        rule_.apply(constants, {from + offset, to + offset, state(0, offset), state(1, offset)},
                    gradients, count);
      });
}

bool Updater::skips() const noexcept {
  return measures() && !std::isfinite(norms_.front().value());
}

float Updater::clip_factor() const noexcept {
  if (clip_norm_ == 0.0F) return 1.0F;
  const double norm = std::sqrt(norms_[0].value());
  return norm <= clip_norm_ ? 1.0F : static_cast<float>(clip_norm_ / norm);
}

float Updater::trust_ratio(std::size_t tensor) const noexcept {
  return weft::pslib::trust_ratio(rule_.rule(), norms_[1 + 2 * tensor].value(),
                                  norms_[2 + 2 * tensor].value(), clip_factor());
}

}  // namespace weft::pslib
