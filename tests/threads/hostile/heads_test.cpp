// For each kind of record that a peer writes, one function checks the record and refuses corrupted
// ones.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>

#include "p2p/memory/arena.hpp"
#include "p2p/memory/copy_once.hpp"
#include "p2p/message/ring.hpp"
#include "p2p/rendezvous/wire.hpp"
#include "p2p/slot/attach/grant.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/put/chunk_words.hpp"

namespace weft::tests {
namespace {

using namespace p2p;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

constexpr std::size_t kDims = 2;

TEST(ARecordOfADynamicSlot, HasATensorsShapeAndARankOfTheJob) {
  DynamicRecord record{.rank = 1};
  record.dim = {3, 4};
  ASSERT_TRUE(shape_of(record, kDims, 2));
  EXPECT_EQ(*shape_of(record, kDims, 2), (Shape{3, 4}));
  for (const int rank : {-1, 2, std::numeric_limits<int>::max()}) {
    record.rank = rank;
    EXPECT_FALSE(shape_of(record, kDims, 2)) << rank;
  }
  record.rank = 0;
  for (const std::int64_t dim : {std::int64_t{-1}, kHuge, std::int64_t{1} << 62}) {
    record.dim = {dim, 4};
    EXPECT_FALSE(shape_of(record, kDims, 2)) << dim;
  }
  record.dim = {0, kHuge};  // a zero hides no overflow
  EXPECT_FALSE(shape_of(record, kDims, 2) && shape_of(record, kDims, 2)->elements() != 0);
}

TEST(AHeadInARing, HasRoomForItsPayloadAndIsInTurn) {
  using namespace message;
  const auto head = [](std::uint64_t sequence, std::uint64_t size) {
    return Head{.sequence = sequence, .size = size};
  };
  EXPECT_EQ(
      fault_of(head(7, Head::pack(Kind::in_cell, DType::f32, Cell::kPayload)), 7, Place::cell),
      nullptr);
  EXPECT_NE(
      fault_of(head(7, Head::pack(Kind::in_cell, DType::f32, Cell::kPayload + 1)), 7, Place::cell),
      nullptr);
  EXPECT_NE(fault_of(head(6, Head::pack(Kind::in_cell, DType::f32, 8)), 7, Place::cell), nullptr);
  EXPECT_NE(fault_of(head(7, Head::pack(Kind::in_long, DType::f32, 8)), 7, Place::cell), nullptr);
  EXPECT_NE(fault_of(head(7, Head::pack(Kind::in_cell, static_cast<DType>(9), 8)), 7, Place::cell),
            nullptr);
  EXPECT_NE(fault_of(head(7, ~std::uint64_t{0}), 7, Place::cell), nullptr);
  EXPECT_EQ(fault_of(head(7, Head::pack(Kind::in_long, DType::f32, Geometry::kLongPayload)), 7,
                     Place::long_buffer),
            nullptr);
  EXPECT_NE(fault_of(head(7, Head::pack(Kind::in_long, DType::f32, Geometry::kLongPayload + 1)), 7,
                     Place::long_buffer),
            nullptr);
  EXPECT_NE(fault_of(head(7, Head::pack(Kind::offered, DType::f32, 8)), 7, Place::long_buffer),
            nullptr);
  EXPECT_NE(fault_of(Offer{.ack = SenderWords::kOffers}), nullptr);
}

AttachedMessage granted_for(const Contract& spec) {
  AttachedMessage message;
  message.spec = to_wire(spec);
  message.lines = {0, 0, 64 * spec.depth};
  message.stride = 4096;
  message.buffers = {static_cast<std::uint32_t>(ArenaSort::data) << 24, 0, 4096 * spec.depth};
  return message;
}

TEST(AGrantOfASlot, IsOfMemoryThatAWriterMayWrite) {
  const SlotSpec spec{.name = "s", .shape = {1000}, .depth = 2};
  AttachedMessage message = granted_for(spec);
  EXPECT_TRUE(makes_sense(message, spec));
  message.buffers.chunk = static_cast<std::uint32_t>(ArenaSort::published) << 24;
  EXPECT_FALSE(makes_sense(message, spec));
  message = granted_for(spec);
  message.released = 1;  // of a tensor that was never put
  EXPECT_FALSE(makes_sense(message, spec));
}

TEST(AGrantOfASlot, HasAWordForEachChunkButTheLast) {
  const SlotSpec spec{.name = "s", .shape = {4000}, .depth = 2};  // 16000 bytes
  const auto granted = [&] {
    AttachedMessage message = granted_for(spec);
    message.stride = 16000;
    message.buffers.bytes = 32000;
    message.chunk_bytes = 4096;
    message.chunk_words = {0, 0, 3 * sizeof(std::uint64_t)};
    return message;
  };
  AttachedMessage message = granted();
  ASSERT_TRUE(granted_chunks(message, spec));
  EXPECT_EQ(granted_chunks(message, spec)->count, 4U);
  message.on_gpu = 1;
  EXPECT_FALSE(granted_chunks(message, spec)) << "words for one buffer of two";
  message.chunk_words.bytes *= 2;
  EXPECT_TRUE(granted_chunks(message, spec));
  for (const std::uint64_t bytes : {1UL, 100UL, 4097UL, 16000UL, ~0UL}) {
    message = granted();
    message.chunk_bytes = bytes;
    EXPECT_FALSE(granted_chunks(message, spec)) << bytes;
  }
  message = granted();
  message.chunk_words.chunk = static_cast<std::uint32_t>(ArenaSort::data) << 24;
  EXPECT_FALSE(granted_chunks(message, spec));
  message = granted();
  message.chunk_words.offset = 4;
  EXPECT_FALSE(granted_chunks(message, spec));
  message = granted();
  message.chunks_above = ~std::uint64_t{0};
  EXPECT_FALSE(granted_chunks(message, spec));
}

TEST(WordsOfChunks, GiveAWriterNoNumberAboveOneThatNoneComesTo) {
  const auto control = std::make_shared<Arena>(
      ArenaSort::control, ArenaLimits{.chunk_bytes = 2U << 20U}, std::make_shared<SegmentMapper>());
  ChunkWords words(control, StagedChunks::of(16000, 4096, 2));
  for (const std::uint64_t written : {std::uint64_t{0}, std::uint64_t{7}}) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(words.data())[4].store(written);
    EXPECT_EQ(words.begin_writer(), written + 1);
    EXPECT_EQ(words.at(0, 0), written + 1);
  }
  for (const std::uint64_t written : {~std::uint64_t{0}, std::uint64_t{1} << 62}) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(words.data())[4].store(written);
    EXPECT_EQ(words.begin_writer(), std::nullopt);
    EXPECT_EQ(words.at(0, 0), 8U);
  }
}

