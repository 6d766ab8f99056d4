// The bodies of the kernels that combine tensors of several ranks: compiled by nvcc for GPUs, and
// by the host's compiler for the tests' driver. They give the bits of the collectives on host
// memory (base/kernels), but for those of a NaN that sums and products make.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define WEFT_ON_BOTH __host__ __device__ __forceinline__
#else
#define WEFT_ON_BOTH inline
#endif

namespace weft::p2p::cuda::kernels {

/// Tensors that one launch combines at most.
constexpr unsigned kMostSources = 8;
/// Bytes of an access.
constexpr unsigned kPack = 16;

/// A launch: the same result to each target. Elements `head` up to the last whole pack of `packs`
/// lie in packs, at addresses that are multiples of 16; the others are taken one by one.
struct ReduceParameters {
  const unsigned char* sources[kMostSources];
  unsigned char* targets[kMostSources];
  std::uint32_t source_count;
  std::uint32_t target_count;
  std::uint64_t head;
  std::uint64_t packs;
  std::uint64_t count;  ///< all elements
  double scale;         ///< means of floats: for each element, before the sum
  double divisor;       ///< of that sum
  /// A word in host memory that the GPU reads: unless it is 0, the launch does nothing. Null: there
  /// is none.
  const std::uint32_t* ended;
};

/// A word that the processor or another GPU writes; what was written before it is seen too.
WEFT_ON_BOTH std::uint32_t load_word(const std::uint32_t* word) {
#if defined(__CUDA_ARCH__)
  std::uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

struct alignas(kPack) Pack {
  std::uint64_t words[2];
};

template <typename To, typename From>
WEFT_ON_BOTH To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <typename T>
constexpr Bits<T> kQuietNan = sizeof(T) == 8 ? static_cast<Bits<T>>(0x7ff8000000000000ULL)
                                             : static_cast<Bits<T>>(0x7fc00000U);

// Combinations of two numbers, in the type of the arithmetic.

struct Sum {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T> || sizeof(T) == 16)
      return a + b;
    else
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                            static_cast<std::make_unsigned_t<T>>(b));
  }
};
struct Prod {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      // At least unsigned: narrower types would be promoted to int, whose product may overflow.
      using U = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    }
  }
};
/// Of floats IEEE 754-2019's: NaN if either is, always the same one, and -0 below 0.
struct Min {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return same_bits<T>(kQuietNan<T>);
      if (a == b) return same_bits<T>(same_bits<Bits<T>>(a) | same_bits<Bits<T>>(b));
    }
    return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return same_bits<T>(kQuietNan<T>);
      if (a == b) return same_bits<T>(same_bits<Bits<T>>(a) & same_bits<Bits<T>>(b));
    }
    return a > b ? a : b;
  }
};
struct BitAnd {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <typename T>
  WEFT_ON_BOTH static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// Booleans: any byte but 0 is true; results are 0 or 1.
struct BothTrue {
  WEFT_ON_BOTH static std::uint8_t of(std::uint8_t a, std::uint8_t b) { return a != 0 && b != 0; }
};
struct EitherTrue {
  WEFT_ON_BOTH static std::uint8_t of(std::uint8_t a, std::uint8_t b) { return (a | b) != 0; }
};
struct OneTrue {
  WEFT_ON_BOTH static std::uint8_t of(std::uint8_t a, std::uint8_t b) {
    return (a != 0) != (b != 0);
  }
};

// Elements: as they are stored, and in the type of the arithmetic.

template <typename T>
struct Plain {
  using Stored = T;
  using Wide = T;
  WEFT_ON_BOTH static T load(T element, const ReduceParameters&) { return element; }
  WEFT_ON_BOTH static T store(T element, const ReduceParameters&) { return element; }
};

struct Brain16 {
  using Stored = std::uint16_t;
  using Wide = float;
  WEFT_ON_BOTH static float load(std::uint16_t element, const ReduceParameters&) {
    return same_bits<float>(static_cast<std::uint32_t>(element) << 16U);
  }
  WEFT_ON_BOTH static std::uint16_t store(float wide, const ReduceParameters&) {
    const auto bits = same_bits<std::uint32_t>(wide);
    const std::uint32_t rounded =
        wide != wide ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16U) & 1U);
    return static_cast<std::uint16_t>(rounded >> 16U);
  }
};

