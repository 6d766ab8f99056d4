#include "weft/tensor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/kernels/combine.hpp"
#include "base/tensor_checks.hpp"
#include "tests/support/errors.hpp"
#include "weft/error.hpp"
#include "weft/report.hpp"

namespace weft {
namespace {

/// Memory that records when it is released.
class CountedStorage final : public Storage {
 public:
  CountedStorage(std::vector<std::byte>& memory, int& alive, const void* arena)
      : Storage(memory.data(), memory.size(), arena), alive_(alive) {
    ++alive_;
  }
  ~CountedStorage() override { --alive_; }

 private:
  int& alive_;
};

using weft::tests::contains;

std::string refusal(const std::function<void()>& call) {
  return weft::tests::refusal_of(Code::bad_argument, [&] { call(); });
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({2, 3}).elements(), 6);
  EXPECT_EQ(Shape({4, 0, 5}).elements(), 0);
  EXPECT_EQ(Shape({2, 3}).dims(), 2U);
  EXPECT_EQ(Shape({2, 3})[1], 3);
  EXPECT_EQ(Shape({1, 1, 1, 1, 1, 1, 1, 9}).elements(), 9);
}

TEST(Shape, IsPrintedAsItIsWritten) {
  EXPECT_EQ(Shape().text(), "[]");
  EXPECT_EQ(Shape({7}).text(), "[7]");
  EXPECT_EQ(Shape({2, 3}).text(), "[2, 3]");
}

TEST(Shape, IsEqualOnlyDimensionByDimension) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({6}), Shape({6, 1}));
  EXPECT_NE(Shape({0, 2}), Shape({0, 3}));
}

TEST(Float16, IsTheFloatOfItsBits) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    for (const DType dtype : {DType::f16, DType::bf16}) {
      float expected = 0;
      kernels::widen(&expected, reinterpret_cast<const std::byte*>(&half), dtype, 1);
      const bool is_f16 = dtype == DType::f16;
      const float value = is_f16 ? float(f16::from_bits(half)) : float(bf16::from_bits(half));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << name(dtype) << " " << bits;
        EXPECT_TRUE(std::isnan(is_f16 ? float(f16(value)) : float(bf16(value)))) << bits;
        continue;
      }
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected))
          << name(dtype) << " " << bits;
      EXPECT_EQ(is_f16 ? f16(value).bits() : bf16(value).bits(), half) << name(dtype);
    }
  }
}

