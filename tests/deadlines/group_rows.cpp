// Rows for groups and their collectives.
#include <array>

#include "tests/deadlines/row.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kGroupElements = 1 << 16;
constexpr std::int64_t kLongElements = 1 << 22;

/// A group of the two ranks, in an order that no other row uses at the time.
std::shared_ptr<Collectives> open_group(Side& side) {
  const std::array ranks{0, 1};
  return std::make_shared<Collectives>(Collectives::open(side.world, ranks));
}

Case collective(Side& side, bool by_plan, bool started, bool by_stream = false) {
  auto group = open_group(side);
  const Tensor tensor = side.world.allocate(DType::f32, {kGroupElements});
  const auto call = [tensor] { return all_reduce(tensor, Reduction::sum); };
  if (!side.calls())
    return {.part = [=] { (void)group->run(call(), Deadline::after(std::chrono::seconds(1))); },
            .end = [group] {}};
  if (!by_plan)
    return {.call = [=](Deadline deadline) { return said(group->run(call(), deadline)); }};
  auto plan = std::make_shared<Plan>(group->plan(call()));
  if (started) (void)plan->start();
  return {.call = [group, plan, started, by_stream](Deadline deadline) {
    if (by_stream) return said(plan->start(Stream(), deadline));
    return said(started ? plan->wait(deadline) : plan->run(deadline));
  }};
}

/// settle() after a call that has timed out, perhaps while rank 1 was using the tensor.
Case settles(Side& side) {
  auto group = open_group(side);
  const Tensor tensor = side.world.allocate(DType::f32, {kLongElements});
  const auto call = [tensor] { return all_reduce(tensor, Reduction::sum); };
  if (!side.calls())
    return {.part = [=] { (void)group->run(call(), Deadline::after(std::chrono::seconds(1))); },
            .end = [group] {}};
  return {.call = [=](Deadline deadline) {
    (void)group->run(call(), Deadline::after(std::chrono::milliseconds(40)));
    return said(group->settle(deadline));
  }};
}

enum class Of { world, ranks, group };

Case opens_group(Side& side, Of of) {
  World* const world = &side.world;
  const auto open_it = [=](Deadline deadline) {
    return thrown([&] {
      const std::array ranks{1, 0};
      Collectives opened = of == Of::world   ? Collectives::open(*world, deadline)
                           : of == Of::ranks ? Collectives::open(*world, ranks, deadline)
                                             : Collectives::open(*world, world->group(), deadline);
    });
  };
  if (side.calls()) return {.call = open_it};
  return {.part = [=] { (void)open_it(Deadline::after(std::chrono::milliseconds(200))); }};
}

Case shrinks(Side& side) {
  World* const world = &side.world;
  if (side.calls())
    return {.call = [=](Deadline deadline) { return said(world->group().shrink(deadline)); }};
  return {};
}

Case splits(Side& side) {
  World* const world = &side.world;
  if (side.calls())
    return {.call = [=](Deadline deadline) { return said(world->group().split(0, 0, deadline)); }};
  return {.part = [=] {
    (void)world->group().split(0, 0, Deadline::after(std::chrono::milliseconds(200)));
  }};
}

/// World::wait_any() of a plan.
Case any_of_plans(Side& side) {
  auto group = open_group(side);
  const Tensor tensor = side.world.allocate(DType::f32, {kGroupElements});
  const auto call = [tensor] { return all_reduce(tensor, Reduction::sum); };
  if (!side.calls())
    return {.part = [=] { (void)group->run(call(), Deadline::after(std::chrono::seconds(1))); },
            .end = [group] {}};
  auto plan = std::make_shared<Plan>(group->plan(call()));
  (void)plan->start();
  World* const world = &side.world;
  return {.call = [group, plan, world](Deadline deadline) {
    const std::array<Plan*, 1> plans{plan.get()};
    return said(world->wait_any(WaitSet{.plans = plans}, deadline));
  }};
}

}  // namespace

std::vector<Row> group_rows() {
  return {
      {"Plan::wait", [](Side& side) { return collective(side, true, true); }},
      {"Plan::start", [](Side& side) { return collective(side, true, false, true); }},
      {"Plan::run", [](Side& side) { return collective(side, true, false); }},
      {"Collectives::run", [](Side& side) { return collective(side, false, false); }},
      perhaps_alone({"Collectives::settle", settles}),
      {"World::wait_any#4", any_of_plans, true, "plan"},
      {"Group::split", splits},
      {"Group::shrink", shrinks},
      {"Collectives::open", [](Side& side) { return opens_group(side, Of::world); }},
      {"Collectives::open#2", [](Side& side) { return opens_group(side, Of::ranks); }},
      {"Collectives::open#3", [](Side& side) { return opens_group(side, Of::group); }},
  };
}

}  // namespace weft::tests
