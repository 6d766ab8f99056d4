// Kernels for numbers beyond f32: elements that only move, integers whose sums wrap around, f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "runtime/dataflow/execute/tensor_memory.hpp"
#include "tests/unit/operators/compared.hpp"
#include "tests/unit/operators/one_node.hpp"

namespace weft::dataflow {
namespace {

constexpr std::array kAllDTypes{DType::f64, DType::f32, DType::f16, DType::bf16,   DType::i64,
                                DType::i32, DType::i8,  DType::u8,  DType::boolean};

std::vector<Tensor> run_node(const std::string& definition, const std::vector<Tensor>& inputs,
                             const Attributes& attributes = {}) {
  SCOPED_TRACE(definition);
  const OneNode one(definition, inputs, attributes);
  return outputs_of(one.kernel(operators()), one.node(), inputs);
}

/// Elements of any dtype, each with other bytes where there are enough; those of booleans are 0, 1.
Tensor told_apart(DType dtype, const Shape& shape, std::size_t first) {
  const Tensor tensor = plain_tensor(dtype, shape);
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < tensor.bytes(); ++i)
    tensor.data()[i] = std::byte(dtype == DType::boolean ? (first + i) % 3 == 0
                                                         : (first + i / size) * 7 + i % size);
  return tensor;
}

/// The same shapes, with the number of each element over all inputs.
std::vector<Tensor> numbered(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> numbers;
  std::int64_t next = 0;
  for (const Tensor& input : inputs) {
    numbers.push_back(plain_tensor(DType::i64, input.shape()));
    for (std::int64_t& one : numbers.back().as<std::int64_t>()) one = next++;
  }
  return numbers;
}

/// Expects that a node moves elements of each dtype as it moves numbers of i64. `rest`: inputs that
/// are no elements.
void expect_moved(const std::string& definition, const std::vector<Shape>& shapes,
                  const Attributes& attributes = {}, const std::vector<Tensor>& rest = {}) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(definition + " of " + std::string(name(dtype)));
    std::vector<Tensor> inputs;
    std::string elements;
    for (const Shape& shape : shapes) {
      inputs.push_back(told_apart(dtype, shape, elements.size()));
      elements.append(reinterpret_cast<const char*>(inputs.back().data()), inputs.back().bytes());
    }
    std::vector<Tensor> numbers = numbered(inputs);
    for (const Tensor& one : rest) {
      inputs.push_back(one);
      numbers.push_back(one);
    }
    const auto moved = run_node(definition, inputs, attributes);
    const auto places = run_node(definition, numbers, attributes);
    ASSERT_EQ(moved.size(), places.size());
    const std::size_t size = size_of(dtype);
    for (std::size_t k = 0; k < moved.size(); ++k) {
      ASSERT_EQ(moved[k].dtype(), dtype);
      ASSERT_EQ(moved[k].shape(), places[k].shape());
      const auto from = places[k].as<std::int64_t>();
      for (std::size_t i = 0; i < from.size(); ++i)
        ASSERT_EQ(std::memcmp(moved[k].data() + i * size,
                              elements.data() + std::size_t(from[i]) * size, size),
                  0)
            << "element " << i << " of output " << k;
    }
  }
}

template <typename T>
Tensor filled(const Shape& shape, const std::vector<T>& values) {
  const Tensor tensor = plain_tensor(dtype_of<T>(), shape);
  for (std::size_t i = 0; i < tensor.as<T>().size(); ++i) tensor.as<T>()[i] = values.at(i);
  return tensor;
}

TEST(OperatorDTypes, AreAllWhereElementsOnlyMove) {
  expect_moved("Transpose", {{2, 3, 4}}, {{"perm", Sizes{2, 0, 1}}});
  expect_moved("Concat", {{2, 3}, {2, 1}, {2, 2}}, {{"axis", 1}});
  expect_moved("Split", {{2, 6}}, {{"axis", 1}, {"split", Sizes{1, 3, 2}}});
  const std::vector<std::int32_t> rows{2, 0, -1, 2};
  expect_moved("Gather", {{3, 5}}, {}, {filled<std::int32_t>({4}, rows)});
  expect_moved("Gather", {{2, 3, 2}}, {{"axis", 1}},
               {filled<std::int64_t>({2, 2}, {rows.begin(), rows.end()})});
}

