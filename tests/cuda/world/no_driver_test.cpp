// A machine without a CUDA driver: GPU tensors are refused, and all else works.
#include "p2p/transport/cuda/api/load.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

TEST(NoCudaDriver, IsSaidByTheCallThatNeedsIt) {
  if (p2p::cuda::load_driver().ok()) GTEST_SKIP() << "this machine has a driver";
  run_on(1, [](World& world) {
    EXPECT_TRUE(tells(thrown_by([&] { (void)world.allocate(DType::f32, {8}, Memory::gpu()); }),
                      Code::system, {"allocate", "CUDA"}));
    const Tensor from = world.allocate(DType::i32, {8});
    const Tensor to = world.allocate(DType::i32, {8});
    for (int i = 0; i < 8; ++i) from.as<std::int32_t>()[static_cast<std::size_t>(i)] = i;
    world.copy(from, to);
    EXPECT_EQ(to.as<std::int32_t>()[7], 7);
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(from, to, Stream::cuda(nullptr)); }), Code::system,
                      {"copy", "CUDA"}));
    (void)world.adopt(from.data(), DType::i32, {8}, [] {});
  });
}

}  // namespace
}  // namespace weft::tests
