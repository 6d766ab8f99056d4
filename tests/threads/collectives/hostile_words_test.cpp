// A rank that sends impossible words about its tensors: the others refuse them and name that rank.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/collective/collective_table.hpp"
#include "runtime/collective/group_area.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

using detail::GroupArea;
using detail::TensorPlaces;

constexpr int kHostile = 1;
constexpr std::int64_t kCount = 30'000;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

struct Lie {
  const char* name;
  std::function<Call(const Tensor&, const Tensor&)> call;
  std::function<void(GroupArea&, TensorPlaces&)> tell;
  Code code;
};

std::vector<Lie> lies() {
  const auto reduces = [](const Tensor& in, const Tensor& out) {
    return all_reduce(in, out, Reduction::sum);
  };
  const auto exchanges = [](const Tensor& in, const Tensor& out) { return all_to_all(in, out); };
  const auto parts = [](std::int64_t first, std::int64_t end) {
    return [=](GroupArea& area, TensorPlaces&) {
      area.offsets(1)[0] = first;
      area.offsets(1)[1] = end;
    };
  };
  return {
      {"an offset that overflows", reduces,
       [](GroupArea&, TensorPlaces& places) { places.in_offset = kMost - 7; }, Code::timeout},
      {"an offset outside", reduces,
       [](GroupArea&, TensorPlaces& places) { places.out_offset = 1ULL << 40; }, Code::timeout},
      {"a chunk that is not there", reduces,
       [](GroupArea&, TensorPlaces& places) { places.in_chunk = 0xffffff; }, Code::timeout},
      {"less to read", reduces, [](GroupArea&, TensorPlaces& places) { places.in_bytes -= 4; },
       Code::mismatch},
      {"nothing to write", reduces, [](GroupArea&, TensorPlaces& places) { places.out_bytes = 0; },
       Code::mismatch},
      {"a part in front", exchanges, parts(-10'000, 5'000), Code::mismatch},
      {"a part behind", exchanges, parts(kCount, 2 * kCount), Code::mismatch},
      {"a part backwards", exchanges, parts(kCount, 0), Code::mismatch},
      {"a part without end", exchanges, parts(0, std::numeric_limits<std::int64_t>::max()),
       Code::mismatch},
      {"a tensor without end", exchanges,
       [](GroupArea&, TensorPlaces& places) { places.in_bytes = kMost; }, Code::timeout},
  };
}

TEST(HostileWords, WhatARankSaysOfItsTensorsIsRefusedByItsName) {
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.name);
    Meeting meeting(2);
    run_on(2, [&](World& world) {
      detail::WorldState& state = WorldAccess::state(world);
      const std::vector<int> ranks{0, 1};
      const auto group = state.collectives.open(ranks, {});
      const Tensor in = world.allocate(DType::f32, {kCount});
      const Tensor out = world.allocate(DType::f32, {kCount});
      const auto call = group->plan(lie.call(in, out));
      if (world.rank() == kHostile) {
        ASSERT_TRUE(group->start(call).ok());
        const p2p::MemoryRef at = group->area();
        GroupArea area(state.local.control->chunk_data(at.chunk) + at.offset,
                       GroupArea::entry_bytes(2));
        TensorPlaces places;
        std::memcpy(&places, area.payload(1), sizeof places);
        lie.tell(area, places);
        std::memcpy(area.payload(1), &places, sizeof places);
        meeting.wait();
      } else {
        meeting.wait();
        const Status status = group->run(call, Deadline::after(std::chrono::milliseconds(100)));
        EXPECT_EQ(status.code(), lie.code) << status.text();
        EXPECT_EQ(status.detail().peer, kHostile) << status.text();
      }
      meeting.wait();
      group->drop(call);
      group->close();
    });
  }
}

}  // namespace
}  // namespace weft::tests
