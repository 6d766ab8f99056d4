// Reading pushes that no worker has made.
#include "pslib/compression/push_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace weft::pslib {
namespace {

TEST(PushFormats, ReadOnlyIntoTheirRoomWhateverStandsInAPush) {
  std::mt19937 random(7);
  const std::vector<TensorSpec> specs{{"a", Shape{1000}}, {"b", Shape{77}}};
  for (const Compression& compression : {Compression::top_k(0.05F), Compression::int8()}) {
    TableOptions options(Optimizer::sgd(1.0F));
    options.compression = compression;
    const Layout layout(specs);
    const PushFormat format(specs, layout.offsets(), layout.elements(), options);
    for (int round = 0; round < 300; ++round) {
      std::vector<std::byte> push(format.bytes());
      for (std::byte& byte : push)
        byte = round % 3 == 0 ? std::byte{0xff} : static_cast<std::byte>(random());
      const std::size_t tensor = round % 2;
      const std::size_t elements = tensor == 0 ? 1000 : 77;
      const std::size_t first = random() % elements;
      const std::size_t count = 1 + random() % (elements - first);
      constexpr float kUntouched = 123.0F;
      std::vector<float> to(count + 64, kUntouched);
      format.read(to.data() + 32, push.data(), tensor, static_cast<std::int64_t>(first), count);
      EXPECT_TRUE(
          std::all_of(to.begin(), to.begin() + 32, [](float v) { return v == kUntouched; }));
      EXPECT_TRUE(std::all_of(to.end() - 32, to.end(), [](float v) { return v == kUntouched; }));
    }
  }
}

}  // namespace
}  // namespace weft::pslib
