// Slots are opened and closed: no rank writes into memory that was reused, and nothing leaks.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

SlotSpec named(const std::string& name, std::uint32_t depth = 2) {
  return {.name = name, .dtype = DType::f64, .shape = {2000}, .depth = depth};
}

/// Whether the use of the data arena is, or soon will be, back at `used_before`.
bool memory_comes_back(const World& world, std::uint64_t used_before) {
  return soon([&] {
    const auto data = arena(world, "data");
    return data.quarantined_bytes == 0 && data.used_bytes == used_before;
  });
}

TEST(Lifetime, AWriterLearnsThatItsSlotWasClosed) {
  const auto spec = named("edge", 1);
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        const auto used = arena(world, "data").used_bytes;
        auto slot = world.expose(spec);
        meeting.wait();
        EXPECT_TRUE(slot.wait().ok());
        meeting.wait();
        slot = Slot();
        EXPECT_TRUE(memory_comes_back(world, used))
            << "the writer's progress thread agrees without the writer's help";
        meeting.wait();
      },
      [&](World& world) {
        auto remote = world.attach(0, spec);
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        EXPECT_TRUE(remote.put(tensor).wait().ok());
        meeting.wait();
        // One of these puts fills the buffer, the other is pending when the slot is closed.
        auto second = remote.put(tensor);
        auto third = remote.put(tensor);
        meeting.wait();
        EXPECT_EQ(third.wait().code(), Code::closed);
        const auto status = remote.put(tensor).wait();
        EXPECT_TRUE(tells(status, Code::closed, {"edge"}));
        (void)second.wait();
        meeting.wait();
      });
}

PublishedSpec published(const SlotSpec& spec) {
  return {.name = spec.name, .dtype = spec.dtype, .shape = spec.shape, .depth = spec.depth};
}

TEST(Lifetime, AReaderOfAPublishedSlotLearnsThatItWasClosed) {
  const PublishedSpec spec = published(named("model"));
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        const auto used = arena(world, "data").used_bytes;
        auto slot = world.expose_published(spec);
        meeting.wait();
        slot = PublishedSlot();
        EXPECT_TRUE(memory_comes_back(world, used));
        meeting.wait();
      },
      [&](World& world) {
        auto remote = world.attach_published(0, spec);
        meeting.wait();
        EXPECT_EQ(remote.view().code(), Code::closed);
        meeting.wait();
      });
}

TEST(Lifetime, AViewStaysWholeAfterItsSlotWasClosed) {
  const PublishedSpec spec = published(named("model", 1));
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        const auto used = arena(world, "published").used_bytes;
        auto slot = world.expose_published(spec);
        meeting.wait();
        fill(slot.next().value(), pattern_of(0, 0, 1));
        slot.publish().or_throw();
        meeting.wait();
        slot = PublishedSlot();
        // Memory that is allocated now must not overlap the memory of the view.
        std::vector<Tensor> others;
        for (int i = 0; i < 20; ++i) {
          others.push_back(world.allocate(spec.dtype, spec.shape));
          fill(others.back(), 0);
        }
        EXPECT_TRUE(soon([&] { return arena(world, "published").quarantined_bytes > 0; }))
            << "a reader still looks at it";
        others.clear();
        meeting.wait();
        EXPECT_TRUE(soon([&] { return arena(world, "published").used_bytes == used; }));
        meeting.wait();
      },
      [&](World& world) {
        auto remote = world.attach_published(0, spec);
        meeting.wait();
        {
          const auto view = remote.view().value();
          meeting.wait();
          meeting.wait();
          EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, 1)));
        }
        meeting.wait();
      });
}

/// The first writer's detach may still be on its way when the second one asks.
RemoteSlot attach_after_the_last_writer(World& world, const SlotSpec& spec) {
  RemoteSlot remote;
  EXPECT_TRUE(soon([&] {
    const auto refused = thrown_by([&] { remote = world.attach(0, spec); });
    EXPECT_TRUE(refused.code == Code::ok || refused.code == Code::writer_taken) << refused.text();
    return refused.code == Code::ok;
  }));
  return remote;
}