struct Half16 {
  using Stored = std::uint16_t;
  using Wide = float;
  WEFT_ON_BOTH static float load(std::uint16_t element, const ReduceParameters&) {
#if defined(__CUDA_ARCH__)
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(element));
    return wide;
#else
    const std::uint32_t sign = (element & 0x8000U) << 16U;
    const std::uint32_t size = element & 0x7fffU;
    if (size > 0x7c00U) return same_bits<float>(sign | 0x7fc00000U | (size & 0x3ffU) << 13U);
    if (size == 0x7c00U) return same_bits<float>(sign | 0x7f800000U);
    if (size >= 0x400U) return same_bits<float>(sign | ((size << 13U) + 0x38000000U));
    constexpr float kSmallest = 1.0F / 16777216.0F;  // 2^-24
    const float tiny = static_cast<float>(size) * kSmallest;
    return same_bits<float>(sign | same_bits<std::uint32_t>(tiny));
#endif
  }
  WEFT_ON_BOTH static std::uint16_t store(float wide, const ReduceParameters&) {
    const auto bits = same_bits<std::uint32_t>(wide);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t size = bits & 0x7fffffffU;
    if (size > 0x7f800000U)
      return static_cast<std::uint16_t>(sign | 0x7e00U | ((size >> 13U) & 0x3ffU));
#if defined(__CUDA_ARCH__)
    std::uint16_t narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(wide));
    return narrow;
#else
    if (size >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (size < 0x38800000U) {
      // The sum's last bit is the smallest of such numbers, so that the sum rounds to one.
      const float sum = same_bits<float>(size) + 0.5F;
      return static_cast<std::uint16_t>(sign | (same_bits<std::uint32_t>(sum) - 0x3f000000U));
    }
    const std::uint32_t odd = (size >> 13U) & 1U;
    return static_cast<std::uint16_t>(sign | ((size - 0x38000000U + 0xfffU + odd) >> 13U));
#endif
  }
};

/// Means of floats: as Mean of base/kernels.
template <class Base>
struct MeanOf {
  using Stored = typename Base::Stored;
  using Wide = typename Base::Wide;
  WEFT_ON_BOTH static Wide load(Stored element, const ReduceParameters& launch) {
    return Base::load(element, launch) * static_cast<Wide>(launch.scale);
  }
  WEFT_ON_BOTH static Stored store(Wide sum, const ReduceParameters& launch) {
    using B = Bits<Wide>;
    constexpr B kSign = static_cast<B>(1) << (sizeof(Wide) * 8 - 1);
    constexpr B kInfinity =
        sizeof(Wide) == 8 ? static_cast<B>(0x7ff0000000000000ULL) : static_cast<B>(0x7f800000U);
    Wide mean = sum / static_cast<Wide>(launch.divisor);
    const B size = same_bits<B>(mean) & static_cast<B>(~kSign);
    // The mean of finite numbers is finite.
    if (size == kInfinity && (same_bits<B>(sum) & static_cast<B>(~kSign)) < kInfinity)
      mean = same_bits<Wide>((kInfinity - 1) | (same_bits<B>(sum) & kSign));
    return Base::store(mean, launch);
  }
};

__extension__ using Int128 = __int128;

/// Means of integers, rounded towards zero, by a type that holds every sum.
template <typename T>
struct MeanOfIntegers {
  using Stored = T;
  using Wide = std::conditional_t<sizeof(T) == 8, Int128,
                                  std::conditional_t<sizeof(T) == 4, std::int64_t, std::int32_t>>;
  WEFT_ON_BOTH static Wide load(T element, const ReduceParameters&) { return element; }
  WEFT_ON_BOTH static T store(Wide sum, const ReduceParameters& launch) {
    return static_cast<T>(sum / static_cast<Wide>(launch.source_count));
  }
};

template <typename Wide, unsigned Count>
struct Lanes {
  Wide lane[Count];
};

/// Sources `first` and on, `Span` (a power of two) at most, as the tree of the collectives on host
/// memory: a whole left half with what is there of the right one.
template <class Type, class Op, unsigned First, unsigned Span, unsigned Count>
WEFT_ON_BOTH Lanes<typename Type::Wide, Count> combined(const ReduceParameters& launch,
                                                        std::uint64_t element) {
  using Stored = typename Type::Stored;
  using Wide = typename Type::Wide;
  if constexpr (Span == 1) {
    Stored stored[Count];
    const unsigned char* const at = launch.sources[First] + element * sizeof(Stored);
    if constexpr (Count > 1) {
      const Pack pack = *reinterpret_cast<const Pack*>(at);
      std::memcpy(stored, &pack, sizeof pack);
    } else {
      std::memcpy(stored, at, sizeof(Stored));
    }
    Lanes<Wide, Count> loaded;
    for (unsigned i = 0; i < Count; ++i) loaded.lane[i] = Type::load(stored[i], launch);
    return loaded;
  } else {
    constexpr unsigned kHalf = Span / 2;
    auto left = combined<Type, Op, First, kHalf, Count>(launch, element);
    if (First + kHalf < launch.source_count) {
      const auto right = combined<Type, Op, First + kHalf, kHalf, Count>(launch, element);
      for (unsigned i = 0; i < Count; ++i) left.lane[i] = Op::of(left.lane[i], right.lane[i]);
    }
    return left;
  }
}

