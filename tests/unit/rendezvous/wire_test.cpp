// A rendezvous message is read as it was written, and malformed bytes are refused.
#include "p2p/rendezvous/wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace weft::p2p::rendezvous {
namespace {

std::array<std::byte, 512> buffer;

Metadata matrix() { return {.dtype = DType::f32, .shape = {3, 5}, .dead = false, .codec = 0}; }

Ask cached_ask(std::uint32_t item) {
  Ask ask;
  ask.item = item;
  ask.step = 7;
  ask.index = 4;
  ask.metadata = matrix();
  ask.destination = {0x1000002, 640, 60};
  return ask;
}

MessageWriter writer(RendezvousMessage type) { return MessageWriter(buffer, type, 9, 1234); }

TEST(RendezvousWire, GivesBackWhatWasWritten) {
  auto out = writer(RendezvousMessage::tensor_request);
  Ask named;
  named.item = 31;
  named.step = ~0ULL;
  named.index = 5;
  named.name = "layer/weights";
  ASSERT_TRUE(out.add(cached_ask(0)));
  ASSERT_TRUE(out.add(named));
  MessageReader in(out.finish());
  ASSERT_TRUE(in.valid());
  EXPECT_EQ(in.type(), RendezvousMessage::tensor_request);
  EXPECT_EQ(in.group(), 9U);
  EXPECT_EQ(in.generation(), 1234U);
  const auto first = in.ask();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->index, 4U);
  EXPECT_TRUE(first->name.empty());
  EXPECT_EQ(first->step, 7U);
  EXPECT_TRUE(first->metadata == matrix());
  EXPECT_EQ(first->destination.chunk, 0x1000002U);
  EXPECT_EQ(first->destination.offset, 640U);
  EXPECT_EQ(first->destination.bytes, 60U);
  const auto second = in.ask();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->item, 31U);
  EXPECT_EQ(second->step, ~0ULL);
  EXPECT_EQ(second->name, "layer/weights");
  EXPECT_FALSE(second->metadata);
  EXPECT_FALSE(in.ask());
  EXPECT_TRUE(in.valid());
}

TEST(RendezvousWire, GivesBackAnswers) {
  auto out = writer(RendezvousMessage::error_status);
  ASSERT_TRUE(out.add(ErrorAnswer{.item = 2, .code = Code::cancelled, .text = "no more"}));
  MessageReader in(out.finish());
  const auto error = in.error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::cancelled);
  EXPECT_EQ(error->text, "no more");
  EXPECT_FALSE(error->by_application);
  auto sent = writer(RendezvousMessage::error_status);
  ASSERT_TRUE(sent.add(ErrorAnswer{
      .item = 2, .code = Code::partitioned, .by_application = true, .text = "no more"}));
  MessageReader in_sent(sent.finish());
  const auto sent_error = in_sent.error();
  ASSERT_TRUE(sent_error);
  EXPECT_EQ(sent_error->code, Code::partitioned);
  EXPECT_TRUE(sent_error->by_application);
  auto dead = writer(RendezvousMessage::meta_data_response);
  ASSERT_TRUE(
      dead.add(MetadataAnswer{.item = 3, .metadata = {.shape = {}, .dead = true, .codec = 9}}));
  MessageReader in_dead(dead.finish());
  const auto answer = in_dead.metadata();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->metadata.dead);
  EXPECT_EQ(answer->metadata.codec, 9);
  EXPECT_EQ(answer->metadata.bytes(), 0U);
}

TEST(RendezvousWire, HoldsAsManyRecordsAsFit) {
  MessageWriter small(std::span<std::byte>{buffer}.first(256), RendezvousMessage::tensor_request, 0,
                      1);
  std::uint32_t added = 0;
  while (small.add(cached_ask(added))) ++added;
  EXPECT_GE(added, 3U);
  MessageReader in(small.finish());
  std::uint32_t read = 0;
  while (in.ask()) ++read;
  EXPECT_TRUE(in.valid());
  EXPECT_EQ(read, added);
  // The longest possible request fits the smallest message.
  MessageWriter one(std::span<std::byte>{buffer}.first(256), RendezvousMessage::tensor_request, 0,
                    1);
  Ask longest = cached_ask(0);
  const std::string name(kMaxKey, 'k');
  longest.name = name;
  longest.metadata->shape = {1, 1, 1, 1, 1, 1, 3, 5};
  EXPECT_TRUE(one.add(longest));
}

TEST(RendezvousWire, RefusesATruncatedMessage) {
  auto out = writer(RendezvousMessage::tensor_request);
  ASSERT_TRUE(out.add(cached_ask(0)));
  const auto whole = out.finish();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    MessageReader in(cut);
    EXPECT_FALSE(in.valid()) << bytes;
    if (bytes < 2) continue;
    const auto claimed = static_cast<std::uint16_t>(bytes);  // and says that it is so short
    std::memcpy(cut.data(), &claimed, sizeof claimed);
    MessageReader shorter(cut);
    EXPECT_FALSE(shorter.ask()) << bytes;
    EXPECT_FALSE(shorter.valid()) << bytes;
  }
}

TEST(RendezvousWire, RefusesADestinationThatIsNotTheMetadatas) {
  auto out = writer(RendezvousMessage::tensor_request);
  Ask ask = cached_ask(0);
  ask.destination.bytes = 61;
  ASSERT_TRUE(out.add(ask));
  MessageReader in(out.finish());
  EXPECT_FALSE(in.ask());
  EXPECT_FALSE(in.valid());
}

TEST(RendezvousWire, RefusesAnotherTypesRecord) {
  auto out = writer(RendezvousMessage::cancel);
  ASSERT_TRUE(out.add(CancelAsk{.item = 1}));
  MessageReader in(out.finish());
  EXPECT_FALSE(in.ask_again());
  EXPECT_FALSE(in.valid());
}

TEST(RendezvousWire, SurvivesRandomBytes) {
  const auto seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::size_t understood = 0;
  for (int round = 0; round < 50'000; ++round) {
    auto out = writer(RendezvousMessage::tensor_request);
    out.add(cached_ask(0));
    out.add(cached_ask(1));
    const auto bytes = out.finish();
    for (int flips = 1 + static_cast<int>(random() % 4); flips-- > 0;)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    MessageReader in(bytes);
    while (const auto ask = in.ask()) {
      ++understood;
      ASSERT_LT(ask->item, kGroupItems);
      ASSERT_LE(ask->name.size(), kMaxKey);
      ASSERT_TRUE(ask->index || !ask->name.empty());
      ASSERT_EQ(ask->destination.bytes, ask->metadata ? ask->metadata->bytes() : 0);
    }
  }
  EXPECT_GT(understood, 0U);
}

}  // namespace
}  // namespace weft::p2p::rendezvous
