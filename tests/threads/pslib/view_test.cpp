// Views of parameters in place, on their shards.
#include <gtest/gtest.h>

#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;

Floats viewed(pslib::Table& table) {
  Floats all;
  for (const auto& piece : table.pieces()) {
    const auto view = table.view_piece(piece).value();
    EXPECT_EQ(view.values().size(), static_cast<std::size_t>(piece.count));
    all.insert(all.end(), view.values().begin(), view.values().end());
  }
  return all;
}

class ParameterViews : public testing::TestWithParam<std::string> {};

TEST_P(ParameterViews, ShowWhatAPullWouldMove) {
  const Regression model;
  run_on(3, settings().with(Setting::fabric, GetParam()), [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {}, .servers = {}, .split_bytes = 64});
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(0.1F));
    fill_parameters(table, world.rank());
    table.initialize().or_throw();
    EXPECT_EQ(viewed(table), parameters(table));
    for (int step = 0; step < 10; ++step) {
      model.gradient(table, world.rank(), world.size());
      table.push_pull().or_throw();
      const Floats moved = parameters(table);
      EXPECT_EQ(viewed(table), moved);

      model.gradient(table, world.rank(), world.size());
      table.push().or_throw();
      table.wait_updated().or_throw();
      EXPECT_EQ(parameters(table), moved) << "wait_updated() moves nothing";
      EXPECT_NE(viewed(table), moved) << "and the shards have gone on";
    }
    EXPECT_EQ(table.version(), 20U);
    world.leave().or_throw();
  });
}

TEST_P(ParameterViews, AreByNameForWholeTensorsOnly) {
  run_on(2, settings().with(Setting::fabric, GetParam()), [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {}, .servers = {}, .split_bytes = 256});
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(0.1F));
    fill_parameters(table, world.rank());
    table.initialize().or_throw();
    const auto bias = table.view("bias").value();
    const auto copy = table.parameter("bias").as<float>();
    EXPECT_TRUE(std::ranges::equal(bias.values(), copy));
    const Status split = table.view("weight").status();
    EXPECT_TRUE(tells(split, Code::bad_argument, {"view_piece"}));
    world.leave().or_throw();
  });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ParameterViews, testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace weft::tests
