// Shapes and dtypes beyond the reference's, and those that are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "runtime/dataflow/execute/tensor_memory.hpp"
#include "tests/support/errors.hpp"
#include "tests/unit/operators/compared.hpp"
#include "tests/unit/operators/one_node.hpp"

namespace weft::dataflow {
namespace {

using tests::tells;
using tests::thrown_by;

template <typename T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& values) {
  Tensor tensor = plain_tensor(dtype_of<T>(), shape);
  std::copy(values.begin(), values.end(), tensor.as<T>().begin());
  return tensor;
}

std::vector<Tensor> results(const std::string& definition, const std::vector<Tensor>& inputs,
                            const Attributes& attributes = {}) {
  const OneNode one(definition, inputs, attributes);
  return outputs_of(one.kernel(operators()), one.node(), inputs);
}

ErrorDetail refusal(const std::string& definition, const std::vector<Tensor>& inputs,
                    const Attributes& attributes = {}) {
  return thrown_by([&] { results(definition, inputs, attributes); });
}

template <typename T>
std::vector<T> elements(const Tensor& tensor) {
  const auto all = tensor.as<T>();
  return {all.begin(), all.end()};
}

/// The sizes with ones after batch and channels, so that there are three windowed dimensions.
Shape widened(const Shape& shape, std::size_t spatial_dims) {
  Sizes sizes{shape[0], shape[1]};
  sizes.resize(2 + spatial_dims - (shape.dims() - 2), 1);
  for (std::size_t d = 2; d < shape.dims(); ++d) sizes.push_back(shape[d]);
  return Shape(sizes);
}

TEST(OperatorShapes, MayHaveWindowsOfOneOrThreeDimensions) {
  std::mt19937_64 random(1);
  const Tensor x = random_tensor({2, 3, 9}, random);
  const Tensor w = random_tensor({4, 3, 3}, random);
  const auto as = [](const Tensor& tensor, std::size_t dims) {
    return tensor.part(0, widened(tensor.shape(), dims));
  };
  for (const std::size_t dims : {std::size_t{2}, std::size_t{3}}) {
    const Sizes ones(dims - 1, 1);
    Sizes strides = ones;
    strides.push_back(2);
    const auto narrow = results("Conv", {x, w}, {{"strides", Sizes{2}}})[0];
    const auto wide = results("Conv", {as(x, dims), as(w, dims)}, {{"strides", strides}})[0];
    ASSERT_EQ(wide.shape(), widened(narrow.shape(), dims));
    for (std::size_t i = 0; i < narrow.as<float>().size(); ++i)
      EXPECT_NEAR(wide.as<float>()[i], narrow.as<float>()[i], 1e-5);
    Sizes kernel = ones;
    kernel.push_back(3);
    for (const char* const pool : {"MaxPool", "AveragePool"})
      EXPECT_EQ(elements<float>(results(pool, {as(x, dims)}, {{"kernel_shape", kernel}})[0]),
                elements<float>(results(pool, {x}, {{"kernel_shape", Sizes{3}}})[0]));
  }
}

TEST(OperatorShapes, AreRefusedByTheNodesName) {
  std::mt19937_64 random(1);
  const Tensor x = random_tensor({1, 1, 2, 2, 2, 2}, random);
  EXPECT_TRUE(tells(refusal("Conv", {x, x}), Code::bad_argument,
                    {"node 'node' (Conv)", "f32[1, 1, 2, 2, 2, 2]", "1 to 3 dimensions"}));
  // The windows begin at 0, 3 and 6.
  EXPECT_TRUE(tells(refusal("MaxPool", {random_tensor({1, 1, 5}, random)},
                            {{"kernel_shape", Sizes{1}}, {"strides", Sizes{3}}, {"ceil_mode", 1}}),
                    Code::bad_argument, {"node 'node' (MaxPool)", "no element of the input"}));
  EXPECT_TRUE(tells(refusal("ReduceMax", {plain_tensor(DType::f32, {2, 0})}, {{"axes", Sizes{1}}}),
                    Code::bad_argument, {"node 'node' (ReduceMax)", "no elements"}));
  EXPECT_TRUE(
      tells(refusal("MatMul", {plain_tensor(DType::f64, {2, 2}), plain_tensor(DType::f64, {2, 2})}),
            Code::bad_argument, {"node 'node' (MatMul)", "input 0 is f64", "f32"}));
  EXPECT_TRUE(tells(refusal("Add", {plain_tensor(DType::f16, {2}), plain_tensor(DType::f16, {2})}),
                    Code::bad_argument, {"node 'node' (Add)", "f32, f64 or integers"}));
}

TEST(OperatorShapes, OfNothingGiveSumsOfNothing) {
  std::mt19937_64 random(1);
  const Tensor none = plain_tensor(DType::f32, {2, 0});
  const Tensor c = random_tensor({3}, random);
  const std::vector<float> zeros(6, 0.0F);
  EXPECT_EQ(elements<float>(results("MatMul", {none, plain_tensor(DType::f32, {0, 3})})[0]), zeros);
  EXPECT_EQ(elements<float>(results("ReduceSum", {none}, {{"axes", Sizes{1}}})[0]),
            std::vector<float>(2, 0.0F));
  const auto sum = elements<float>(
      results("Gemm", {none, plain_tensor(DType::f32, {0, 3}), c}, {{"beta", 2.0}})[0]);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(sum[i], 2 * c.as<float>()[i % 3]);
  EXPECT_EQ(results("Relu", {none})[0].bytes(), 0U);
}

TEST(OperatorNumbers, ThatAreNoneStayNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor_of<float>({2, 3}, {1, nan, -2, -inf, -inf, -inf});
  const auto relu = elements<float>(results("Relu", {x})[0]);
  EXPECT_TRUE(std::isnan(relu[1]));
  EXPECT_EQ(relu[0], 1);
  EXPECT_EQ(relu[2], 0);
  for (const std::int64_t axis : {0, 1}) {
    const auto max = elements<float>(results("ReduceMax", {x}, {{"axes", Sizes{axis}}})[0]);
    EXPECT_EQ(std::ranges::count_if(max, [](float one) { return std::isnan(one); }), 1) << axis;
    EXPECT_EQ(max.back(), axis == 0 ? -2 : -inf) << axis;
  }
  const Tensor max = tensor_of<float>({2, 1}, {nan, -inf});
  const auto gradient = elements<float>(results(
      "weft.ReduceMaxGrad", {tensor_of<float>({2, 1}, {7, 8}), x, max}, {{"axes", Sizes{1}}})[0]);
  EXPECT_EQ(gradient, (std::vector<float>{0, 7, 0, 8, 0, 0}));
}

TEST(OperatorIndices, OutsideTheirDimensionAreRefused) {
  std::mt19937_64 random(1);
  const Tensor scores = random_tensor({2, 3}, random);
  EXPECT_TRUE(
      tells(refusal("SoftmaxCrossEntropyLoss", {scores, tensor_of<std::int32_t>({2}, {1, 3})}),
            Code::bad_argument, {"'node'", "element 1 of input 1 is 3, outside [0, 3)"}));
  for (const std::int64_t index : {-4, 3})
    EXPECT_TRUE(
        tells(refusal("Gather", {scores, tensor_of<std::int64_t>({1}, {index})}, {{"axis", 1}}),
              Code::bad_argument, {"'node'", "outside [-3, 3)"}));
  EXPECT_EQ(
      elements<float>(results("Gather", {scores, tensor_of<std::int64_t>({}, {-1})})[0]),
      (std::vector<float>{scores.as<float>()[3], scores.as<float>()[4], scores.as<float>()[5]}));
}

TEST(OperatorTypes, MayBeAnyWhereElementsOnlyMove) {
  constexpr std::int64_t kLarge = 0x123456789abcdef;
  const Tensor x = tensor_of<std::int64_t>({2, 3}, {kLarge, 1, -2, 3, -kLarge, 5});
  EXPECT_EQ(elements<std::int64_t>(results("Transpose", {x})[0]),
            (std::vector<std::int64_t>{kLarge, 3, 1, -kLarge, -2, 5}));
  EXPECT_EQ(
      elements<std::int64_t>(results("Concat", {x, x}, {{"axis", 1}})[0]),
      (std::vector<std::int64_t>{kLarge, 1, -2, kLarge, 1, -2, 3, -kLarge, 5, 3, -kLarge, 5}));
  const Tensor bytes = tensor_of<std::uint8_t>({2, 2}, {1, 250, 3, 4});
  EXPECT_EQ(elements<std::uint8_t>(results("Transpose", {bytes})[0]),
            (std::vector<std::uint8_t>{1, 3, 250, 4}));
  Tensor halves = plain_tensor(DType::f16, {1, 2});
  std::memcpy(halves.data(), "abcd", 4);
  EXPECT_EQ(std::memcmp(results("Transpose", {halves})[0].data(), "abcd", 4), 0);
  const Tensor filled =
      results("weft.Fill", {}, {{"dtype", "i32"}, {"shape", Sizes{2}}, {"value", -7.0}})[0];
  EXPECT_EQ(elements<std::int32_t>(filled), (std::vector<std::int32_t>{-7, -7}));
}

TEST(OperatorTypes, MayBeIntegersAndF64InSums) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  const Tensor a = tensor_of<std::int32_t>({2, 2}, {1, 2, 3, kMost});
  const Tensor b = tensor_of<std::int32_t>({2}, {10, 1});
  EXPECT_EQ(elements<std::int32_t>(results("Add", {a, b})[0]),
            (std::vector<std::int32_t>{11, 3, 13, std::numeric_limits<std::int32_t>::min()}));
  EXPECT_EQ(elements<std::int32_t>(results("Mul", {b, a})[0]),
            (std::vector<std::int32_t>{10, 2, 30, kMost}));
  EXPECT_EQ(elements<std::int32_t>(results("ReduceMax", {a}, {{"axes", Sizes{0}}})[0]),
            (std::vector<std::int32_t>{3, kMost}));
  const Tensor x = tensor_of<double>({2, 2}, {1, 1e-12, 2, 4});
  EXPECT_EQ(elements<double>(results("ReduceSum", {x}, {{"axes", Sizes{1}}})[0]),
            (std::vector<double>{1 + 1e-12, 6}));
  EXPECT_EQ(elements<double>(results("ReduceMean", {x}, {{"axes", Sizes{0}}})[0]),
            (std::vector<double>{1.5, (1e-12 + 4) / 2}));
}

