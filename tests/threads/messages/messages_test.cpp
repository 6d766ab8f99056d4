// The cost of messages once two ranks have met, and the end of messages when a rank leaves.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "p2p/message/posted.hpp"
#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stats.hpp"
#include "tests/threads/verbs/allocation_count.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

Deadline soon_late() { return Deadline::after(milliseconds(20)); }

TEST(PostedTable, FindsTheOldestOfThoseThatTakeAMessage) {
  p2p::message::PostedTable table(2);
  detail::MessageOperation any_source;
  any_source.peer = kAnySource;
  any_source.tag = Tag(8, 8);
  detail::MessageOperation exact;
  exact.peer = 1;
  exact.tag = Tag(9);
  detail::MessageOperation any_tag;
  any_tag.peer = 1;
  EXPECT_TRUE(table.empty());
  table.add(exact);
  table.add(any_source);
  table.add(any_tag);
  EXPECT_EQ(table.find(1, 9), &exact);
  EXPECT_EQ(table.find(0, 9), &any_source);
  EXPECT_EQ(table.find(1, 12), &any_source);
  EXPECT_EQ(table.find(1, 3), &any_tag);
  EXPECT_EQ(table.find(0, 3), nullptr);
  table.remove(exact);
  EXPECT_EQ(table.find(1, 9), &any_source);
  table.remove(any_source);
  EXPECT_EQ(table.find(1, 9), &any_tag);
  table.remove(any_tag);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.find(1, 9), nullptr);
}

TEST(Messages, AllocateNothingOnceTheRanksHaveMet) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Messages messages(world);
    const int other = 1 - world.rank();
    std::vector<Tensor> out;
    std::vector<Tensor> in;
    for (const std::int64_t bytes : {8, 200, 4096, 70'000}) {
      out.push_back(world.allocate(DType::u8, {bytes}));
      in.push_back(world.allocate(DType::u8, {bytes}));
    }
    std::vector<MessageRequest> requests(2 * out.size());
    const auto exchange = [&] {
      for (std::size_t i = 0; i < in.size(); ++i)
        requests[i] = messages.irecv(i % 2 == 0 ? other : kAnySource, i, in[i]);
      for (std::size_t i = 0; i < out.size(); ++i)
        requests[out.size() + i] = messages.isend(other, i, out[i]);
      return messages.wait_all(requests);
    };
    for (int i = 0; i < 10; ++i) exchange().or_throw();
    meeting.wait();
    const std::uint64_t before = allocations();
    Status status;
    for (int i = 0; i < 300 && status.ok(); ++i) status = exchange();
    EXPECT_EQ(allocations(), before);
    EXPECT_TRUE(status.ok()) << status.text();
    meeting.wait();
  });
}

/// A failed send or receive is told as a refused put is.
TEST(FailedMessages, ThatTheProgramDoesNotLookAtAreLoggedOnceAndShown) {
  const TempFolder folder;
  Meeting meeting(2);
  run_on(2, settings().with(Setting::log_file, (folder.path() / "%r").string()), [&](World& world) {
    Messages messages(world);
    const Tensor four = world.allocate(DType::i32, {4});
    if (world.rank() == 1) {
      for (int i = 0; i < 3; ++i) messages.send(0, 7, four).or_throw();
      return meeting.wait();
    }
    const auto log = folder.path() / "0";
    const auto failures = [] { return stats_of_rank(0).failures(); };
    const Tensor three = world.allocate(DType::i32, {3});
    MessageRequest posted = messages.irecv(1, 7, three);
    EXPECT_TRUE(soon([&] {
      (void)messages.iprobe(1, 9);  // makes progress, and looks at no request
      return failures().size() == 1;
    }));
    EXPECT_EQ(failures()[0].operation, stats::Operation::recv);
    EXPECT_EQ(failures()[0].peer, 1);
    EXPECT_EQ(failures()[0].code, Code::mismatch);
    EXPECT_TRUE(soon([&] { return lines_with(log, "not looked at the request") == 1; }));
    EXPECT_EQ(posted.wait().code(), Code::mismatch);
    EXPECT_TRUE(failures().empty()) << "the program has looked";

    // One that fails at once, and that nobody looks at.
    { const MessageRequest dropped = messages.isend(5, 1, four); }
    EXPECT_EQ(failures().size(), 1U);
    EXPECT_EQ(failures()[0].operation, stats::Operation::send);
    EXPECT_TRUE(soon([&] { return lines_with(log, "not looked at the request") == 2; }));

    // Those that are looked at are nobody's affair.
    MessageRequest tested = messages.isend(5, 2, four);
    EXPECT_TRUE(tested.test());
    EXPECT_EQ(messages.send(5, 3, four).code(), Code::bad_argument);
    EXPECT_EQ(messages.recv(1, 7, three).code(), Code::mismatch);
    std::vector<MessageRequest> requests;
    requests.push_back(messages.irecv(1, 7, three));
    EXPECT_EQ(messages.wait_all(requests).code(), Code::mismatch);
    std::this_thread::sleep_for(milliseconds(1300));
    EXPECT_EQ(lines_with(log, "not looked at the request"), 2);
    EXPECT_TRUE(failures().empty());
    meeting.wait();
  });
}

