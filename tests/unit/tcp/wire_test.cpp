// A head is accepted only if its values are possible and within bounds.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>

#include "p2p/transport/tcp/checksum.hpp"
#include "p2p/transport/tcp/exports.hpp"
#include "p2p/transport/tcp/wire.hpp"

namespace weft::p2p::tcp {
namespace {

std::span<const std::byte, sizeof(Head)> bytes_of(const Head& head) {
  return std::as_bytes(std::span<const Head, 1>(&head, 1));
}

TEST(Heads, ComeAsTheyWereSent) {
  const Head sent{.kind = Kind::put,
                  .index = 7,
                  .bytes = 1 << 20,
                  .address = 4096,
                  .key = 0x1000003,
                  .sequence = 42};
  const ParsedHead parsed = parse_head(bytes_of(sent));
  ASSERT_EQ(parsed.trouble, nullptr);
  EXPECT_EQ(std::memcmp(&parsed.head, &sent, sizeof sent), 0);
}

TEST(Heads, AreRefusedWhereTheyCannotBeOne) {
  const auto is_refused = [](const Head& head) { return parse_head(bytes_of(head)).trouble; };
  EXPECT_NE(is_refused({.magic = 0}), nullptr);
  EXPECT_NE(is_refused({.kind = static_cast<Kind>(0)}), nullptr);
  EXPECT_NE(is_refused({.kind = static_cast<Kind>(200)}), nullptr);
  EXPECT_NE(is_refused({.bytes = ~std::uint64_t{0}}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::word, .address = 4}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::word, .bytes = 8}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::message, .bytes = 0}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::message, .bytes = kMostMessage + 1}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::get, .bytes = 0}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::get, .bytes = sizeof(GetPiece) + 1}), nullptr);
  EXPECT_NE(is_refused({.kind = Kind::get, .bytes = (kMostPieces + 1) * sizeof(GetPiece)}),
            nullptr);
  EXPECT_EQ(is_refused({.kind = Kind::bell}), nullptr);
}

TEST(Heads, OfAnyBytesAreReadOrRefused) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    Head head;
    auto bytes = std::as_writable_bytes(std::span(&head, 1));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 2 == 0) head.magic = Head::kMagic;
    const ParsedHead parsed = parse_head(bytes_of(head));
    if (parsed.trouble != nullptr) continue;
    EXPECT_LE(parsed.head.kind, Kind::last);
    EXPECT_TRUE(parsed.head.kind != Kind::message || parsed.head.bytes <= kMostMessage);
  }
}

TEST(Exports, AreFoundOnlyWithinTheirBounds) {
  std::array<std::byte, 256> memory{};
  constexpr auto chunk_of = [](ArenaSort sort) { return static_cast<std::uint32_t>(sort) << 24; };
  const std::uint32_t data = chunk_of(ArenaSort::data);
  using Access = Exports::Access;
  Exports exports;
  EXPECT_EQ(exports.find(data, 0, 1, Access::put), nullptr);
  for (const ArenaSort sort :
       {ArenaSort::control, ArenaSort::data, ArenaSort::published, ArenaSort::staging})
    exports.add(chunk_of(sort), memory.data(), memory.size());
  EXPECT_EQ(exports.find(data, 16, 240, Access::put), memory.data() + 16);
  EXPECT_EQ(exports.find(data, 16, 241, Access::put), nullptr);
  EXPECT_EQ(exports.find(data, 257, 0, Access::put), nullptr);
  EXPECT_EQ(exports.find(data, 16, ~std::uint64_t{0}, Access::put), nullptr);
  EXPECT_EQ(exports.find(data, ~std::uint64_t{0}, 17, Access::put), nullptr);
  EXPECT_EQ(exports.find(data, 0, 8, Access::word), nullptr);
  EXPECT_NE(exports.find(chunk_of(ArenaSort::control), 0, 8, Access::word), nullptr);
  EXPECT_EQ(exports.find(chunk_of(ArenaSort::published), 0, 8, Access::put), nullptr);
  EXPECT_NE(exports.find(chunk_of(ArenaSort::published), 0, 8, Access::get), nullptr);
  EXPECT_EQ(exports.find(chunk_of(ArenaSort::staging), 0, 8, Access::get), nullptr);
  exports.remove(data);
  EXPECT_EQ(exports.find(data, 16, 240, Access::put), nullptr);
}

TEST(Checksums, AreTheSameHoweverThePayloadLies) {
  std::array<std::byte, 1000> payload{};
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i);
  const Head head{.bytes = payload.size(), .sequence = 3};
  const std::array<iovec, 1> whole{{{payload.data(), payload.size()}}};
  const std::array<iovec, 3> parts{
      {{payload.data(), 1}, {payload.data() + 1, 700}, {payload.data() + 701, 299}}};
  const std::uint64_t sum = checksum(head, whole);
  EXPECT_EQ(checksum(head, parts), sum);
  Head moved = head;
  moved.address = 8;
  EXPECT_NE(checksum(moved, whole), sum);
  payload[500] ^= std::byte{1};
  EXPECT_NE(checksum(head, whole), sum);
}

}  // namespace
}  // namespace weft::p2p::tcp