TEST(Float16, IsRoundedToTheNearestTiesToEven) {
  std::mt19937 random(7);
  for (int n = 0; n < 2'000'000; ++n) {
    // Every exponent, and every other time a value near to halfway between two of the type.
    std::uint32_t bits = random();
    if (n % 2 == 0)
      bits = (bits & 0xffff'e000U) | (0x1000U + static_cast<std::uint32_t>(n / 2 % 3) - 1);
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    for (const DType dtype : {DType::f16, DType::bf16}) {
      std::uint16_t expected = 0;
      kernels::narrow(reinterpret_cast<std::byte*>(&expected), dtype, &value, 1);
      ASSERT_EQ(dtype == DType::f16 ? f16(value).bits() : bf16(value).bits(), expected)
          << name(dtype) << " of " << value;
    }
  }
  static_assert(f16(1.0F).bits() == 0x3c00 && f16(65520.0F).bits() == 0x7c00);
  static_assert(f16(-0x1p-24F).bits() == 0x8001 && f16(0x1p-25F).bits() == 0);
  static_assert(float(f16(0.1F)) == 0x1.998p-4F && bf16(1.0F).bits() == 0x3f80);
}

TEST(Tensor, HasSixteenBitFloatsAsElements) {
  std::array<std::uint16_t, 3> memory{0x3c00, 0x4000, 0xc200};
  const Tensor halves = Tensor::wrap(memory.data(), DType::f16, {3});
  float sum = 0;
  for (const f16 half : halves.as<f16>()) sum += half;
  EXPECT_EQ(sum, 0.0F);  // 1 + 2 - 3
  halves.as<f16>()[0] = f16(0.5F);
  EXPECT_EQ(memory[0], 0x3800);
  EXPECT_NE(refusal([&] { (void)halves.as<bf16>(); }).find("bf16"), std::string::npos);
  EXPECT_EQ(dtype_of<bf16>(), DType::bf16);
}

TEST(Tensor, IsReshapedOverTheSameMemory) {
  std::array<float, 6> memory{0, 1, 2, 3, 4, 5};
  const Tensor matrix = Tensor::wrap(memory.data(), DType::f32, {2, 3});
  const Tensor column = matrix.reshape({6, 1});
  EXPECT_EQ(column.text(), "f32[6, 1]");
  EXPECT_EQ(column.data(), matrix.data());
  EXPECT_EQ(column.as<float>()[5], 5.0F);
  EXPECT_TRUE(contains(refusal([&] { (void)matrix.reshape({5}); }), "6 elements"));
  EXPECT_TRUE(contains(refusal([&] { (void)matrix.slice(1, 0, 2).reshape({4}); }), "dense"));
  const Tensor on_gpu = Tensor::wrap(memory.data(), DType::f32, {6}, Memory::gpu(1));
  EXPECT_EQ(on_gpu.reshape({3, 2}).memory(), Memory::gpu(1));
  EXPECT_EQ(Tensor::wrap(memory.data(), DType::f32, {0, 3}).reshape({0}).bytes(), 0U);
}

TEST(Tensor, RefusesStridesThatLeadBeyondAllMemory) {
  float element = 0;
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;
  const auto wrapped = [&](const Shape& shape, const std::vector<std::int64_t>& strides) {
    return refusal([&] { (void)Tensor::wrap(&element, DType::f32, shape, strides); });
  };
  EXPECT_TRUE(contains(wrapped({2, 3}, {kHuge, kHuge}), "memory"));
  EXPECT_TRUE(contains(wrapped({4}, {kHuge}), "memory"));
  EXPECT_EQ(wrapped({1, 1}, {kHuge, kHuge}), "(accepted)") << "no element lies there";
  EXPECT_EQ(wrapped({0, 3}, {kHuge, kHuge}), "(accepted)");
}

TEST(Shape, RefusesWhatNoTensorCanHave) {
  EXPECT_EQ(refusal([] {
              Shape({1, 1, 1, 1, 1, 1, 1, 1, 1});
            }),
            "shape: bad_argument: it has 9 dimensions; at most 8 are accepted");
  EXPECT_EQ(refusal([] {
              Shape({2, -3});
            }),
            "shape: bad_argument: [2, -3] has a negative dimension; give sizes from 0 on");
  EXPECT_NE(refusal([] { Shape({std::int64_t{1} << 31, std::int64_t{1} << 31}); }), "(accepted)");
  EXPECT_NE(refusal([] { Shape({Shape::kMaxElements + 1}); }), "(accepted)");
  EXPECT_EQ(Shape({Shape::kMaxElements}).elements(), Shape::kMaxElements);
}

TEST(Shape, RefusesAnOverflowThatAZeroWouldHide) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(refusal([] { Shape({0, kHuge, 2}); }), "(accepted)");
  EXPECT_NE(refusal([] { Shape({kHuge, 2, 0}); }), "(accepted)");
}

TEST(DType, SizesAndNamesAreThoseOfTheElements) {
  EXPECT_EQ(size_of(dtype_of<double>()), sizeof(double));
  EXPECT_EQ(size_of(dtype_of<float>()), sizeof(float));
  EXPECT_EQ(size_of(dtype_of<std::int64_t>()), sizeof(std::int64_t));
  EXPECT_EQ(size_of(dtype_of<std::int32_t>()), sizeof(std::int32_t));
  EXPECT_EQ(size_of(dtype_of<std::int8_t>()), sizeof(std::int8_t));
  EXPECT_EQ(size_of(dtype_of<std::uint8_t>()), sizeof(std::uint8_t));
  EXPECT_EQ(size_of(dtype_of<bool>()), sizeof(bool));
  EXPECT_EQ(size_of(DType::f16), 2U);
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(name(DType::bf16), "bf16");
  EXPECT_EQ(name(DType::boolean), "bool");
}

TEST(Tensor, IsEmptyUntilItHasMemory) {
  const Tensor tensor;
  EXPECT_TRUE(tensor.empty());
  EXPECT_EQ(tensor.bytes(), 0U);
  EXPECT_EQ(tensor.arena(), nullptr);
  EXPECT_NE(refusal([&] { static_cast<void>(tensor.part(0, {})); }), "(accepted)");
}

TEST(Tensor, HasNoMemoryOnceItWasMovedFrom) {
  std::vector<std::byte> memory(64);
  int alive = 0;
  Tensor first(std::make_shared<CountedStorage>(memory, alive, nullptr), 16, DType::f64, {6});
  Tensor second = std::move(first);
  const auto expect_bare = [](const Tensor& tensor) {
    EXPECT_TRUE(tensor.empty());
    EXPECT_EQ(tensor.bytes(), 0U);
    EXPECT_TRUE(lacks_host_memory(tensor));
  };
  expect_bare(first);  // NOLINT(bugprone-use-after-move): what it is then
  EXPECT_EQ(second.data(), memory.data() + 16);
  first = std::move(second);
  expect_bare(second);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.bytes(), 48U);
  EXPECT_EQ(alive, 1);
  Tensor& same = first;
  first = std::move(same);
  EXPECT_EQ(first.data(), memory.data() + 16) << "moved to itself";
  first = {};
  EXPECT_EQ(alive, 0);
}

