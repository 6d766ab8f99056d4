// The ends of calls that GPUs carry out: given up, failed or refused while a GPU works.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

#include "tests/cuda/collectives/held_kernel.hpp"
#include "tests/cuda/slots/streams.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kElements = 3000;

/// Two ranks, each with its own GPU.
class DeviceEnds : public OnStandInStreams {
 protected:
  static void run(int ranks, const std::function<void(World&)>& body) {
    run_on(ranks, settings().with(Setting::log, "off").with(Setting::fabric, "shm"), body);
  }
  static Memory own_gpu(const World& world) { return Memory::gpu(world.rank() % 2); }
  static Tensor filled(World& world, float value, std::size_t elements = kElements) {
    return tensor_of(world, own_gpu(world), std::vector<float>(elements, value));
  }
  /// A sum that both GPUs have begun, and which GPU 1 does not end.
  static Plan begin_held(Collectives& group, const Tensor& tensor, const HeldKernel& held) {
    group.run(all_reduce(tensor, Reduction::max)).or_throw();
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    plan.start().or_throw();
    EXPECT_TRUE(soon([&] {
      (void)plan.wait(Deadline::after(milliseconds(1)));
      return held.begun() == 2;
    }));
    return plan;
  }
};

TEST_F(DeviceEnds, KeepMemoryOfAClosedGroupWhileAnothersGpuWorksOnIt) {
  HeldKernel held(*control());
  run(2, [&](World& world) {
    const std::vector<float> after(kElements, 9);
    {
      auto group = Collectives::open(world);
      const Tensor tensor = filled(world, 1);
      Plan plan = begin_held(group, tensor, held);
      meet(world, "begun");
      if (world.rank() == 1) {
        EXPECT_TRUE(tells(plan.wait(Deadline::after(milliseconds(5))), Code::timeout,
                          {"GPU 1 has not done this rank's part yet"}));
        plan = {};
        EXPECT_TRUE(tells(group.settle(Deadline::after(milliseconds(20))), Code::timeout,
                          {"this rank's GPU still works"}));
      } else {
        EXPECT_TRUE(tells(plan.wait(), Code::cancelled,
                          {"rank 1 has given up", "rank 1 may still touch this rank's tensors"}));
        EXPECT_TRUE(tells(group.settle(Deadline::after(milliseconds(20))), Code::timeout,
                          {"rank 1", "may still touch"}));
      }
      meet(world, "lent");
    }
    meet(world, "closed");
    std::vector<Tensor> later;
    for (int i = 0; i < 20; ++i) later.push_back(tensor_of(world, own_gpu(world), after));
    meet(world, "allocated");
    held.set_free();
    EXPECT_TRUE(soon([&] { return held.ended() == 2; }));
    for (const Tensor& tensor : later) EXPECT_EQ(elements_of(world, tensor), after);
    meet(world, "end");
  });
}

TEST_F(DeviceEnds, AreToldByARankThatWaitsForSomethingElse) {
  HeldKernel held(*control());
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = begin_held(group, tensor, held);
    meet(world, "begun");
    if (world.rank() == 1) {
      plan = {};
    } else {
      EXPECT_EQ(plan.wait().code(), Code::cancelled);
      held.set_free();
      EXPECT_OK_STATUS(group.settle(Deadline::after(std::chrono::seconds(5))));
      EXPECT_EQ(held.ended(), 2);
    }
    meet(world, "settled");
  });
}

TEST_F(DeviceEnds, AreToldByARankThatHasOnlyTested) {
  HeldKernel held(*control());
  std::atomic<bool> has_given_up{false};
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = begin_held(group, tensor, held);
    meet(world, "begun");
    if (world.rank() == 0) {
      plan = {};
      has_given_up = true;
    } else {
      EXPECT_TRUE(soon([&] { return has_given_up.load(); }));
      // Some times, as it may not have heard of it yet.
      for (int i = 0; i < 20; ++i) {
        (void)plan.test();
        std::this_thread::sleep_for(milliseconds(5));
      }
    }
    meet(world, "tested");
    if (world.rank() == 0) {
      held.set_free();
      EXPECT_OK_STATUS(group.settle(Deadline::after(std::chrono::seconds(5))));
      EXPECT_EQ(held.ended(), 2);
    }
    meet(world, "settled");
    if (world.rank() == 1) {
      EXPECT_EQ(plan.wait().code(), Code::cancelled);
    }
  });
}