TEST(Lifetime, ASecondWriterContinuesTheSequenceOfTheFirst) {
  const auto spec = named("edge", 2);
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    const auto put = [&](RemoteSlot& remote, std::uint64_t n) {
      fill(tensor, pattern_of(world.rank(), 0, n));
      remote.put(tensor).wait().or_throw();
    };
    if (world.rank() == 0) {
      auto slot = world.expose(spec);
      meeting.wait();
      for (std::uint64_t n = 1; n <= 6; ++n) {
        const auto arrival = slot.wait().value();
        EXPECT_EQ(arrival.sequence(), n);
        EXPECT_TRUE(holds(arrival.tensor(), pattern_of(n <= 2 ? 1 : 2, 0, n)));
      }
    } else if (world.rank() == 1) {
      auto remote = world.attach(0, spec);
      for (std::uint64_t n = 1; n <= 2; ++n) put(remote, n);
      remote = RemoteSlot();
      meeting.wait();
    } else {
      meeting.wait();
      auto remote = attach_after_the_last_writer(world, spec);
      for (std::uint64_t n = 3; n <= 6; ++n) put(remote, n);
    }
    meeting.wait();
  });
}

TEST(Lifetime, AThousandSlotsLeaveTheArenasAsTheyWere) {
  constexpr int kCycles = 1000;
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    const auto tensor = world.allocate(DType::f64, {2000});
    const auto cycle = [&](int i) {
      const auto spec = named("slot " + std::to_string(i));
      if (world.rank() == 0) {
        auto slot = world.expose(spec);
        EXPECT_TRUE(slot.wait().ok());
      } else {
        auto remote = world.attach(0, spec);
        EXPECT_TRUE(remote.put(tensor).wait().ok());
      }
    };
    const auto data = arena(world, "data");
    const auto control = arena(world, "control");
    for (int i = 0; i < kCycles; ++i) cycle(i);
    meeting.wait();
    EXPECT_TRUE(soon([&] {
      return arena(world, "data").used_bytes == data.used_bytes &&
             arena(world, "data").quarantined_bytes == 0 &&
             arena(world, "control").used_bytes == control.used_bytes;
    })) << "data "
        << arena(world, "data").used_bytes << " of " << data.used_bytes << ", control "
        << arena(world, "control").used_bytes << " of " << control.used_bytes;
    EXPECT_EQ(arena(world, "data").chunks, data.chunks);
    meeting.wait();
  });
}

/// Many attach cycles on one slot leave no more behind than one. `expose` gives rank 0's slot, and
/// `use` attaches as rank 1 and moves a tensor, the n-th.
template <typename Expose, typename Use>
void attach_many_times(const Expose& expose, const Use& use) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    auto slot = expose(world);
    std::uint64_t used = 0;
    for (std::uint64_t n = 1; n <= 200; ++n) {
      use(world, slot, n);
      meeting.wait();
      if (n == 20) used = arena(world, "control").used_bytes;
    }
    EXPECT_TRUE(soon([&] { return arena(world, "control").used_bytes <= used; }))
        << arena(world, "control").used_bytes << " bytes of control, after 20 cycles " << used;
    meeting.wait();
  });
}

TEST(Lifetime, AnAttachmentServesOneWriterAfterTheOther) {
  const auto spec = named("attachment", 4);
  attach_many_times([&](World& world) { return world.rank() == 0 ? world.expose(spec) : Slot(); },
                    [&](World& world, Slot& slot, std::uint64_t n) {
                      if (world.rank() == 0) {
                        EXPECT_EQ(slot.wait().value().sequence(), n);
                        return;
                      }
                      auto remote = world.attach(0, spec);
                      remote.put(world.allocate(spec.dtype, spec.shape)).wait().or_throw();
                    });
}

TEST(Lifetime, AnAttachmentServesOneReaderAfterTheOther) {
  const auto spec = published(named("attachment", 4));
  attach_many_times(
      [&](World& world) {
        return world.rank() == 0 ? world.expose_published(spec) : PublishedSlot();
      },
      [&](World& world, PublishedSlot&, std::uint64_t) {
        if (world.rank() == 1) (void)world.attach_published(0, spec);
      });
}

TEST(Lifetime, ANameIsFreeAgainOnceItsSlotIsGone) {
  const auto spec = named("again");
  run_on(1, [&](World& world) {
    for (int i = 0; i < 50; ++i) {
      auto slot = world.expose(spec);
      auto remote = world.attach(0, spec);
      EXPECT_TRUE(remote.put(world.allocate(spec.dtype, spec.shape)).wait().ok());
      EXPECT_EQ(slot.wait().value().sequence(), 1U);
    }
  });
}

TEST(Lifetime, TensorsOutliveTheirWorld) {
  Tensor tensor;
  run_ranks(1, [&](World& world) {
    tensor = world.allocate(DType::f32, {1000});
    fill(tensor, 1);
  });
  EXPECT_TRUE(holds(tensor, 1));
}

}  // namespace
}  // namespace weft::tests
