// The control messages about slots: attach, flow when it is held up, teardown.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "p2p/slot/attach/contract.hpp"
#include "p2p/transport/channel.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpu_way.hpp"

namespace weft::p2p {

template <std::size_t N>
struct FixedText {
  std::array<char, N> chars{};

  void set(std::string_view text) noexcept {
    const std::size_t count = text.size() < N - 1 ? text.size() : N - 1;
    std::memcpy(chars.data(), text.data(), count);
    chars[count] = '\0';
  }
  std::string get() const { return {chars.data(), ::strnlen(chars.data(), N)}; }
  /// True if the text ends within its field. It does after set(); a text from another rank may not.
  bool ended() const noexcept { return ::strnlen(chars.data(), N) < N; }
};

inline constexpr std::size_t kMaxSlotName = 200;
inline constexpr std::uint32_t kMaxDepth = 4096;
inline constexpr std::uint32_t kMaxDynamicDepth = 32;

struct SpecOnWire {
  FixedText<kMaxSlotName + 1> name;
  std::uint8_t dtype = 0;
  std::uint8_t dims = 0;
  std::uint8_t writer = 0;
  std::uint8_t flow = 0;
  std::array<std::uint8_t, 3> reserved{};
  std::uint32_t depth = 0;
  std::uint32_t placement = 0;
  std::array<std::int64_t, Shape::kMaxDims> dim{};
};

SpecOnWire to_wire(const Contract& spec) noexcept;
/// Bytes of what a put writes into one of the slot's buffers.
std::size_t payload_bytes(const Contract& spec) noexcept;
/// nullopt when the bytes are no valid contract.
std::optional<Contract> from_wire(const SpecOnWire& wire);
/// "written by a peer" or "written by its owner".
const char* written_by(Writer writer) noexcept;
/// "f32[2, 3] depth 1, written by a peer, with credits".
std::string describe(const Contract& spec);

/// The record that a put writes into a dynamic slot: the tensor's shape, and where the owner can
/// read it. Only as many dimensions as the slot has travel.
struct DynamicRecord {
  std::uint64_t offset = 0;
  std::uint32_t chunk = 0;  ///< of the rank that put
  std::int32_t rank = -1;
  std::array<std::int64_t, Shape::kMaxDims> dim{};

