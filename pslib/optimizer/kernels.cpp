#include "pslib/optimizer/kernels.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pslib/optimizer/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::pslib::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A vector of one constant, created where it is used: a lambda can't capture an SVE vector, whose
// size is known only at run time. Compilers hoist the creation out of loops.
struct All {
  float value;

  HWY_INLINE V operator()() const { return hn::Set(D(), value); }
};

// Accesses a vector in memory: Full accesses all lanes, the tail its first `count` lanes through a
// buffer. The arithmetic in between is the same, so results do not depend on where a run is cut.
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

// Number of memory streams that a core's prefetchers follow well at once, and elements of a block
// that stays in the nearest caches.
constexpr std::size_t kStreams = 8;
constexpr std::size_t kBlock = 4096;

// Calls take(sum of the sources, at, access) for each vector of a run.
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

// Like sum_vectors for more than kStreams sources: adds a few sources at a time, block by block, in
// the listed order, so the bits are the same.
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

// Calls update(averaged gradient, at, access) for each vector of a run.
template <class Take>
void for_each_vector(Gradients gradients, std::size_t count, float scale, const Take& update) {
  const V factor = hn::Set(D(), scale);
  const auto take = [&](V sum, std::size_t at, auto access)
                        HWY_ATTR { update(hn::Mul(sum, factor), at, access); };
  if (gradients.size() <= kStreams)
    sum_vectors(gradients, count, take);
  else
    sum_blocks(gradients, count, take);
}

// Like for_each_vector, with the parameters p, and wd * p added to the gradient; update() returns
// the new parameters.
template <class Take>
void for_each_parameter(const Arrays& arrays, Gradients gradients, std::size_t count,
                        const Constants& constants, const Take& update) {
  const V decay = hn::Set(D(), constants.weight_decay);
  for_each_vector(gradients, count, constants.scale,
                  [&](V g, std::size_t at, auto access) HWY_ATTR {
                    const V p = access.load(arrays.from + at);
                    const V decayed = hn::MulAdd(decay, p, g);
                    access.store(update(decayed, p, at, access), arrays.to + at);
                  });
}

void sum(float* to, Gradients gradients, std::size_t count, float scale) {
  for_each_vector(gradients, count, scale,
                  [=](V g, std::size_t at, auto access) HWY_ATTR { access.store(g, to + at); });
}

void sgd(const Arrays& arrays, Gradients gradients, std::size_t count, const Constants& constants) {
  const All rate{constants.rate};
  for_each_parameter(arrays, gradients, count, constants,
                     [=](V g, V p, std::size_t, auto)
                         HWY_ATTR { return hn::NegMulAdd(rate(), g, p); });
}

void momentum(const Arrays& arrays, Gradients gradients, std::size_t count,
              const Constants& constants) {
  const All rate{constants.rate};
  const All keep{constants.keep1};
  for_each_parameter(arrays, gradients, count, constants,
                     [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
                       const V moved = hn::MulAdd(keep(), access.load(arrays.first + at), g);
                       access.store(moved, arrays.first + at);
                       return hn::NegMulAdd(rate(), moved, p);
                     });
}

void nesterov(const Arrays& arrays, Gradients gradients, std::size_t count,
              const Constants& constants) {
  const All rate{constants.rate};
  const All keep{constants.keep1};
  for_each_parameter(arrays, gradients, count, constants,
                     [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
                       const V moved = hn::MulAdd(keep(), access.load(arrays.first + at), g);
                       access.store(moved, arrays.first + at);
                       return hn::NegMulAdd(rate(), hn::MulAdd(keep(), moved, g), p);
                     });
}

void adagrad(const Arrays& arrays, Gradients gradients, std::size_t count,
             const Constants& constants) {
  const All rate{constants.rate};
  const All epsilon{constants.epsilon};
  for_each_parameter(arrays, gradients, count, constants,
                     [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
                       const V squares = hn::MulAdd(g, g, access.load(arrays.first + at));
                       access.store(squares, arrays.first + at);
                       const V root = hn::Add(hn::Sqrt(squares), epsilon());
                       return hn::NegMulAdd(rate(), hn::Div(g, root), p);
                     });
}