TEST(AGrantOfAPublishedSlot, IsOfWholeLinesThatItsOwnerAloneWrites) {
  const PublishedSpec spec{.name = "s", .shape = {1000}, .depth = 2};
  AttachedMessage message = granted_for(spec);
  message.buffers.chunk = static_cast<std::uint32_t>(ArenaSort::published) << 24;
  message.reader_words = {0, 0, ReaderWords::bytes(spec.depth)};
  EXPECT_TRUE(makes_sense(message, spec));
  for (const ArenaSort sort : {ArenaSort::data, ArenaSort::adopted, ArenaSort::control}) {
    message.buffers.chunk = static_cast<std::uint32_t>(sort) << 24;
    EXPECT_FALSE(makes_sense(message, spec));
  }
  message.buffers.chunk = static_cast<std::uint32_t>(ArenaSort::published) << 24;
  message.buffers.offset = 8;
  EXPECT_FALSE(makes_sense(message, spec));
}

TEST(AContract, DiffersByEachThingThatTensorsGoBy) {
  const SlotSpec spec{.name = "s", .shape = {3}, .depth = 2};
  EXPECT_TRUE(same_contract(spec, spec));
  SlotSpec other = spec;
  other.shape = {2};
  EXPECT_FALSE(same_contract(spec, other));
  other = spec;
  other.dtype = DType::f64;
  EXPECT_FALSE(same_contract(spec, other));
  other = spec;
  other.depth = 3;
  EXPECT_FALSE(same_contract(spec, other));
  EXPECT_FALSE(same_contract(spec, PublishedSpec{.name = "s", .shape = {3}, .depth = 2}));
}

TEST(ARefusal, IsAnError) {
  for (const std::uint32_t code : {0U, 20U, 255U, ~0U}) EXPECT_EQ(code_of(code), Code::system);
  EXPECT_EQ(code_of(static_cast<std::uint32_t>(Code::path_failed)), Code::path_failed);
}

TEST(ARequestOfARendezvous, HasItsDestinationWhereOthersMayWrite) {
  using namespace rendezvous;
  for (const ArenaSort sort : {ArenaSort::data, ArenaSort::published, ArenaSort::control}) {
    std::array<std::byte, 512> buffer{};
    MessageWriter writer(buffer, RendezvousMessage::tensor_re_request, 0, 1);
    writer.add(AskAgain{.item = 0, .destination = {static_cast<std::uint32_t>(sort) << 24, 0, 64}});
    MessageReader reader(writer.finish());
    EXPECT_EQ(reader.ask_again().has_value(), sort == ArenaSort::data);
  }
}

TEST(MemoryThatWasMappedForReading, IsNotTakenForWritable) {
  const Segment segment =
      create_shared_segment(1 << 21, {.huge = false}, "weft-test", Access::write);
  SegmentMapper mapper;
  const auto read = mapper.map(segment.fd, 1 << 21, Access::read);
  const auto written = mapper.map(segment.fd, 1 << 21, Access::write);
  written->data()[5] = std::byte{7};  // a fault, if it were the first mapping
  EXPECT_EQ(read->data()[5], std::byte{7});
}

}  // namespace
}  // namespace weft::tests
