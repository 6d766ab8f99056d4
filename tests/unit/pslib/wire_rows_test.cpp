// With 16 bits on the wire, rows are half as long and lose only the precision that 16 bits lack.
#include "pslib/sparse/wire_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "pslib/sparse/description.hpp"

namespace weft::pslib {
namespace {

using Floats = std::vector<float>;

/// The values that a reader gets, from bytes of any alignment.
Floats sent(const Floats& values, DType wire, std::size_t dim) {
  const WireRows rows(dim, wire);
  const std::size_t count = values.size() / dim;
  std::vector<std::byte> memory(1 + rows.bytes(count));
  rows.write(memory.data() + 1, values.data(), count);
  Floats back(values.size());
  for (std::size_t i = 0; i < count; ++i)
    rows.read(back.data() + i * dim, memory.data() + 1 + rows.bytes(i), 1);
  return back;
}

TEST(WireRows, RoundToTheNearestEvenOnce) {
  const Floats values{1.0F,
                      1.0F + 0x1p-8F,
                      1.0F + 3 * 0x1p-8F,
                      1.0F + 0x1p-8F + 0x1p-20F,
                      1.0F + 0x1p-11F,
                      1.0F + 3 * 0x1p-11F,
                      -0.0F,
                      -3.0F};
  EXPECT_EQ(sent(values, DType::f32, 4), values);
  EXPECT_EQ(sent(values, DType::bf16, 4),
            (Floats{1.0F, 1.0F, 1.0F + 0x1p-6F, 1.0F + 0x1p-7F, 1.0F, 1.0F, -0.0F, -3.0F}));
  EXPECT_EQ(sent(values, DType::f16, 4),
            (Floats{1.0F, 1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, 1.0F + 0x1p-8F, 1.0F, 1.0F + 0x1p-9F,
                    -0.0F, -3.0F}));
}

TEST(WireRows, BecomeInfiniteWhereTheTypeEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sent({65504.0F, 65519.0F, 65520.0F, -1e30F}, DType::f16, 1),
            (Floats{65504.0F, 65504.0F, kInfinity, -kInfinity}));
  EXPECT_EQ(sent({65536.0F, std::numeric_limits<float>::max()}, DType::bf16, 2),
            (Floats{65536.0F, kInfinity}));
  for (const DType wire : {DType::f32, DType::bf16, DType::f16})
    EXPECT_TRUE(std::isnan(sent({std::nanf("")}, wire, 1)[0])) << name(wire);
}

TEST(WireRows, TakeHalfTheRoomInSlots) {
  const auto table = [](DType wire) {
    Roles roles;
    roles.workers = roles.servers = {0};
    return SparseDescription(roles, "ps", "rows", {.dim = 24, .wire = wire, .request_rows = 64});
  };
  const auto bytes = [](const auto& spec) { return spec.shape.elements(); };
  for (const auto& [wire, row] : {std::pair{DType::f32, 96}, {DType::bf16, 48}, {DType::f16, 48}}) {
    EXPECT_EQ(bytes(table(wire).requests(0)), 64 + 2 * 64 * 8 + 64 * row) << name(wire);
    EXPECT_EQ(bytes(table(wire).answers(0)), 64 + 64 * row) << name(wire);
  }
}

TEST(WireRows, OfNoneAreNothing) {
  for (const DType wire : {DType::bf16, DType::f16})
    EXPECT_EQ(sent({}, wire, 3), Floats{}) << name(wire);
}

}  // namespace
}  // namespace weft::pslib