TEST(Tensor, LacksHostMemoryOnlyIfItHasElementsOrIsOnAGpu) {
  std::vector<float> values(6);
  EXPECT_TRUE(lacks_host_memory(Tensor()));
  EXPECT_TRUE(lacks_host_memory(Tensor::wrap(nullptr, DType::f32, {2, 3})));
  EXPECT_TRUE(lacks_host_memory(Tensor::wrap(nullptr, DType::f32, {2, 3}).slice(1, 0, 2)));
  EXPECT_TRUE(lacks_host_memory(Tensor::wrap(values.data(), static_cast<DType>(99), {6})));
  EXPECT_FALSE(lacks_host_memory(Tensor::wrap(values.data(), DType::f32, {6})));
  EXPECT_FALSE(lacks_host_memory(Tensor::wrap(nullptr, DType::f32, {2, 0})));
  EXPECT_TRUE(lacks_host_memory(Tensor::wrap(values.data(), DType::f32, {6}, Memory::gpu(0))));
  EXPECT_FALSE(lacks_host_memory(Tensor::wrap(values.data(), DType::f32, {6}, Memory::host())));
}

TEST(Tensor, RefusesAnElementTypeThatDoesNotExist) {
  std::vector<std::byte> memory(64);
  int alive = 0;
  constexpr auto kNone = static_cast<DType>(99);
  EXPECT_NE(refusal([&] {
              const Tensor tensor(std::make_shared<CountedStorage>(memory, alive, nullptr), 0,
                                  kNone, {6});
            }).find("99"),
            std::string::npos);
  EXPECT_NE(refusal([&] { (void)Tensor::wrap(memory.data(), kNone, {6}).part(0, {1}); }),
            "(accepted)");
}

TEST(Tensor, WrapsMemoryThatItDoesNotOwn) {
  std::vector<float> values(6);
  const auto tensor = Tensor::wrap(values.data(), DType::f32, {2, 3});
  EXPECT_EQ(tensor.text(), "f32[2, 3]");
  EXPECT_EQ(tensor.bytes(), 24U);
  EXPECT_EQ(tensor.storage(), nullptr);
  EXPECT_EQ(tensor.arena(), nullptr);
  tensor.as<float>()[5] = 1.5F;
  EXPECT_EQ(values[5], 1.5F);
}

TEST(Tensor, KeepsItsStorageUntilTheLastHandleGoes) {
  std::vector<std::byte> memory(64);
  int alive = 0;
  const int arena = 0;
  Tensor part;
  {
    const Tensor whole(std::make_shared<CountedStorage>(memory, alive, &arena), 16, DType::f64,
                       {6});
    EXPECT_EQ(whole.data(), memory.data() + 16);
    EXPECT_EQ(whole.arena(), &arena);
    part = whole.part(4, {2});
  }
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(part.data(), memory.data() + 48);
  EXPECT_EQ(part.bytes(), 16U);
  part = {};
  EXPECT_EQ(alive, 0);
}

TEST(Tensor, RefusesStorageThatIsTooSmall) {
  std::vector<std::byte> memory(64);
  int alive = 0;
  const auto storage = std::make_shared<CountedStorage>(memory, alive, nullptr);
  EXPECT_NO_THROW(Tensor(storage, 0, DType::f64, {8}));
  EXPECT_EQ(refusal([&] { Tensor(storage, 8, DType::f64, {8}); }),
            "tensor: bad_argument: f64[8] at byte 8 needs 64 bytes, and its storage holds 64 in "
            "all; give storage that is large enough");
  EXPECT_NE(refusal([&] { Tensor(storage, 65, DType::u8, {0}); }), "(accepted)");
  EXPECT_NE(refusal([&] { Tensor(nullptr, 0, DType::u8, {1}); }), "(accepted)");
}

TEST(Tensor, GivesItsElementsOnlyAsWhatTheyAre) {
  std::vector<std::int32_t> values(4);
  const auto tensor = Tensor::wrap(values.data(), DType::i32, {4});
  EXPECT_EQ(tensor.as<std::int32_t>().size(), 4U);
  EXPECT_EQ(tensor.as<std::uint8_t>().size(), 16U);
  EXPECT_EQ(refusal([&] { static_cast<void>(tensor.as<float>()); }),
            "as: bad_argument: i32[4] holds no f32 elements; read it as its own element type, or "
            "as u8 for its bytes");
}