void rmsprop(const Arrays& arrays, Gradients gradients, std::size_t count,
             const Constants& constants) {
  const All rate{constants.rate};
  const All keep{constants.keep2};
  const All take{1.0F - constants.keep2};
  const All epsilon{constants.epsilon};
  for_each_parameter(
      arrays, gradients, count, constants, [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
        const V squares =
            hn::MulAdd(keep(), access.load(arrays.first + at), hn::Mul(take(), hn::Mul(g, g)));
        access.store(squares, arrays.first + at);
        const V root = hn::Add(hn::Sqrt(squares), epsilon());
        return hn::NegMulAdd(rate(), hn::Div(g, root), p);
      });
}

// adamw is adam that shrinks the parameters first and adds nothing to the gradient.
void adam(const Arrays& arrays, Gradients gradients, std::size_t count,
          const Constants& constants) {
  const All keep1{constants.keep1};
  const All take1{1.0F - constants.keep1};
  const All keep2{constants.keep2};
  const All take2{1.0F - constants.keep2};
  const All rate{constants.rate};
  const All second_scale{constants.second_scale};
  const All epsilon{constants.epsilon};
  const All shrink{constants.shrink};
  for_each_parameter(
      arrays, gradients, count, constants, [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
        float* const m = arrays.first + at;
        float* const s = arrays.second + at;
        const V first = hn::MulAdd(keep1(), access.load(m), hn::Mul(take1(), g));
        const V second = hn::MulAdd(keep2(), access.load(s), hn::Mul(take2(), hn::Mul(g, g)));
        const V root = hn::Add(hn::Sqrt(hn::Mul(second_scale(), second)), epsilon());
        access.store(first, m);
        access.store(second, s);
        return hn::NegMulAdd(rate(), hn::Div(first, root), hn::Mul(shrink(), p));
      });
}

void ftrl(const Arrays& arrays, Gradients gradients, std::size_t count,
          const Constants& constants) {
  const All rate{constants.rate};
  const All beta{constants.beta};
  const All l1{constants.l1};
  const All l2{constants.l2};
  for_each_parameter(
      arrays, gradients, count, constants, [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
        const V before = access.load(arrays.second + at);
        const V squares = hn::MulAdd(g, g, before);
        const V root = hn::Sqrt(squares);
        const V sigma = hn::Div(hn::Sub(root, hn::Sqrt(before)), rate());
        const V z = hn::NegMulAdd(sigma, p, hn::Add(access.load(arrays.first + at), g));
        access.store(z, arrays.first + at);
        access.store(squares, arrays.second + at);
        const V strength = hn::Add(hn::Div(hn::Add(beta(), root), rate()), l2());
        const V moved = hn::Div(hn::Sub(hn::CopySign(l1(), z), z), strength);
        return hn::IfThenZeroElse(hn::Le(hn::Abs(z), l1()), moved);
      });
}

void lars(const Arrays& arrays, Gradients gradients, std::size_t count,
          const Constants& constants) {
  const All rate{constants.rate};
  const All keep{constants.keep1};
  for_each_parameter(arrays, gradients, count, constants,
                     [=](V g, V p, std::size_t at, auto access) HWY_ATTR {
                       const V before = access.load(arrays.first + at);
                       const V moved = hn::MulAdd(keep(), before, hn::Mul(rate(), g));
                       access.store(moved, arrays.first + at);
                       return hn::Sub(p, moved);
                     });
}

Update find(Optimizer::Kind kind) {
  using Kind = Optimizer::Kind;
  switch (kind) {
    case Kind::sgd:
      return &sgd;
    case Kind::momentum:
      return &momentum;
    case Kind::nesterov:
      return &nesterov;
    case Kind::adagrad:
      return &adagrad;
    case Kind::rmsprop:
      return &rmsprop;
    case Kind::adam:
    case Kind::adamw:
      return &adam;
    case Kind::ftrl:
      return &ftrl;
    case Kind::lars:
      return &lars;
    case Kind::user:
      return nullptr;
  }
  return nullptr;
}

}  // namespace
}  // namespace weft::pslib::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::pslib::kernels {

HWY_EXPORT(sum);
HWY_EXPORT(find);

void average(float* to, Gradients gradients, std::size_t count, float scale) noexcept {
  HWY_DYNAMIC_DISPATCH(sum)(to, gradients, count, scale);
}

Update update_for(Optimizer::Kind kind) noexcept { return HWY_DYNAMIC_DISPATCH(find)(kind); }

}  // namespace weft::pslib::kernels
#endif
