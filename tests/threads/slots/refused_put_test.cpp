// A put that is refused: the writer's log and stats segment tell of it until the program looks at
// its request, and the owner's wait knows why nothing comes.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.hpp"
#include "tests/support/stats.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

const SlotSpec kSpec{.name = "in", .dtype = DType::f32, .shape = {4}, .depth = 2};

std::vector<stats::ShownFailure> failures_of_rank(int rank) {
  return stats_of_rank(rank).failures();
}

TEST(RefusedPut, IsToldToTheOwnerAndLoggedOnce) {
  const TempFolder folder;
  Meeting meeting(2);
  run_owner_and_writer(
      kSpec,
      [&](World&, Slot& slot) {
        EXPECT_TRUE(slot.wait().ok());
        meeting.wait();
        EXPECT_TRUE(soon([&] {
          const Status late = slot.wait(Deadline::after(milliseconds(20))).status();
          return contains(late.text(), "was refused");
        }));
        const Status late = slot.wait(Deadline::after(milliseconds(20))).status();
        EXPECT_TRUE(tells(late, Code::timeout,
                          {"slot \"in\"", "rank 1 (host ", "was refused: mismatch",
                           "the tensor is f32[3], the slot holds f32[4]"}));
        EXPECT_EQ(late.detail().peer, 1);
        meeting.wait();
        EXPECT_TRUE(slot.wait().ok()) << "the next put takes the place of the refused one";
        const Status after = slot.wait(Deadline::after(milliseconds(20))).status();
        EXPECT_TRUE(tells(after, Code::timeout, {"nothing came from rank 1"}));
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        const Tensor right = world.allocate(DType::f32, {4});
        const Tensor wrong = world.allocate(DType::f32, {3});
        remote.put(right).wait().or_throw();
        Request request = remote.put(wrong);
        const auto failures = failures_of_rank(1);
        ASSERT_EQ(failures.size(), 1U);
        EXPECT_EQ(failures[0].operation, stats::Operation::put);
        EXPECT_EQ(failures[0].peer, 0);
        EXPECT_EQ(failures[0].code, Code::mismatch);
        EXPECT_EQ(failures[0].sequence, 2U);
        EXPECT_TRUE(contains(failures[0].text, "f32[3]")) << failures[0].text;
        meeting.wait();
        const auto log = folder.path() / "1";
        EXPECT_TRUE(soon([&] { return lines_with(log, "not looked at the put's request") == 1; }));
        meeting.wait();
        remote.put(right).wait().or_throw();
        EXPECT_EQ(failures_of_rank(1).size(), 1U);
        EXPECT_EQ(request.wait().code(), Code::mismatch);
        EXPECT_TRUE(failures_of_rank(1).empty()) << "the program has looked";
        meeting.wait();
        EXPECT_EQ(lines_with(log, "not looked at the put's request"), 1);
      },
      settings().with(Setting::log_file, (folder.path() / "%r").string()));
}

TEST(RefusedPut, ThatTheProgramLooksAtIsNotLogged) {
  const TempFolder folder;
  Meeting meeting(2);
  run_owner_and_writer(
      kSpec, [&](World&, Slot&) { meeting.wait(); },
      [&](World& world, RemoteSlot& remote) {
        const Tensor wrong = world.allocate(DType::f64, {4});
        EXPECT_EQ(remote.put(wrong).wait().code(), Code::mismatch);
        Request tested = remote.put(wrong);
        EXPECT_TRUE(tested.test());
        const std::array parts{wrong, wrong};
        Request cancelled = remote.put(parts);
        EXPECT_EQ(cancelled.cancel().code(), Code::mismatch);
        EXPECT_TRUE(failures_of_rank(1).empty());
        std::this_thread::sleep_for(milliseconds(1300));
        EXPECT_EQ(lines_with(folder.path() / "1", "looked at"), 0);
        meeting.wait();
      },
      settings().with(Setting::log_file, (folder.path() / "%r").string()));
}

TEST(RefusedPut, WhoseRequestIsDroppedIsLoggedWhenItsEndGoes) {
  const TempFolder folder;
  Meeting meeting(2);
  run_owner_and_writer(
      kSpec, [&](World&, Slot&) { meeting.wait(); },
      [&](World& world, RemoteSlot& remote) {
        { const Request dropped = remote.put(world.allocate(DType::f32, {3})); }
        EXPECT_EQ(failures_of_rank(1).size(), 1U);
        remote = RemoteSlot();
        EXPECT_EQ(lines_with(folder.path() / "1", "not looked at the put's request"), 1);
        meeting.wait();
      },
      settings().with(Setting::log_file, (folder.path() / "%r").string()));
}

}  // namespace
}  // namespace weft::tests
