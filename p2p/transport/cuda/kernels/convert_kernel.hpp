// The bodies of the kernels that bring elements into the type of the arithmetic and back, where
// they are combined in several places, pair by pair. They give the bits of the collectives on host
// memory, as those of reduce_kernel.hpp.
#pragma once

#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"

namespace weft::p2p::cuda::kernels {

/// `count` elements of the first source to the first target, in the type of the arithmetic.
template <class Type>
WEFT_ON_BOTH void widen(const ReduceParameters& launch, std::uint64_t thread,
                        std::uint64_t threads) {
  using Stored = typename Type::Stored;
  using Wide = typename Type::Wide;
  for (std::uint64_t one = thread; one < launch.count; one += threads) {
    Stored stored;
    std::memcpy(&stored, launch.sources[0] + one * sizeof stored, sizeof stored);
    const Wide wide = Type::load(stored, launch);
    std::memcpy(launch.targets[0] + one * sizeof wide, &wide, sizeof wide);
  }
}

/// The way back: averages and rounds. `source_count`: the elements that each of the sums combines.
template <class Type>
WEFT_ON_BOTH void finish(const ReduceParameters& launch, std::uint64_t thread,
                         std::uint64_t threads) {
  using Stored = typename Type::Stored;
  using Wide = typename Type::Wide;
  for (std::uint64_t one = thread; one < launch.count; one += threads) {
    Wide wide;
    std::memcpy(&wide, launch.sources[0] + one * sizeof wide, sizeof wide);
    const Stored stored = Type::store(wide, launch);
    std::memcpy(launch.targets[0] + one * sizeof stored, &stored, sizeof stored);
  }
}

/// All types that have another one for the arithmetic: KERNEL(dtype, mean or number, elements).
#define WEFT_CONVERT_KERNELS(KERNEL)              \
  KERNEL(f16, number, Half16)                     \
  KERNEL(bf16, number, Brain16)                   \
  KERNEL(f64, mean, MeanOf<Plain<double>>)        \
  KERNEL(f32, mean, MeanOf<Plain<float>>)         \
  KERNEL(f16, mean, MeanOf<Half16>)               \
  KERNEL(bf16, mean, MeanOf<Brain16>)             \
  KERNEL(i64, mean, MeanOfIntegers<std::int64_t>) \
  KERNEL(i32, mean, MeanOfIntegers<std::int32_t>) \
  KERNEL(i8, mean, MeanOfIntegers<std::int8_t>)   \
  KERNEL(u8, mean, MeanOfIntegers<std::uint8_t>)

/// Sums of i64's means.
#define WEFT_REDUCE_KERNELS_OF_SUMS(KERNEL) KERNEL(i128, sum, Plain<Int128>, Sum)

}  // namespace weft::p2p::cuda::kernels
