#include "pslib/optimizer_kernels.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pslib/optimizer_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::pslib::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// How a vector meets memory: in full, or (the tail) its first `count` lanes by way of a buffer. The
// arithmetic in between is the same, which is what makes results independent of where a run is cut.
struct Full {
  V load(const float* from) const { return hn::LoadU(D(), from); }
  void store(V value, float* to) const { hn::StoreU(value, D(), to); }
};

struct Part {
  std::size_t count;

  V load(const float* from) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
    std::memcpy(lanes, from, count * sizeof(float));
    return hn::Load(D(), lanes);
  }
  void store(V value, float* to) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(value, D(), lanes);
    std::memcpy(to, lanes, count * sizeof(float));
  }
};

// Memory streams that a core's prefetchers follow well at the same time, and elements of a block
// that stays in the nearest caches.
constexpr std::size_t kStreams = 8;
constexpr std::size_t kBlock = 4096;

// Calls take(sum of the sources, at, access) for every vector of a run.
template <class Take>
HWY_INLINE void sum_vectors(Gradients sources, std::size_t count, const Take& take) {
  const auto sum = [&](std::size_t at, auto access) HWY_ATTR {
    V total = access.load(sources[0] + at);
    for (std::size_t i = 1; i < sources.size(); ++i)
      total = hn::Add(total, access.load(sources[i] + at));
    return total;
  };
  const std::size_t lanes = hn::Lanes(D());
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) take(sum(at, Full{}), at, Full{});
  if (at < count) take(sum(at, Part{count - at}), at, Part{count - at});
}

// The same for more sources than kStreams: a few at a time, block by block. Still in the listed
// order, so the same bits.
template <class Take>
HWY_INLINE void sum_blocks(Gradients sources, std::size_t count, const Take& take) {
  HWY_ALIGN float sums[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t size = HWY_MIN(kBlock, count - start);
    const float* group[kStreams];
    std::size_t members = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (members == kStreams) {
        sum_vectors({group, members}, size, [&](V sum, std::size_t at, auto access) HWY_ATTR {
          access.store(sum, sums + at);
        });
        group[0] = sums;
        members = 1;
      }
      group[members++] = sources[i] + start;
    }
    sum_vectors({group, members}, size, [&](V sum, std::size_t at, auto access) HWY_ATTR {
      take(sum, start + at, access);
    });
  }
}

// Calls update(averaged gradient, at, access) for every vector of a run.
template <class Update>
void for_each_vector(Gradients gradients, std::size_t count, const Update& update) {
  const V scale = hn::Set(D(), 1.0F / static_cast<float>(gradients.size()));
  const auto take = [&](V sum, std::size_t at, auto access)
                        HWY_ATTR { update(hn::Mul(sum, scale), at, access); };
  if (gradients.size() <= kStreams)
    sum_vectors(gradients, count, take);
  else
    sum_blocks(gradients, count, take);
}

void sgd(float* parameters, Gradients gradients, std::size_t count, float learning_rate) {
  const V rate = hn::Set(D(), learning_rate);
  for_each_vector(gradients, count, [=](V g, std::size_t at, auto access) HWY_ATTR {
    float* const p = parameters + at;
    access.store(hn::NegMulAdd(rate, g, access.load(p)), p);
  });
}

void momentum(float* parameters, float* velocity, Gradients gradients, std::size_t count,
              float learning_rate, float momentum) {
  const V rate = hn::Set(D(), learning_rate);
  const V keep = hn::Set(D(), momentum);
  for_each_vector(gradients, count, [=](V g, std::size_t at, auto access) HWY_ATTR {
    float* const p = parameters + at;
    float* const v = velocity + at;
    const V moved = hn::MulAdd(keep, access.load(v), g);
    access.store(moved, v);
    access.store(hn::NegMulAdd(rate, moved, access.load(p)), p);
  });
}

void adam(float* parameters, float* first_moment, float* second_moment, Gradients gradients,
          std::size_t count, const AdamStep& step) {
  const V keep1 = hn::Set(D(), step.beta1);
  const V take1 = hn::Set(D(), 1.0F - step.beta1);
  const V keep2 = hn::Set(D(), step.beta2);
  const V take2 = hn::Set(D(), 1.0F - step.beta2);
  const V rate = hn::Set(D(), step.rate);
  const V second_scale = hn::Set(D(), step.second_scale);
  const V epsilon = hn::Set(D(), step.epsilon);
  for_each_vector(gradients, count, [=](V g, std::size_t at, auto access) HWY_ATTR {
    float* const p = parameters + at;
    float* const m = first_moment + at;
    float* const s = second_moment + at;
    const V first = hn::MulAdd(keep1, access.load(m), hn::Mul(take1, g));
    const V second = hn::MulAdd(keep2, access.load(s), hn::Mul(take2, hn::Mul(g, g)));
    const V root = hn::Add(hn::Sqrt(hn::Mul(second_scale, second)), epsilon);
    access.store(first, m);
    access.store(second, s);
    access.store(hn::NegMulAdd(rate, hn::Div(first, root), access.load(p)), p);
  });
}

}  // namespace
}  // namespace weft::pslib::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::pslib::kernels {

HWY_EXPORT(sgd);
HWY_EXPORT(momentum);
HWY_EXPORT(adam);

void sgd(float* parameters, Gradients gradients, std::size_t count, float learning_rate) noexcept {
  HWY_DYNAMIC_DISPATCH(sgd)(parameters, gradients, count, learning_rate);
}

void momentum(float* parameters, float* velocity, Gradients gradients, std::size_t count,
              float learning_rate, float momentum) noexcept {
  HWY_DYNAMIC_DISPATCH(momentum)(parameters, velocity, gradients, count, learning_rate, momentum);
}

void adam(float* parameters, float* first_moment, float* second_moment, Gradients gradients,
          std::size_t count, const AdamStep& step) noexcept {
  HWY_DYNAMIC_DISPATCH(adam)(parameters, first_moment, second_moment, gradients, count, step);
}

}  // namespace weft::pslib::kernels
#endif