TEST_F(DeviceEnds, AreAwaitedByARankThatLeaves) {
  HeldKernel held(*control());
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = begin_held(group, tensor, held);
    meet(world, "begun");
    if (world.rank() == 1) {
      plan = {};
      EXPECT_OK_STATUS(world.leave());
      EXPECT_TRUE(held.is_free());
    } else {
      EXPECT_EQ(plan.wait().code(), Code::cancelled);
      std::thread later([&] {
        std::this_thread::sleep_for(milliseconds(200));
        held.set_free();
      });
      EXPECT_OK_STATUS(group.settle(Deadline::after(std::chrono::seconds(5))));
      EXPECT_EQ(held.ended(), 2) << "the rank was taken for gone while its GPU worked";
      later.join();
    }
  });
}

TEST_F(DeviceEnds, KeepPagesOfAProofThatADeadlineHasEnded) {
  for (std::uint64_t seed = 1; seed <= 4 && !HasFailure(); ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(150)}),
              std::vector<std::string>{});
    run(2, [&](World& world) {
      const std::vector<float> after(1024, 9);
      std::vector<Tensor> later;
      {
        const Tensor tensor = filled(world, 1);
        auto group = Collectives::open(world);
        const Status end =
            group.run(all_reduce(tensor, Reduction::max), Deadline::after(milliseconds(10)));
        EXPECT_TRUE(end.code() == Code::timeout || end.code() == Code::cancelled) << end.text();
      }
      for (int i = 0; i < 20; ++i)
        later.push_back(world.allocate(DType::f32, {1024}, own_gpu(world)));
      // By the processor, as each copy takes its time.
      const auto at = [&](const Tensor& tensor) {
        return reinterpret_cast<float*>(
            control()->reach(reinterpret_cast<DevicePointer>(tensor.data()), tensor.bytes(),
                             tensor.memory().ordinal()));
      };
      for (const Tensor& tensor : later) std::fill_n(at(tensor), after.size(), 9.0F);
      std::this_thread::sleep_for(milliseconds(400));
      for (const Tensor& tensor : later)
        EXPECT_TRUE(std::equal(after.begin(), after.end(), at(tensor)));
      meet(world, "end");
    });
  }
}

TEST_F(DeviceEnds, WaitForCopiesBeforeOneThatFails) {
  for (std::uint64_t seed = 1; seed <= 4 && !HasFailure(); ++seed) {
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(400)}),
        std::vector<std::string>{});
    std::barrier<> both(2);
    std::atomic<std::uint64_t> before{0};
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor in = filled(world, 1);
      const Tensor out = filled(world, 0, 2 * kElements);
      Plan plan = group.plan(all_gather(in, out));
      plan.run().or_throw();
      both.arrive_and_wait();
      if (world.rank() == 0) plan.start().or_throw();
      both.arrive_and_wait();
      if (world.rank() == 1) plan.start().or_throw();
      before = control()->calls("cuMemcpyAsync");
      both.arrive_and_wait();
      // Rank 1 has said that it reaches all, and waits for rank 0, whose second copy fails.
      if (world.rank() == 0) {
        control()->refuse("cuMemcpyAsync", 2, DriverStatus::unknown);
        EXPECT_TRUE(tells(plan.wait(), Code::system, {"cuMemcpyAsync", "CUDA_ERROR_UNKNOWN"}));
        EXPECT_OK_STATUS(group.settle(Deadline::after(std::chrono::seconds(5))));
        const std::vector<float> after(2 * kElements, 9);
        std::fill_n(reinterpret_cast<float*>(control()->reach(
                        reinterpret_cast<DevicePointer>(out.data()), out.bytes(), 0)),
                    after.size(), 9.0F);
        std::this_thread::sleep_for(milliseconds(600));
        EXPECT_EQ(elements_of(world, out), after) << "no copy writes there any more";
      } else {
        EXPECT_TRUE(soon([&] { return control()->calls("cuMemcpyAsync") >= before + 2; }));
        EXPECT_FALSE(plan.wait().ok());
      }
      meet(world, "end");
    });
  }
}

