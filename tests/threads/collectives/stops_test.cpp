// A rank that stops in the middle of its work on other ranks' tensors, and goes on after they gave
// up.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/stop_point.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

using namespace std::chrono_literals;

constexpr int kVictim = 1;
constexpr std::int64_t kCount = 1'200'000;  // 4.8 MB: of three ranks each combines several pieces
constexpr std::int64_t kPart = kCount / 3;

thread_local bool stops_here = false;
std::atomic<bool> is_inside{false};
std::atomic<bool> goes_on{false};

void park(const char*, std::size_t piece) noexcept {
  if (!stops_here || piece != 1) return;
  is_inside = true;
  for (int i = 0; i < 20'000 && !goes_on; ++i) std::this_thread::sleep_for(1ms);
}

void dawdle(const char*, std::size_t) noexcept {
  if (stops_here) std::this_thread::sleep_for(20ms);
}

/// Ranks stop where `hook` makes them stop, while an Armed lives.
struct Armed {
  explicit Armed(StopPoint hook) {
    is_inside = false;
    goes_on = false;
    stop_point = hook;
  }
  ~Armed() { stop_point = nullptr; }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};

struct Kind {
  const char* name;
  std::function<Call(const Tensor& in, const Tensor& out)> call;
  std::int64_t in;
  std::int64_t out;
};

std::vector<Kind> kinds() {
  return {
      {"all_reduce",
       [](const Tensor& in, const Tensor& out) { return all_reduce(in, out, Reduction::sum); },
       kCount, kCount},
      {"reduce",
       [](const Tensor& in, const Tensor& out) { return reduce(in, out, Reduction::sum, 0); },
       kCount, kCount},
      {"reduce_scatter",
       [](const Tensor& in, const Tensor& out) { return reduce_scatter(in, out, Reduction::sum); },
       kCount, kPart},
      {"scan", [](const Tensor& in, const Tensor& out) { return scan(in, out, Reduction::sum); },
       kCount, kCount},
      {"broadcast", [](const Tensor& in, const Tensor&) { return broadcast(in, 0); }, kCount, 1},
      {"all_gather", [](const Tensor& in, const Tensor& out) { return all_gather(in, out); }, kPart,
       kCount},
      {"gather", [](const Tensor& in, const Tensor& out) { return gather(in, out, 0); }, kPart,
       kCount},
      {"scatter", [](const Tensor& in, const Tensor& out) { return scatter(in, out, 0); }, kCount,
       kPart},
      {"all_to_all", [](const Tensor& in, const Tensor& out) { return all_to_all(in, out); },
       kCount, kCount},
  };
}

std::uint64_t quarantine(const World& world) {
  std::uint64_t bytes = 0;
  for (const ArenaReport& arena : world.report().arenas) bytes += arena.quarantined_bytes;
  return bytes;
}

void fill(const Tensor& tensor, float value) {
  for (float& element : tensor.as<float>()) element = value;
}

bool holds(const Tensor& tensor, float value) {
  for (const float element : tensor.as<float>())
    if (element != value) return false;
  return true;
}

struct Tensors {
  Tensor in;
  Tensor out;
};

void victim(Collectives& group, const Call& call) {
  stops_here = true;
  const Status status = group.run(call);
  stops_here = false;
  EXPECT_FALSE(status.ok()) << "though the others gave up";
  EXPECT_EQ(status.detail().peer, 0) << status.text();
}

/// The call ends in time; its error names the late rank, and the ranks to which tensors are lent.
void root(World& world, Collectives& group, const Call& call) {
  const auto begin = Clock::now();
  const Status late = group.run(call, Deadline::after(800ms));
  EXPECT_LT(Clock::now() - begin, 2500ms) << late.text();  // a busy machine's 800 ms
  EXPECT_TRUE(tells(late, Code::timeout, {"rank 1 may still touch"}));
  EXPECT_GT(quarantine(world), 0U);
  const Status lent = group.settle(Deadline::after(20ms));
  EXPECT_EQ(lent.code(), Code::timeout);
  EXPECT_EQ(lent.detail().peer, kVictim) << lent.text();
}

void run_with_stop(const Kind& kind, const Config& config) {
  Meeting others(2);
  Meeting all(3);
  is_inside = false;
  goes_on = false;
  run_on(3, config, [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensors tensors{world.allocate(DType::f32, {kind.in}),
                          world.allocate(DType::f32, {kind.out})};
    fill(tensors.in, 1);
    fill(tensors.out, 0);
    const Call call = kind.call(tensors.in, tensors.out);
    ASSERT_TRUE(group.run(barrier()).ok());
    if (world.rank() == kVictim) {
      victim(group, call);
      all.wait();
      return;
    }
    if (world.rank() == 0)
      root(world, group, call);
    else
      (void)group.run(call, Deadline::after(1200ms));
    others.wait();
    EXPECT_TRUE(is_inside);
    goes_on = true;
    EXPECT_TRUE(group.settle().ok());
    EXPECT_EQ(quarantine(world), 0U);
    fill(tensors.in, -1);
    fill(tensors.out, -2);
    all.wait();
    EXPECT_TRUE(holds(tensors.in, -1) && holds(tensors.out, -2))
        << "written after it was this rank's again";
  });
}

TEST(CollectiveStop, TensorsStayLentUntilWhoStoppedInsideIsOut) {
  const Armed armed(park);
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    run_with_stop(kind, settings());
  }
}

