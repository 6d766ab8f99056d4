// The rendezvous messages as bytes. Another process wrote the bytes, so every field is checked
// before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "p2p/rendezvous/metadata.hpp"
#include "p2p/transport/fabric.hpp"
#include "weft/error.hpp"
#include "weft/rendezvous.hpp"

namespace weft::p2p::rendezvous {

inline constexpr std::size_t kMaxKey = 128;
inline constexpr std::size_t kMaxErrorText = 128;
inline constexpr std::uint32_t kProtocol = 3;
/// The requests of one message form a group: their completion words are adjacent.
inline constexpr std::uint32_t kGroupItems = 32;
inline constexpr std::uint32_t kMaxGroups = 4096;

/// Identifies one request between two ranks. Groups are reused; `generation` tells one use from the
/// next.
struct RequestId {
  std::uint32_t group = 0;
  std::uint32_t generation = 0;
  std::uint32_t item = 0;
  friend bool operator==(const RequestId&, const RequestId&) noexcept = default;
};

/// Offset of a request's completion word from the receiver's first one. The word holds the
/// generation once the tensor is complete. Each request has its own word because puts may overtake
/// each other. The words of one group share cache lines; words of different groups do not.
inline constexpr std::uint64_t kGroupBytes = kGroupItems * sizeof(std::uint64_t);
inline std::uint32_t word_index(const RequestId& id) noexcept {
  return id.group * kGroupItems + id.item;
}
inline std::uint64_t word_offset(const RequestId& id) noexcept {
  return word_index(id) * sizeof(std::uint64_t);
}

struct Hello {
  std::uint32_t protocol = kProtocol;
  std::uint32_t groups = 0;
  MemoryRef words;
  std::uint32_t notification_id = 0;  ///< of the first word, on the receiver's channel
};

/// A requested tensor. The first request for a key with an index carries `index` and `name`; later
/// ones carry only the index. Without an index, always `name`.
struct Ask {
  std::uint32_t item = 0;
  std::uint64_t step = 0;
  std::optional<std::uint32_t> index;
  std::string_view name;
  std::optional<Metadata> metadata;  ///< the metadata that the receiver expects
  MemoryRef destination;             ///< bytes 0: no memory allocated yet
};

struct MetadataAnswer {
  std::uint32_t item = 0;
  Metadata metadata;
};

struct AskAgain {
  std::uint32_t item = 0;
  MemoryRef destination;
};

struct ErrorAnswer {
  std::uint32_t item = 0;
  Code code = Code::system;
  bool by_application = false;  ///< it was given to send_error()
  std::string_view text{};
};

struct CancelAsk {
  std::uint32_t item = 0;
};

/// Writes records of one type and one group into a message.
class MessageWriter {
 public:
  MessageWriter(std::span<std::byte> buffer, RendezvousMessage type, std::uint32_t group,
                std::uint32_t generation) noexcept;

  /// False if the record does not fit; the message is then unchanged.
  bool add(const Hello& record) noexcept;
  bool add(const Ask& record) noexcept;
  bool add(const MetadataAnswer& record) noexcept;
  bool add(const AskAgain& record) noexcept;
  bool add(const ErrorAnswer& record) noexcept;
  bool add(const CancelAsk& record) noexcept;

  std::uint32_t count() const noexcept { return count_; }
  /// Writes the head. Returns the used part of the buffer.
  std::span<std::byte> finish() noexcept;

 private:
  template <typename Write>
  bool record(const Write& write) noexcept;

  std::span<std::byte> buffer_;
  const RendezvousMessage type_;
  const std::uint32_t group_;
  const std::uint32_t generation_;
  std::uint32_t count_ = 0;
  std::size_t used_ = 0;
};

/// Reads a message. The records view the bytes, which must not change meanwhile.
class MessageReader {
 public:
  /// `bytes` may be longer than the message it starts with.
  explicit MessageReader(std::span<const std::byte> bytes) noexcept;

  /// False if the message is malformed; no records can be read then.
  bool valid() const noexcept { return valid_; }
  RendezvousMessage type() const noexcept { return type_; }
  std::uint32_t group() const noexcept { return group_; }
  std::uint32_t generation() const noexcept { return generation_; }

  /// The next record; nullopt at the end, or if the bytes are malformed (valid() is then false).
  std::optional<Hello> hello() noexcept;
  std::optional<Ask> ask() noexcept;
  std::optional<MetadataAnswer> metadata() noexcept;
  std::optional<AskAgain> ask_again() noexcept;
  std::optional<ErrorAnswer> error() noexcept;
  std::optional<CancelAsk> cancel() noexcept;

 private:
  template <typename Record, typename Read>
  std::optional<Record> record(RendezvousMessage type, const Read& read) noexcept;

  std::span<const std::byte> rest_;
  RendezvousMessage type_{};
  std::uint32_t group_ = 0;
  std::uint32_t generation_ = 0;
  std::uint32_t left_ = 0;
  bool valid_ = false;
};

}  // namespace weft::p2p::rendezvous
