// Messages: tensors sent to a rank, which takes them by source and tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {

class World;

/// As the source of a receive: whichever rank's message comes first.
inline constexpr int kAnySource = -1;

/// Which tags a receive takes: those that agree with `value` in every bit of `mask`. A plain number
/// is that tag alone.
struct Tag {
  std::uint64_t value = 0;
  std::uint64_t mask = ~std::uint64_t{0};

  constexpr Tag(std::uint64_t tag) noexcept : value(tag) {}
  constexpr Tag(std::uint64_t tag, std::uint64_t bits) noexcept : value(tag), mask(bits) {}
  constexpr bool takes(std::uint64_t tag) const noexcept { return ((tag ^ value) & mask) == 0; }
};
inline constexpr Tag kAnyTag{0, 0};

/// What a message is, to who received or probed it.
struct MessageInfo {
  int source = -1;
  std::uint64_t tag = 0;
  std::size_t bytes = 0;  ///< of the message: a receive may have had room for more
};

namespace detail {
class MessageState;
struct MessageOperation;
}  // namespace detail

/// One isend() or irecv(). Destroying it ends a receive that no message has matched, and lets any
/// other operation go on by itself; that keeps the tensor's handle until it has ended.
/// Thread-safety: as the Messages it came from; must not outlive the world.
class [[nodiscard]] WEFT_API MessageRequest {
 public:
  MessageRequest() noexcept = default;
  MessageRequest(MessageRequest&& other) noexcept { take(other); }
  MessageRequest& operator=(MessageRequest&& other) noexcept {
    if (this == &other) return *this;
    release_request();
    take(other);
    return *this;
  }
  ~MessageRequest() { release_request(); }

  /// Whether it has ended (well or not); never blocks, and moves on what can be moved.
  bool test() noexcept;
  /// What came of it; of a send, what was sent, with this rank as its source. A timeout leaves it
  /// alive and the tensor lent to it. Errors: those of send() or recv(), cancelled.
  Result<MessageInfo> wait(Deadline deadline = {}) noexcept;
  /// Ends a receive that no message has matched, or a send that has not left this rank
  /// (Code::cancelled from then on, which is what this returns). One that has ended stays as it is.
  /// A tensor that the receiver was told of can't be taken back: bad_argument.
  Status cancel() noexcept;

 private:
  friend class detail::MessageState;
  void take(MessageRequest& other) noexcept {
    state_ = other.state_;
    operation_ = std::exchange(other.operation_, nullptr);
    info_ = other.info_;
    status_ = std::move(other.status_);
  }
  void release_request() noexcept {
    if (operation_ != nullptr) abandon();
  }
  void abandon() noexcept;

  detail::MessageState* state_ = nullptr;
  detail::MessageOperation* operation_ = nullptr;  ///< null once it has ended
  MessageInfo info_;
  Status status_;
};

/// Sends and receives between any two ranks of a world. A message is the bytes of one dense tensor
/// and a tag; dtype and shape don't travel.
///
/// Order: of the messages from one rank to another, a receive takes the first sent that it matches,
/// and a message goes to the first receive posted that takes it.
///
/// Up to 4 KiB a message goes into a ring at its receiver, if it has room, and the send is over.
/// Any other is announced there; the receiver reads it from where it lies into its own tensor, and
/// the send is over once it has. Messages that nobody receives stay in the ring, which holds up to
/// 128 of a sender (fewer in jobs of more than 64 ranks): those that follow wait at the sender,
/// never in the receiver's memory. So a rank that receives out of order must not lag by more than
/// that.
///
/// Messages move within calls that wait, whatever for, or test a request: a rank that computes
/// neither sends what is queued nor reads what was announced. The first message to a rank takes a
/// round trip of control messages.
///
/// A handle; all handles of a world are one. Thread-safety: one thread of a world at a time. Must
/// not outlive the world.
class WEFT_API Messages {
 public:
  explicit Messages(World& world);

  /// Returns when the tensor may be written again. One outside the world's memory (Tensor::wrap) is
  /// staged if it is too large for the ring, and counted as copied. Errors: timeout (names the
  /// receiver; a tensor that it was told of stays lent, any other is not sent), peer_failed,
  /// peer_left, bad_argument, exhausted.
  Status send(int to, std::uint64_t tag, const Tensor& tensor, Deadline deadline = {}) noexcept;
  MessageRequest isend(int to, std::uint64_t tag, const Tensor& tensor) noexcept;

  /// Takes a message into the first bytes of `into`. Errors: timeout (nothing was taken; by RDMA a
  /// tensor that a message was being read into stays lent until the NIC is done with it), mismatch
  /// (the message is larger than `into`, and gone), exhausted (memory or descriptors; the message
  /// is there for the next receive), peer_failed or peer_left (the source; or, with kAnySource,
  /// every other rank), bad_argument.
  Result<MessageInfo> recv(int from, Tag tag, const Tensor& into, Deadline deadline = {}) noexcept;
  MessageRequest irecv(int from, Tag tag, const Tensor& into) noexcept;

  /// Both at once, so that ranks which exchange don't wait for each other's receive. The error of
  /// either; the send's tensor stays lent after a timeout.
  Result<MessageInfo> sendrecv(int to, std::uint64_t tag, const Tensor& tensor, int from,
                               Tag from_tag, const Tensor& into, Deadline deadline = {}) noexcept;

  /// Waits for a message that a recv() of the same source and tag would take, and leaves it there.
  Result<MessageInfo> probe(int from, Tag tag, Deadline deadline = {}) noexcept;
  /// The same if there is one.
  std::optional<MessageInfo> iprobe(int from, Tag tag) noexcept;

  /// Until all have ended: the first failure, or ok. A timeout leaves those alive that have not.
  Status wait_all(std::span<MessageRequest> requests, Deadline deadline = {}) noexcept;
  /// The index of one that has ended; where several have, each gets its turn. A timeout tells the
  /// first four with their peers.
  Result<std::size_t> wait_any(std::span<MessageRequest> requests, Deadline deadline = {}) noexcept;

 private:
  detail::MessageState* state_;
};

}  // namespace weft