TEST(CollectiveStop, MemoryOfTheUsersOwnIsNeverLent) {
  const Armed armed(park);
  Meeting others(2);
  run_on(3, [&](World& world) {
    Collectives group = Collectives::open(world);
    std::vector<float> memory(kCount, 1.0F);
    const Tensor tensor = Tensor::wrap(memory.data(), DType::f32, {kCount});
    ASSERT_TRUE(group.run(barrier()).ok());
    stops_here = world.rank() == kVictim;
    const Status status = group.run(all_reduce(tensor, Reduction::sum),
                                    stops_here ? Deadline::after(20s) : Deadline::after(400ms));
    stops_here = false;
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(contains(status.text(), "lent")) << status.text();
    if (world.rank() == kVictim) return;
    EXPECT_TRUE(holds(tensor, 1));
    others.wait();
    goes_on = true;
    EXPECT_TRUE(group.settle().ok());
    EXPECT_TRUE(holds(tensor, 1));
  });
}

/// A rank's own share of the work may take longer than its deadline.
TEST(CollectiveStop, WorkEndsAtTheDeadlineAndGoesOnInTheNextWait) {
  const Armed armed(dawdle);
  Meeting meeting(2);
  run_on(2, settings().with(Setting::arena_chunk, "64m"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::f32, {4 << 20});
    fill(tensor, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    ASSERT_TRUE(group.run(barrier()).ok());
    stops_here = world.rank() == 0;
    if (world.rank() == 0) {
      ASSERT_TRUE(plan.start().ok());
    }
    meeting.wait();
    const auto begin = Clock::now();
    Status status = world.rank() == 0 ? plan.wait(Deadline::after(100ms)) : plan.run();
    if (world.rank() == 0) {
      EXPECT_LT(Clock::now() - begin, 1500ms);
      EXPECT_EQ(status.code(), Code::timeout) << status.text();
      stops_here = false;
      status = plan.wait();
    }
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_TRUE(holds(tensor, 2));
  });
}

TEST(CollectiveStop, PollsMoveItInStints) {
  run_on(2, settings().with(Setting::arena_chunk, "64m"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::f32, {12 << 20});
    fill(tensor, static_cast<float>(1 + world.rank()));
    Plan plan = group.plan(all_reduce(tensor, Reduction::avg));
    ASSERT_TRUE(plan.start().ok());
    if (world.rank() == 0) {
      while (!plan.test()) std::this_thread::yield();
    }
    ASSERT_TRUE(plan.wait().ok());
    EXPECT_TRUE(holds(tensor, 1.5F));
  });
}

}  // namespace
}  // namespace weft::tests