TEST_F(DeviceEnds, TakeTheGpusAgainAfterAPassingRefusal) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), counted(kElements));
    Plan plan = group.plan(all_reduce(tensor, Reduction::max));
    meet(world);
    if (world.rank() == 0) control()->refuse("cuMemSetAccess", 1, DriverStatus::unknown);
    meet(world, "again");
    const std::size_t once = 2 * kElements * sizeof(float);
    plan.run().or_throw();
    EXPECT_EQ(group.staged_bytes(), once);
    for (int i = 0; i < 3; ++i) plan.run().or_throw();
    EXPECT_EQ(group.staged_bytes(), once) << "later runs are the GPUs'";
    group.run(all_reduce(tensor, Reduction::min)).or_throw();
    EXPECT_EQ(group.staged_bytes(), once);
    EXPECT_EQ(elements_of(world, tensor), counted(kElements));
    meet(world, "end");
  });
}

TEST_F(DeviceEnds, CallNothingThatWaitsWhileAStreamDoes) {
  std::barrier<> both(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    constexpr std::size_t kMany = 1'500'000;  // more than a chunk
    const auto run = [&](const Tensor& tensor, Reduction reduction) {
      group.run(all_reduce(tensor, reduction)).or_throw();
      return group.staged_bytes();
    };
    const Tensor tensor = filled(world, 1, kMany);
    const Tensor small = filled(world, 1, 1000);
    EXPECT_EQ(run(tensor, Reduction::max), 0U);
    group.run(scan(tensor, tensor, Reduction::max)).or_throw();  // which pins the host's memory
    const Tensor other = world.rank() == 0 ? tensor : filled(world, 1, kMany);
    const std::uint64_t staged = group.staged_bytes();
    const auto during = [&] {
      both.arrive_and_wait();
      EXPECT_EQ(run(tensor, Reduction::min), staged) << "another kernel";
      EXPECT_GT(run(other, Reduction::max), staged) << "new memory";
      both.arrive_and_wait();
    };
    if (world.rank() == 0) {
      Slot slot = world.expose(stream_spec(Memory::gpu(0), 1000));
      OwnStream own(world, 0, 1000, 1);
      meet(world, "exposed");
      (void)slot.wait_on(own.get()).value();
      own.synchronize();
      meet(world, "prepared");
      const Arrival arrival = slot.wait_on(own.get()).value();
      during();
      own.synchronize();
      meet(world, "put");
    } else {
      RemoteSlot remote = world.attach(0, stream_spec({}, 1000));
      meet(world, "exposed");
      remote.put(small).wait().or_throw();
      meet(world, "prepared");
      during();
      remote.put(small).wait().or_throw();
      meet(world, "put");
    }
    const std::uint64_t so_far = group.staged_bytes();
    EXPECT_EQ(run(other, Reduction::max), so_far) << "the refusal has passed";
    meet(world, "end");
  });
}

TEST_F(DeviceEnds, MoveWhatTheyDoNotCombineForAnyNumberOfRanks) {
  run(9, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor part = filled(world, static_cast<float>(world.rank()), 100);
    const Tensor whole = filled(world, 0, 900);
    group.run(all_gather(part, whole)).or_throw();
    EXPECT_EQ(group.staged_bytes(), 0U);
    const std::vector<float> all = elements_of(world, whole);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(i / 100));
    group.run(all_reduce(part, Reduction::max)).or_throw();
    EXPECT_EQ(group.staged_bytes(), 800U) << "no kernel combines as many";
  });
}

}  // namespace
}  // namespace weft::tests