TEST(OperatorDTypes, AreAllForGradientsThatMoveElements) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(name(dtype));
    const Tensor gradient = told_apart(dtype, {2, 5}, 3);
    const Tensor a = told_apart(dtype, {2, 2}, 0);
    const Tensor b = told_apart(dtype, {2, 3}, 0);
    const auto parts = run_node("weft.ConcatGrad", {gradient, a, b}, {{"axis", 1}});
    const std::size_t size = size_of(dtype);
    ASSERT_EQ(parts.size(), 2U);
    for (std::size_t row = 0; row < 2; ++row) {
      EXPECT_EQ(
          std::memcmp(parts[0].data() + row * 2 * size, gradient.data() + row * 5 * size, 2 * size),
          0);
      EXPECT_EQ(std::memcmp(parts[1].data() + row * 3 * size,
                            gradient.data() + (row * 5 + 2) * size, 3 * size),
                0);
    }
    const Tensor zeros = run_node("weft.ZerosLike", {gradient})[0];
    const Tensor zero =
        run_node("weft.Fill", {}, {{"dtype", std::string(name(dtype))}, {"shape", Sizes{2, 5}}})[0];
    for (const Tensor& one : {zeros, zero}) {
      EXPECT_EQ(one.dtype(), dtype);
      EXPECT_TRUE(std::all_of(one.data(), one.data() + one.bytes(),
                              [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
}

template <typename T>
class OperatorNumbersOf : public testing::Test {};
using Numbers =
    testing::Types<double, float, std::int64_t, std::int32_t, std::int8_t, std::uint8_t>;
TYPED_TEST_SUITE(OperatorNumbersOf, Numbers);

/// The number of this value, which integers hold modulo 2^bits.
template <typename T>
T wrapped(std::int64_t value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
  else
    return static_cast<T>(value);
}

template <typename T>
std::vector<T> numbers_of(const Tensor& tensor) {
  const auto all = tensor.as<T>();
  return {all.begin(), all.end()};
}

template <typename T>
std::vector<T> list(const std::vector<std::int64_t>& values) {
  std::vector<T> all;
  for (const std::int64_t one : values) all.push_back(wrapped<T>(one));
  return all;
}

TYPED_TEST(OperatorNumbersOf, AreAddedAndMultipliedWithWrappingIntegers) {
  using T = TypeParam;
  // In 8 bits the sums and products wrap around.
  const Tensor a = filled<T>({2, 3}, list<T>({100, 20, 3, 4, 5, 60}));
  const Tensor b = filled<T>({3}, list<T>({100, 2, 30}));
  EXPECT_EQ(numbers_of<T>(run_node("Add", {a, b})[0]), list<T>({200, 22, 33, 104, 7, 90}));
  EXPECT_EQ(numbers_of<T>(run_node("Mul", {a, b})[0]), list<T>({10000, 40, 90, 400, 10, 1800}));
  EXPECT_EQ(numbers_of<T>(run_node("Sum", {a, b, a})[0]), list<T>({300, 42, 36, 108, 12, 150}));
  EXPECT_EQ(numbers_of<T>(run_node("weft.SumTo", {a, b})[0]), list<T>({104, 25, 63}));
}

TYPED_TEST(OperatorNumbersOf, AreReduced) {
  using T = TypeParam;
  const Tensor x = filled<T>({2, 3}, list<T>({100, 90, 80, 1, 2, 6}));
  for (const int keepdims : {0, 1}) {
    const Attributes rows{{"axes", Sizes{1}}, {"keepdims", keepdims}};
    const Attributes columns{{"axes", Sizes{0}}, {"keepdims", keepdims}};
    EXPECT_EQ(numbers_of<T>(run_node("ReduceSum", {x}, rows)[0]), list<T>({270, 9}));
    EXPECT_EQ(numbers_of<T>(run_node("ReduceSum", {x}, columns)[0]), list<T>({101, 92, 86}));
    EXPECT_EQ(numbers_of<T>(run_node("ReduceMax", {x}, rows)[0]), list<T>({100, 6}));
    EXPECT_EQ(numbers_of<T>(run_node("ReduceMax", {x}, columns)[0]), list<T>({100, 90, 80}));
    EXPECT_EQ(numbers_of<T>(run_node("ReduceMean", {x}, rows)[0])[1], T(3));
  }
}

TYPED_TEST(OperatorNumbersOf, AreSpreadByGradients) {
  using T = TypeParam;
  const Tensor x = filled<T>({2, 3}, list<T>({1, 2, 3, 4, 5, 6}));
  const Tensor g = filled<T>({2, 1}, list<T>({30, 60}));
  const Attributes rows{{"axes", Sizes{1}}};
  EXPECT_EQ(numbers_of<T>(run_node("weft.ReduceSumGrad", {g, x}, rows)[0]),
            list<T>({30, 30, 30, 60, 60, 60}));
  EXPECT_EQ(numbers_of<T>(run_node("weft.ReduceMeanGrad", {g, x}, rows)[0]),
            list<T>({10, 10, 10, 20, 20, 20}));
  const Tensor indices = filled<std::int32_t>({3}, {1, 0, 1});
  const Tensor taken = filled<T>({3, 2}, list<T>({1, 2, 3, 4, 100, 200}));
  EXPECT_EQ(numbers_of<T>(run_node("weft.GatherGrad",
                                   {taken, indices, filled<T>({2, 2}, list<T>({0, 0, 0, 0}))})[0]),
            list<T>({3, 4, 101, 202}));
}

/// More elements than the dtype counts: 256 of u8, 200 of i8.
TYPED_TEST(OperatorNumbersOf, HaveMeansOfMoreElementsThanTheyCount) {
  using T = TypeParam;
  for (const std::int64_t count : {200, 256, 300}) {
    const Tensor x = filled<T>({1, count}, std::vector<T>(std::size_t(count), T(0)));
    const Tensor g = filled<T>({1, 1}, {T(100)});
    const Attributes rows{{"axes", Sizes{1}}};
    EXPECT_EQ(numbers_of<T>(run_node("ReduceMean", {x}, rows)[0]), std::vector<T>{T(0)});
    const T each = std::is_integral_v<T> ? T(0) : T(T(100) / T(count));
    EXPECT_EQ(numbers_of<T>(run_node("weft.ReduceMeanGrad", {g, x}, rows)[0]),
              std::vector<T>(std::size_t(count), each))
        << count;
  }
}

TEST(OperatorNumbers, ThatAreNoneArePassedOverByMaxPoolAlone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = filled<float>({1, 1, 6}, {1, nan, -2, nan, 5, 4});
  const Attributes pairs{{"kernel_shape", Sizes{2}}, {"strides", Sizes{2}}};
  EXPECT_EQ(numbers_of<float>(run_node("MaxPool", {x}, pairs)[0]), (std::vector<float>{1, -2, 5}));
  const auto mean = numbers_of<float>(run_node("AveragePool", {x}, pairs)[0]);
  EXPECT_TRUE(std::isnan(mean[0]) && std::isnan(mean[1]));
  EXPECT_EQ(mean[2], 4.5F);
  for (const char* definition : {"Sigmoid", "Tanh", "Relu"}) {
    const auto told = numbers_of<float>(run_node(definition, {x})[0]);
    for (std::size_t i = 0; i < told.size(); ++i)
      EXPECT_EQ(std::isnan(told[i]), i == 1 || i == 3) << definition << " " << i;
  }
  const auto sum = numbers_of<float>(run_node("Add", {x, x})[0]);
  EXPECT_TRUE(std::isnan(sum[1]));
  EXPECT_TRUE(std::isnan(numbers_of<float>(run_node("ReduceSum", {x})[0])[0]));
}

}  // namespace
}  // namespace weft::dataflow
