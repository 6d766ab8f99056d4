// The models' layers, compared with the figures of the paper.
#include "benchmarks/workloads/models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace weft::bench {
namespace {

struct Said {
  std::string_view name;
  double mebibytes;
  std::size_t tensors;
};

TEST(Models, HaveTheBytesAndTensorsOfThePaper) {
  const Said table[] = {{"alexnet", 176.42, 16}, {"inception", 92.90, 196}, {"vgg-16", 512.32, 32},
                        {"lstm", 35.93, 14},     {"gru", 27.92, 11},        {"fcn-5", 204.47, 10}};
  ASSERT_EQ(models().size(), std::size(table));
  for (const Said& said : table) {
    const auto found = std::find_if(models().begin(), models().end(),
                                    [&](const Model& model) { return model.name == said.name; });
    ASSERT_NE(found, models().end()) << said.name;
    EXPECT_EQ(found->shapes.size(), said.tensors) << said.name;
    EXPECT_NEAR(static_cast<double>(found->bytes()) / (1 << 20), said.mebibytes, 0.005)
        << said.name;
    EXPECT_EQ(&model_of(found->bytes()), &*found);
  }
  EXPECT_THROW(model_of(4), std::runtime_error);
}

TEST(Models, AreCutIntoPartsThatCoverEachElementOnce) {
  for (const Model& model : models()) {
    std::vector<std::size_t> covered(model.shapes.size());
    for (const Part& part : parts_of(model)) {
      EXPECT_EQ(part.first, covered[part.tensor]) << model.name;
      covered[part.tensor] += part.count;
      EXPECT_TRUE(part.server == 0 || part.server == 1);
    }
    for (std::size_t i = 0; i < covered.size(); ++i)
      EXPECT_EQ(covered[i], model.elements(i)) << model.name << ' ' << i;
  }
}

}  // namespace
}  // namespace weft::bench