TEST(Messages, EndWhenTheRankThatTheyNeedHasLeft) {
  Meeting meeting(3);
  Meeting of_two(2);
  run_on(3, [&](World& world) {
    Messages messages(world);
    const Tensor small = world.allocate(DType::u8, {10});
    const Tensor large = world.allocate(DType::u8, {10'000});
    fill(small, 1);
    fill(large, 2);
    if (world.rank() == 2) {
      for (int to = 0; to < 2; ++to) messages.send(to, 1, small).or_throw();
      meeting.wait();
      return;  // it leaves
    }
    const Tensor in = world.allocate(DType::u8, {10'000});
    MessageRequest posted = messages.irecv(2, 7, in);
    MessageRequest any = messages.irecv(kAnySource, 8, in);
    MessageRequest offered = messages.isend(2, 1, large);
    meeting.wait();
    EXPECT_EQ(posted.wait().code(), Code::peer_left);
    EXPECT_EQ(offered.wait().code(), Code::peer_left);
    EXPECT_EQ(any.wait(soon_late()).code(), Code::timeout) << "another rank may still send it";
    EXPECT_EQ(messages.send(2, 1, small).code(), Code::peer_left);
    EXPECT_EQ(messages.recv(2, 2, in).code(), Code::peer_left);
    EXPECT_EQ(messages.probe(2, 2).code(), Code::peer_left);
    // A message that rank 2 sent before it left can still be received.
    const auto got = messages.recv(2, kAnyTag, in);
    ASSERT_TRUE(got.ok()) << got.status().text();
    EXPECT_TRUE(holds(in.part(0, {10}), 1));
    of_two.wait();
    messages.send(1 - world.rank(), 8, small).or_throw();
    EXPECT_EQ(any.wait().value().source, 1 - world.rank());
  });
}

TEST(Messages, FromAnySourceEndWhenNobodyIsLeft) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Messages messages(world);
    meeting.wait();
    if (world.rank() == 1) return;
    const Tensor in = world.allocate(DType::u8, {8});
    EXPECT_EQ(messages.recv(kAnySource, kAnyTag, in).code(), Code::peer_left);
  });
}

TEST(Messages, NameTheRankThatDoesNotReceive) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Messages messages(world);
    const Tensor large = world.allocate(DType::u8, {10'000});
    const Tensor in = world.allocate(DType::u8, {10'000});
    if (world.rank() == 0) {
      fill(large, 3);
      const Status late = messages.send(1, 5, large, soon_late());
      EXPECT_EQ(late.code(), Code::timeout);
      EXPECT_EQ(late.detail().peer, 1);
      EXPECT_TRUE(contains(late.text(), "lent")) << late.text();
      EXPECT_EQ(messages.recv(1, 6, in, soon_late()).status().detail().peer, 1);
      meeting.wait();
    } else {
      meeting.wait();
      // Rank 1 was told of the tensor, which stayed lent.
      EXPECT_TRUE(messages.recv(0, 5, in).ok());
      EXPECT_TRUE(holds(in, 3));
    }
    meeting.wait();
  });
}

TEST(Messages, RefuseWhatCanNotBeSent) {
  run_ranks(
      1,
      [](World& world) {
        Messages messages(world);
        const Tensor tensor = world.allocate(DType::u8, {4, 4});
        EXPECT_EQ(messages.send(1, 0, tensor).code(), Code::bad_argument);
        EXPECT_EQ(messages.send(kAnySource, 0, tensor).code(), Code::bad_argument);
        EXPECT_EQ(messages.send(0, 0, tensor.slice(1, 0, 2)).code(), Code::bad_argument);
        EXPECT_EQ(messages.recv(-2, 0, tensor).code(), Code::bad_argument);
        EXPECT_EQ(messages.recv(0, 0, tensor.slice(1, 0, 2)).code(), Code::bad_argument);
        EXPECT_FALSE(messages.iprobe(7, kAnyTag));
        Tensor moved = world.allocate(DType::u8, {16});
        const Tensor kept = std::move(moved);
        const std::vector<Tensor> without_memory{
            Tensor(), Tensor::wrap(nullptr, DType::f32, {8}),
            Tensor::wrap(nullptr, DType::f32, {100'000}),
            moved,  // NOLINT(bugprone-use-after-move): what it is then
            Tensor::wrap(tensor.data(), static_cast<DType>(99), {16})};
        // Once before the ranks have met, once on the way that small messages take then.
        for (int i = 0; i < 2; ++i) {
          for (const Tensor& bare : without_memory) {
            const Status sent = messages.send(0, 0, bare);
            EXPECT_EQ(sent.code(), Code::bad_argument) << sent.text();
            EXPECT_TRUE(contains(sent.text(), "no memory")) << sent.text();
            EXPECT_EQ(messages.recv(0, 0, bare, soon_late()).code(), Code::bad_argument);
          }
          const Tensor nothing = Tensor::wrap(nullptr, DType::f32, {0});
          EXPECT_TRUE(messages.send(0, 5, nothing).ok());
          EXPECT_EQ(messages.recv(0, kAnyTag, nothing).value().tag, 5U)
              << "nothing of a refused message comes";
        }
      },
      settings());
}

}  // namespace
}  // namespace weft::tests