template <class Type, class Op, unsigned Count>
WEFT_ON_BOTH void reduce_at(const ReduceParameters& launch, std::uint64_t element) {
  using Stored = typename Type::Stored;
  const auto result = combined<Type, Op, 0, kMostSources, Count>(launch, element);
  Stored stored[Count];
  for (unsigned i = 0; i < Count; ++i) stored[i] = Type::store(result.lane[i], launch);
  if constexpr (Count > 1) {
    Pack pack;
    std::memcpy(&pack, stored, sizeof pack);
    for (std::uint32_t t = 0; t < launch.target_count; ++t)
      *reinterpret_cast<Pack*>(launch.targets[t] + element * sizeof(Stored)) = pack;
  } else {
    for (std::uint32_t t = 0; t < launch.target_count; ++t)
      std::memcpy(launch.targets[t] + element * sizeof(Stored), stored, sizeof(Stored));
  }
}

/// The share of one of `threads`. An element that is a target's and a source's is read and written
/// by one thread.
template <class Type, class Op>
WEFT_ON_BOTH void reduce(const ReduceParameters& launch, std::uint64_t thread,
                         std::uint64_t threads) {
  if (launch.ended != nullptr && load_word(launch.ended) != 0) return;
  constexpr unsigned kLanes = kPack / sizeof(typename Type::Stored);
  for (std::uint64_t pack = thread; pack < launch.packs; pack += threads)
    reduce_at<Type, Op, kLanes>(launch, launch.head + pack * kLanes);
  const std::uint64_t in_packs = launch.packs * kLanes;
  for (std::uint64_t one = thread; one < launch.count - in_packs; one += threads)
    reduce_at<Type, Op, 1>(launch, one < launch.head ? one : one + in_packs);
}

/// All of them: KERNEL(dtype, reduction, elements, what combines them).
#define WEFT_REDUCE_KERNELS_OF_FLOATS(KERNEL, dtype, Type) \
  KERNEL(dtype, sum, Type, Sum)                            \
  KERNEL(dtype, prod, Type, Prod)                          \
  KERNEL(dtype, min, Type, Min)                            \
  KERNEL(dtype, max, Type, Max)                            \
  KERNEL(dtype, avg, MeanOf<Type>, Sum)
#define WEFT_REDUCE_KERNELS_OF_INTEGERS(KERNEL, dtype, T) \
  KERNEL(dtype, sum, Plain<T>, Sum)                       \
  KERNEL(dtype, prod, Plain<T>, Prod)                     \
  KERNEL(dtype, min, Plain<T>, Min)                       \
  KERNEL(dtype, max, Plain<T>, Max)                       \
  KERNEL(dtype, avg, MeanOfIntegers<T>, Sum)              \
  KERNEL(dtype, bit_and, Plain<T>, BitAnd)                \
  KERNEL(dtype, bit_or, Plain<T>, BitOr)                  \
  KERNEL(dtype, bit_xor, Plain<T>, BitXor)
#define WEFT_REDUCE_KERNELS(KERNEL)                          \
  WEFT_REDUCE_KERNELS_OF_FLOATS(KERNEL, f64, Plain<double>)  \
  WEFT_REDUCE_KERNELS_OF_FLOATS(KERNEL, f32, Plain<float>)   \
  WEFT_REDUCE_KERNELS_OF_FLOATS(KERNEL, f16, Half16)         \
  WEFT_REDUCE_KERNELS_OF_FLOATS(KERNEL, bf16, Brain16)       \
  WEFT_REDUCE_KERNELS_OF_INTEGERS(KERNEL, i64, std::int64_t) \
  WEFT_REDUCE_KERNELS_OF_INTEGERS(KERNEL, i32, std::int32_t) \
  WEFT_REDUCE_KERNELS_OF_INTEGERS(KERNEL, i8, std::int8_t)   \
  WEFT_REDUCE_KERNELS_OF_INTEGERS(KERNEL, u8, std::uint8_t)  \
  KERNEL(boolean, prod, Plain<std::uint8_t>, BothTrue)       \
  KERNEL(boolean, min, Plain<std::uint8_t>, BothTrue)        \
  KERNEL(boolean, max, Plain<std::uint8_t>, EitherTrue)      \
  KERNEL(boolean, bit_and, Plain<std::uint8_t>, BothTrue)    \
  KERNEL(boolean, bit_or, Plain<std::uint8_t>, EitherTrue)   \
  KERNEL(boolean, bit_xor, Plain<std::uint8_t>, OneTrue)

}  // namespace weft::p2p::cuda::kernels