  static constexpr std::size_t bytes(std::size_t dims) noexcept {
    return offsetof(DynamicRecord, dim) + dims * sizeof(std::int64_t);
  }
};

/// Asks for a chunk that a record referred to and that is not known here yet.
struct ChunkWantedMessage {
  static constexpr MessageType kType = MessageType::chunk_wanted;
  MessageType type = kType;
  std::uint32_t chunk = 0;
};

struct AttachMessage {
  static constexpr MessageType kType = MessageType::attach;
  MessageType type = kType;
  std::uint32_t take_declared = 0;  ///< 1: only name and writer are compared
  std::uint64_t remote_id = 0;
  std::uint64_t tails_up_to = 0;  ///< writer: Channel::tails_up_to()
  /// writer: bytes of a chunk in which it would put tensors on GPUs that are staged; 0: it uses no
  /// GPU.
  std::uint64_t chunk_bytes = 0;
  MemoryRef credit_word;  ///< in the asker's control arena: credits, or the newest version
  SpecOnWire spec;
};

struct AttachedMessage {
  static constexpr MessageType kType = MessageType::attached;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t slot_id = 0;
  std::uint64_t attachment_id = 0;
  SpecOnWire spec;
  MemoryRef lines;             ///< writer: SlotLines; reader: PublishedWords
  MemoryRef buffers;           ///< empty when the tensors travel in the lines
  std::uint64_t stride = 0;    ///< from buffer to buffer
  MemoryRef reader_words;      ///< reader's ReaderWords
  std::uint64_t newest = 0;    ///< reader's: as in PublishedWords
  std::uint64_t sequence = 0;  ///< writer: the last one put; reader: the last version not to view
  std::uint64_t released = 0;  ///< writer: the highest sequence the owner has let go
  std::uint32_t notification_id = 0;  ///< writer: what the owner's channel calls the lines
  std::uint32_t padding = 0;
  MemoryRef tails;  ///< writer: buffers with words behind them (TailBuffers), or empty
  std::uint64_t tail_stride = 0;  ///< from one of these to the next
  /// writer: the buffers on a GPU that the writer's GPU may copy into, in place of `buffers`, or
  /// empty. A put that goes there has its number in the line's payload too.
  MemoryRef gpu_buffers;
  std::uint64_t gpu_stride = 0;  ///< from one of these to the next
  MemoryRef gpu_page;            ///< where the writer's GPU proves that it reaches them
  /// Why there are none, if the slot lies on a GPU; mapped: there are; nic: `buffers` are there.
  cuda::GpuWay gpu_way = cuda::GpuWay::other_host;
  std::uint32_t on_gpu = 0;  ///< 1: the slot lies on a GPU
  /// writer: words for the chunks of a tensor, all but the last (StagedChunks), or empty.
  MemoryRef chunk_words;
  std::uint64_t chunk_bytes = 0;   ///< of each chunk but the last; 0: tensors come whole
  std::uint64_t chunks_above = 0;  ///< the number that those words have now
  std::uint32_t chunk_id = 0;      ///< what the owner's channel calls the first of these words
  std::uint32_t padding_2 = 0;
};

/// A writer's way to a slot on a GPU; or (unproven) a question: it has written the page of
/// AttachedMessage, whose first word is `nonce`.
struct GpuWayMessage {
  static constexpr MessageType kType = MessageType::gpu_way;
  MessageType type = kType;
  cuda::GpuWay way = cuda::GpuWay::unproven;
  std::uint64_t slot_id = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t nonce = 0;
};

/// Whether the owner's GPU reads that page as it was written.
struct GpuPageSeenMessage {
  static constexpr MessageType kType = MessageType::gpu_page_seen;
  MessageType type = kType;
  std::uint32_t seen = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t nonce = 0;
};

struct RefusedMessage {
  static constexpr MessageType kType = MessageType::refused;
  MessageType type = kType;
  std::uint32_t code = 0;
  std::uint64_t remote_id = 0;
  FixedText<1024> text;
};

struct WithdrawMessage {
  static constexpr MessageType kType = MessageType::withdraw;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
};

struct DetachMessage {
  static constexpr MessageType kType = MessageType::detach;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t slot_id = 0;
  std::uint64_t attachment_id = 0;
  std::uint64_t remote_id = 0;
};

struct DetachedMessage {
  static constexpr MessageType kType = MessageType::detached;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
};

/// To whom has an end; or to whom only asks for one: the slot was closed before.
struct ClosedMessage {
  static constexpr MessageType kType = MessageType::closed;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
};

struct ClosedAgreedMessage {
  static constexpr MessageType kType = MessageType::closed_agreed;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t slot_id = 0;
  std::uint64_t attachment_id = 0;
};

/// How long a writer is held up before it asks for what the owner may have let go without having
/// reported it: with more than two buffers, not every release is worth a write.
inline constexpr std::chrono::milliseconds kHeldUp{10};
inline constexpr std::uint32_t kReportsAllUpTo = 2;  ///< buffers

struct CreditWantedMessage {
  static constexpr MessageType kType = MessageType::credit_wanted;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t slot_id = 0;
  std::uint64_t remote_id = 0;
};

/// WEFT_CHECK=flow: a put into a synchronous slot has no credit. That the credit has not come
/// proves nothing: the put may follow the release by way of a third rank, and the credit be slower.
/// If the release came first, it is there when the question is.
struct FlowQuestionMessage {
  static constexpr MessageType kType = MessageType::flow_question;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t slot_id = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t ticket = 0;  ///< of the put; the answer repeats it
};

struct FlowAnswerMessage {
  static constexpr MessageType kType = MessageType::flow_answer;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t ticket = 0;
  std::uint64_t released = 0;  ///< the highest sequence that the owner had let go by then
};

/// The writer has refused a put, and tensor `sequence` will not come before another put. Sent once
/// for each sequence.
struct PutRefusedMessage {
  static constexpr MessageType kType = MessageType::put_refused;
  MessageType type = kType;
  std::uint32_t code = 0;
  std::uint64_t slot_id = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t sequence = 0;
  FixedText<512> text;
};

}  // namespace weft::p2p