TEST(Tensor, GivesPartsThatLieWithinIt) {
  std::vector<float> values(12);
  const auto tensor = Tensor::wrap(values.data(), DType::f32, {3, 4});
  const auto row = tensor.part(4, {4});
  row.as<float>()[0] = 2;
  EXPECT_EQ(values[4], 2);
  EXPECT_EQ(tensor.part(0, {2, 6}).bytes(), tensor.bytes());
  EXPECT_EQ(tensor.part(12, {0}).bytes(), 0U);

  for (const auto first : {std::int64_t{-1}, std::int64_t{9}, std::int64_t{13},
                           std::numeric_limits<std::int64_t>::max()})
    EXPECT_NE(refusal([&] { static_cast<void>(tensor.part(first, {4})); }), "(accepted)") << first;
}

TEST(TransferCounters, AddAndSubtractEveryField) {
  const TransferCounters ones{1, 2, 3, 4, 5, 6, 7};
  TransferCounters sum = ones;
  sum += ones;
  const auto back = sum - ones;
  EXPECT_EQ(sum.transfers, 2U);
  EXPECT_EQ(sum.bytes_moved, 4U);
  EXPECT_EQ(sum.bytes_copied, 6U);
  EXPECT_EQ(sum.work_requests, 8U);
  EXPECT_EQ(sum.credit_writes, 10U);
  EXPECT_EQ(sum.control_messages, 12U);
  EXPECT_EQ(sum.registrations, 14U);
  EXPECT_EQ(back.transfers, 1U);
  EXPECT_EQ(back.bytes_moved, 2U);
  EXPECT_EQ(back.bytes_copied, 3U);
  EXPECT_EQ(back.work_requests, 4U);
  EXPECT_EQ(back.credit_writes, 5U);
  EXPECT_EQ(back.control_messages, 6U);
  EXPECT_EQ(back.registrations, 7U);
}

std::vector<int> elements(const Tensor& tensor) {
  std::vector<int> found;
  for_each_run(tensor, [&](const std::byte* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 4) {
      std::int32_t value = 0;
      std::memcpy(&value, data + i, sizeof value);
      found.push_back(value);
    }
  });
  return found;
}

TEST(TensorSlice, NamesTheElementsOfItsIndicesInOrder) {
  std::vector<std::int32_t> memory(24);
  std::iota(memory.begin(), memory.end(), 0);
  const auto tensor = Tensor::wrap(memory.data(), DType::i32, {2, 3, 4});
  const auto rows = tensor.slice(0, 1, 1);
  EXPECT_TRUE(rows.dense());
  EXPECT_EQ(elements(rows), (std::vector<int>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));
  const auto middle = tensor.slice(1, 1, 2);
  EXPECT_FALSE(middle.dense());
  EXPECT_EQ(middle.bytes(), 64U);
  EXPECT_EQ(middle.extent(), 80U);
  EXPECT_EQ(elements(middle),
            (std::vector<int>{4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}));
  const auto column = middle.slice(2, 3, 1);
  EXPECT_EQ(elements(column), (std::vector<int>{7, 11, 19, 23}));
  EXPECT_TRUE(elements(tensor.slice(2, 4, 0)).empty());
  EXPECT_TRUE(tensor.slice(2, 0, 4).dense());
}

TEST(TensorSlice, RefusesIndicesThatTheTensorDoesNotHave) {
  std::vector<std::int32_t> memory(24);
  const auto tensor = Tensor::wrap(memory.data(), DType::i32, {2, 3, 4});
  EXPECT_NE(refusal([&] { tensor.slice(3, 0, 1); }), "(accepted)");
  EXPECT_NE(refusal([&] { tensor.slice(1, 2, 2); }), "(accepted)");
  EXPECT_NE(refusal([&] { tensor.slice(1, -1, 2); }), "(accepted)");
  EXPECT_NE(refusal([&] { tensor.slice(2, 1, 2).part(0, {2}); }), "(accepted)");
  EXPECT_NE(refusal([&] { tensor.slice(2, 1, 2).as<std::int32_t>(); }), "(accepted)");
}

TEST(TensorWrap, TakesStridesOneForEachDimension) {
  std::vector<std::int32_t> memory(12);
  std::iota(memory.begin(), memory.end(), 0);
  const std::array<std::int64_t, 2> transposed = {1, 4};
  const auto tensor = Tensor::wrap(memory.data(), DType::i32, {4, 3}, transposed);
  EXPECT_FALSE(tensor.dense());
  EXPECT_EQ(elements(tensor), (std::vector<int>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  const std::array<std::int64_t, 2> negative = {-1, 4};
  EXPECT_NE(refusal([&] {
              Tensor::wrap(memory.data(), DType::i32, {4, 3}, negative);
            }),
            "(accepted)");
  EXPECT_NE(refusal([&] {
              Tensor::wrap(memory.data(), DType::i32, {4, 3, 1}, transposed);
            }),
            "(accepted)");
}

}  // namespace
}  // namespace weft