TEST(OperatorDropout, DropsOtherElementsInEachStep) {
  constexpr std::int64_t kElements = 10000;
  std::mt19937_64 random(1);
  const std::vector<Tensor> inputs{random_tensor({kElements}, random)};
  const Attributes attributes{{"ratio", 0.25}, {"seed", 3}};
  const auto masks = [&](const Kernels& kernels, const char* name = "node") {
    const OneNode one("Dropout", inputs, attributes, name);
    std::vector<std::vector<std::uint8_t>> all;
    for (const std::uint64_t step : {0, 1, 2}) {
      const auto results = outputs_of(one.kernel(kernels), one.node(), one.inputs(), -1, step);
      const auto mask = elements<std::uint8_t>(results[1]);
      for (std::size_t i = 0; i < mask.size(); ++i)
        EXPECT_EQ(results[0].as<float>()[i],
                  mask[i] != 0 ? one.inputs()[0].as<float>()[i] * float(1 / 0.75) : 0.0F);
      EXPECT_NEAR(std::accumulate(mask.begin(), mask.end(), 0.0) / kElements, 0.75, 0.02);
      all.push_back(mask);
    }
    return all;
  };
  const Kernels kernels = operators();
  const auto first = masks(kernels);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_EQ(masks(kernels), first) << "the kernel remembers nothing";
  EXPECT_NE(masks(operators(), "other")[0], first[0]);
}

}  // namespace
}  // namespace weft::dataflow
