#include "runtime/collective/reducer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/kernels/copy.hpp"

namespace weft::detail {
namespace {

constexpr std::align_val_t kLine{64};

kernels::Combination combination_of(Reduction reduction) noexcept {
  switch (reduction) {
    case Reduction::prod:
      return kernels::Combination::prod;
    case Reduction::min:
      return kernels::Combination::min;
    case Reduction::max:
      return kernels::Combination::max;
    case Reduction::bit_and:
      return kernels::Combination::bit_and;
    case Reduction::bit_or:
      return kernels::Combination::bit_or;
    case Reduction::bit_xor:
      return kernels::Combination::bit_xor;
    default:
      return kernels::Combination::sum;
  }
}

void put(std::byte* to, const std::byte* from, std::size_t bytes, bool streamed) noexcept {
  if (streamed)
    kernels::copy_streamed(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace

void Reducer::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, kLine);
}

Reducer::Reducer(DType dtype, const ReduceOp& op, int sources)
    : dtype_(dtype),
      element_(size_of(dtype)),
      op_(op),
      widens_(op.function() == nullptr && (dtype == DType::f16 || dtype == DType::bf16)),
      combine_(nullptr),
      straight_(nullptr),
      streamed_(nullptr) {
  if (op.function() == nullptr && op.reduction() == Reduction::avg) {
    mean_.emplace(dtype, sources);
    combine_ = mean_->add();
  } else if (op.function() == nullptr) {
    const auto combination = combination_of(op.reduction());
    combine_ = kernels::combine_for(widens_ ? DType::f32 : dtype, combination);
    straight_ = kernels::combine_for(dtype, combination);
    streamed_ = kernels::combine_streamed_for(dtype, combination);
  }
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(sources))) + 3;
  scratch_.reset(static_cast<std::byte*>(::operator new[](levels* kBlock, kLine)));
}

void Reducer::pair(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  if (combine_ != nullptr) return combine_(to, a, b, count);
  if (to != a) std::memcpy(to, a, count * element_);
  (*op_.function())(to, b, static_cast<std::int64_t>(count), dtype_);
}

const std::byte* Reducer::leaf(const std::byte* source, std::size_t at, std::size_t count,
                               std::size_t level) {
  if (!widens()) return source + at * element_;
  widen(scratch(level), source + at * element_, count);
  return scratch(level);
}

// Returns a block that lies in a source or at scratch(level). Uses the levels from `level` on.
const std::byte* Reducer::tree(Sources sources, std::size_t at, std::size_t count,
                               std::size_t level, bool partials) {
  if (sources.size() == 1)
    return partials ? sources[0] + at * wide() : leaf(sources[0], at, count, level);
  const std::size_t half = std::bit_ceil(sources.size()) / 2;
  const std::byte* left = tree(sources.first(half), at, count, level, partials);
  const std::byte* right = tree(sources.subspan(half), at, count, level + 1, partials);
  pair(scratch(level), left, right, count);
  return scratch(level);
}

const std::byte* Reducer::finish(const std::byte* block, std::size_t count, std::size_t divisor) {
  auto* data = const_cast<std::byte*>(block);  // NOLINT: the block lies in this object's scratch
  if (mean_)
    mean_->finish(data, count, static_cast<std::int64_t>(divisor));
  else if (widens_)  // in place: the narrow result never overtakes the wide input
    kernels::narrow(data, dtype_, reinterpret_cast<const float*>(data), count);
  return block;
}

void Reducer::widen(std::byte* to, const std::byte* from, std::size_t count) {
  if (mean_)
    mean_->load(to, from, count);
  else if (widens_)
    kernels::widen(reinterpret_cast<float*>(to), from, dtype_, count);
  else
    std::memcpy(to, from, count * element_);
}

void Reducer::join(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  if (combine_ != nullptr) return combine_(to, a, b, count);
  const std::size_t step = kBlock / element_;
  for (std::size_t at = 0; at < count; at += step) {
    const std::size_t some = std::min(step, count - at);
    std::memcpy(scratch(0), a + at * element_, some * element_);
    pair(scratch(0), scratch(0), b + at * element_, some);
    std::memcpy(to + at * element_, scratch(0), some * element_);
  }
}

void Reducer::finish(std::byte* to, const std::byte* sum, std::size_t count, std::size_t ranks) {
  if (!widens()) {
    if (to != sum) std::memcpy(to, sum, count * element_);
    return;
  }
  const std::size_t step = kBlock / wide();
  for (std::size_t at = 0; at < count; at += step) {
    const std::size_t some = std::min(step, count - at);
    std::memcpy(scratch(0), sum + at * wide(), some * wide());
    std::memcpy(to + at * element_, finish(scratch(0), some, ranks), some * element_);
  }
}

void Reducer::combine(Sources sources, Targets targets, std::int64_t count, bool streamed) {
  const auto total = static_cast<std::size_t>(count);
  const bool straight = sources.size() == 2 && straight_ != nullptr;
  if (straight && streamed && streamed_ != nullptr && targets.size() == 2) {
    streamed_(targets[0], targets[1], sources[0], sources[1], total);
    kernels::stream_fence();
    return;
  }
  const std::size_t step = kBlock / wide();
  for (std::size_t at = 0; at < total; at += step) {
    const std::size_t some = std::min(step, total - at);
    const std::size_t bytes = some * element_;
    const std::size_t first = at * element_;
    const std::byte* result = nullptr;
    std::size_t next = 0;
    if (straight) {
      std::byte* to = streamed ? scratch(0) : targets[0] + first;
      straight_(to, sources[0] + first, sources[1] + first, some);
      result = to;
      next = streamed ? 0 : 1;
    } else if (sources.size() == 1) {
      result = sources[0] + first;
    } else {
      result = finish(tree(sources, at, some, 0), some, sources.size());
    }
    for (; next < targets.size(); ++next) {
      std::byte* to = targets[next] + first;
      if (to != result) put(to, result, bytes, streamed);
    }
  }
}

void Reducer::combine_partly(Sources sources, std::byte* to, std::int64_t count) {
  const auto total = static_cast<std::size_t>(count);
  const std::size_t step = kBlock / wide();
  for (std::size_t at = 0; at < total; at += step) {
    const std::size_t some = std::min(step, total - at);
    std::memcpy(to + at * wide(), tree(sources, at, some, 0), some * wide());
  }
}

void Reducer::combine_partials(Sources partials, Targets targets, std::int64_t count,
                               std::size_t ranks, bool streamed) {
  const auto total = static_cast<std::size_t>(count);
  const std::size_t step = kBlock / wide();
  for (std::size_t at = 0; at < total; at += step) {
    const std::size_t some = std::min(step, total - at);
    const std::byte* result = finish(tree(partials, at, some, 0, true), some, ranks);
    for (std::byte* target : targets)
      put(target + at * element_, result, some * element_, streamed);
  }
}

void Reducer::combine_up_to(Sources sources, Targets targets, std::int64_t count) {
  const auto total = static_cast<std::size_t>(count);
  const std::size_t wide = this->wide();
  const std::size_t step = kBlock / wide;
  for (std::size_t at = 0; at < total; at += step) {
    const std::size_t some = std::min(step, total - at);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::byte* next = leaf(sources[i], at, some, 1);
      if (i == 0)
        std::memcpy(scratch(0), next, some * wide);
      else
        pair(scratch(0), scratch(0), next, some);
      if (targets[i] == nullptr) continue;
      std::memcpy(scratch(2), scratch(0), some * wide);
      std::memcpy(targets[i] + at * element_, finish(scratch(2), some, i + 1), some * element_);
    }
  }
}

}  // namespace weft::detail
