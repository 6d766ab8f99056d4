// The models' layers and the times that are replayed, compared with published figures.
#include "benchmarks/workloads/layers.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "benchmarks/workloads/compute_times.hpp"
#include "benchmarks/workloads/matrix_products.hpp"

namespace weft::bench {
namespace {

double multiplications_of(std::string_view name) {
  double all = 0;
  for (const Layer& layer : layers_of(model_called(name))) all += layer.multiplications;
  return all;
}

TEST(Layers, CoverEachVariableOnceAndInOrder) {
  for (const Model& model : models()) {
    std::size_t next = 0;
    for (const Layer& layer : layers_of(model)) {
      EXPECT_EQ(layer.first, next) << model.name;
      EXPECT_GT(layer.multiplications, 0) << model.name;
      next += layer.variables;
    }
    EXPECT_EQ(next, model.shapes.size()) << model.name;
  }
}

TEST(Layers, MultiplyAsOftenAsThePublishedModels) {
  // With 10 classes rather than 1000.
  EXPECT_NEAR(multiplications_of("vgg-16"), 15.47e9, 0.05e9);
  EXPECT_NEAR(multiplications_of("inception"), 5.72e9, 0.2e9);
  EXPECT_EQ(multiplications_of("fcn-5"), 784.0 * 4096 + 3 * 4096.0 * 4096 + 4096.0 * 10);
  EXPECT_EQ(multiplications_of("lstm"), 80 * (8 * 1024.0 * 1024 + 1024.0 * 1000));
}

TEST(ComputeTimes, AreThePapersForBatchesOf1And32) {
  const auto at = [](std::string_view name, std::size_t batch) {
    return compute_ms(model_called(name), batch);
  };
  EXPECT_DOUBLE_EQ(at("vgg-16", 1), 30.92);
  EXPECT_NEAR(at("vgg-16", 32), 690.1 * 4.3 / 8, 0.5);
  EXPECT_NEAR(at("inception", 32), 172.5 * 7.9 / 8, 0.5);
  EXPECT_NEAR(at("lstm", 32), 84.4 * 5 / 8, 0.5);
  EXPECT_NEAR(at("gru", 32) / at("gru", 1), at("lstm", 32) / at("lstm", 1), 0.02);
  // The line through both.
  EXPECT_NEAR(at("vgg-16", 63), 2 * at("vgg-16", 32) - at("vgg-16", 1), 1e-9);
  for (const char* name : {"alexnet", "fcn-5"}) EXPECT_EQ(at(name, 128), at(name, 1)) << name;
}

TEST(ComputeTimes, AreSpreadByMultiplicationsAndAThirdIsForwards) {
  for (const Model& model : models()) {
    const auto layers = layers_of(model);
    const auto times = layer_times(model, 8);
    ASSERT_EQ(times.size(), layers.size());
    double forward = 0;
    double backward = 0;
    for (const LayerTime& time : times) {
      forward += time.forward_ms;
      backward += time.backward_ms;
    }
    EXPECT_NEAR(forward + backward, compute_ms(model, 8), 1e-9) << model.name;
    EXPECT_NEAR(backward, 2 * forward, 1e-9) << model.name;
    EXPECT_NEAR(times[0].forward_ms / times[1].forward_ms,
                layers[0].multiplications / layers[1].multiplications, 1e-9)
        << model.name;
  }
}

TEST(Shares, CoverEachElementOnceAndLoadServersAlike) {
  for (const Model& model : models())
    for (const int servers : {1, 2, 4, 8}) {
      std::vector<std::size_t> covered(model.shapes.size());
      std::vector<std::size_t> load(static_cast<std::size_t>(servers));
      for (const Part& part : shares_of(model, servers)) {
        EXPECT_EQ(part.first, covered[part.tensor]) << model.name;
        EXPECT_GT(part.count, 0U);
        covered[part.tensor] += part.count;
        load.at(static_cast<std::size_t>(part.server)) += part.count;
      }
      for (std::size_t i = 0; i < covered.size(); ++i) EXPECT_EQ(covered[i], model.elements(i));
      const std::size_t all = std::accumulate(load.begin(), load.end(), std::size_t{0});
      for (const std::size_t one : load)
        EXPECT_LE(one, 2 * all / static_cast<std::size_t>(servers)) << model.name;
    }
  EXPECT_EQ(shares_of(model_called("vgg-16"), 1).size(), 32U);
}

TEST(Models, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    model_called("resnet");
    FAIL() << "there is no model of that name";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "no model is called 'resnet'; there are gru, lstm, inception, alexnet, fcn-5, vgg-16");
  }
}

TEST(MatrixProducts, MultiplyAsOftenAsTheyOwe) {
  MatrixProducts products;
  double owed = 0;
  for (const double multiplications : {1.0, 65535.0, 65536.0 * 300, 12345.0, 65536.0 * 255.5}) {
    products.multiply(multiplications);
    owed += multiplications;
    EXPECT_LE(products.done(), owed);
    EXPECT_GT(products.done(), owed - 65536);
  }
}

}  // namespace
}  // namespace weft::bench
