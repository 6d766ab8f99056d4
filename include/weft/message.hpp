// Messages: tensors sent to a rank, which receives them by source and tag.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {

class World;

/// As the source of a receive: any rank; the first matching message is taken.
inline constexpr int kAnySource = -1;

/// The tags that a receive matches: those equal to `value` in every bit of `mask`. A plain number
/// matches that tag alone.
struct Tag {
  std::uint64_t value = 0;
  std::uint64_t mask = ~std::uint64_t{0};

  constexpr Tag(std::uint64_t tag) noexcept : value(tag) {}
  constexpr Tag(std::uint64_t tag, std::uint64_t bits) noexcept : value(tag), mask(bits) {}
  /// True if a message with `tag` matches.
  constexpr bool takes(std::uint64_t tag) const noexcept { return ((tag ^ value) & mask) == 0; }
};
/// Matches every tag.
inline constexpr Tag kAnyTag{0, 0};

/// A message as recv() and probe() report it.
struct MessageInfo {
  int source = -1;  ///< the sender's rank
  std::uint64_t tag = 0;
  std::size_t bytes = 0;    ///< size of the message; the receive's tensor may be larger
  DType dtype = DType::u8;  ///< element type of the tensor that was sent
};

namespace detail {
class MessageState;
struct MessageOperation;
}  // namespace detail

/// One isend() or irecv(). Destroying it cancels a receive that no message has matched; any other
/// operation continues on its own and keeps its tensor's handle until it has ended. A failure by
/// this rank's own doing (mismatch and the like) that no call looks at is logged after a second. A
/// default-constructed request has ended well, without a message. In one that outlives its world,
/// an operation that was under way is Code::closed. Thread-safety: as the Messages that made it.
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

  /// True if the operation has ended, successfully or not. Never blocks; makes progress.
  bool test() noexcept;
  /// Waits for the operation to end. A receive returns the message it took; a send returns what was
  /// sent, with this rank as `source`. A timeout leaves the operation alive and its tensor lent to
  /// weft. Errors: those of send() or recv(), cancelled, forked.
  Result<MessageInfo> wait(Deadline deadline = {}) noexcept;
  /// Cancels a receive that no message has matched, or a send that has not left this rank, and
  /// returns Code::cancelled, as does wait() from then on. An operation that has ended is
  /// unchanged, and its status is returned. Errors: bad_argument (the receiver knows of the tensor,
  /// or a message is being read into it or copied to its GPU; wait for the request).
  Status cancel() noexcept;

 private:
  friend class detail::MessageState;
  friend class World;
  void take(MessageRequest& other) noexcept {
    state_ = other.state_;
    life_ = other.life_;
    mark_ = other.mark_;
    operation_ = std::exchange(other.operation_, nullptr);
    info_ = std::exchange(other.info_, {});
    status_ = std::move(other.status_);
  }
  void release_request() noexcept {
    if (operation_ != nullptr) abandon();
  }
  void abandon() noexcept;
  /// The application looks at the outcome of an operation that has ended.
  void look() const noexcept;
  /// Whether the world has gone, and the operation with it.
  bool orphaned() noexcept;

  detail::MessageState* state_ = nullptr;
  /// Says whether the state is still there: the word equals the mark as long as it is.
  const std::atomic<std::uint64_t>* life_ = nullptr;
  std::uint64_t mark_ = 0;
  detail::MessageOperation* operation_ = nullptr;  ///< null once the operation has ended
  MessageInfo info_;
  Status status_;
};

/// Sends and receives between any two ranks of a world. A message is the elements of one dense
/// tensor and a tag; the shape is not sent. It is received into a tensor of the same element type,
/// or of u8, which takes the bytes of any type. A tensor without elements (shape {0}) makes an
/// empty message; one without memory (Tensor) is Code::bad_argument.
///
/// Order: of the messages from one rank to another, a receive takes the first sent that matches,
/// and a message goes to the first posted receive that matches it.
///
/// Eager: a message of up to 4 KiB is copied into a ring at the receiver if the ring has room,
/// which ends the send. Rendezvous: a larger one is offered in the ring; the receiver reads it from
/// the sender's tensor into its own, which ends the send. Messages that are not received stay in
/// the ring, which holds up to 128 messages of each sender (64 in jobs of more than 64 ranks, 32 in
/// jobs of more than 1024). Further messages wait at the sender and never take the receiver's
/// memory, so a rank that receives out of order must not fall behind by more than that.
///
/// Messages make progress only inside calls of weft that wait or test: a rank that computes neither
/// sends queued messages nor reads offered ones. The first message to a rank costs one round trip
/// of control messages.
///
/// A handle; all handles of a world share one state. Thread-safety: one thread per world at a time.
class WEFT_API Messages {
 public:
  /// Throws Error: forked, closed, bad_argument (an empty World).
  explicit Messages(World& world);

  /// Sends `tensor` to rank `to` and returns when the tensor may be written again. A tensor outside
  /// the world's memory (Tensor::wrap) that is too large for the ring is staged, and counted as
  /// copied. A dense tensor on a GPU is copied into host memory first, counted as staged, and
  /// isend() waits for that: system if the GPU fails, timeout if its copy is late. Errors: timeout
  /// (names the receiver; an offered tensor stays lent, any other was not sent), peer_failed,
  /// peer_left, bad_argument, exhausted, closed (this rank is leaving), forked.
  Status send(int to, std::uint64_t tag, const Tensor& tensor, Deadline deadline = {}) noexcept;
  /// As send(), without waiting. The tensor is lent until the request has ended; its handle is held
  /// until then.
  MessageRequest isend(int to, std::uint64_t tag, const Tensor& tensor) noexcept;

  /// Receives a message of rank `from` (or kAnySource) that matches `tag` into the first bytes of
  /// `into`. Errors: timeout (nothing was taken; by RDMA, a tensor into which a message was being
  /// read stays lent until the NIC is done with it), mismatch (the message is larger than `into`,
  /// or of another element type, and the text has both; it is dropped), exhausted (memory or
  /// descriptors; the message stays for the next receive), peer_failed or peer_left (the source;
  /// with kAnySource, every other rank), bad_argument, forked. Into a tensor on a GPU the message
  /// goes by way of host memory; if the GPU fails (system) or its copy is late (timeout), the
  /// message is dropped.
  Result<MessageInfo> recv(int from, Tag tag, const Tensor& into, Deadline deadline = {}) noexcept;
  /// As recv(), without waiting. `into` is lent until the request has ended. If it lies on a GPU,
  /// calls that make progress begin and follow the copy; a wait that is too short for it leaves the
  /// request alive, and if the GPU fails the message is dropped.
  MessageRequest irecv(int from, Tag tag, const Tensor& into) noexcept;

  /// Sends and receives at once, so that ranks which exchange don't wait for each other's receive.
  /// Returns the receive's message, or the error of either: a send that fails at once ends the
  /// call, and nothing is received. After a timeout an offered `tensor` stays lent.
  Result<MessageInfo> sendrecv(int to, std::uint64_t tag, const Tensor& tensor, int from,
                               Tag from_tag, const Tensor& into, Deadline deadline = {}) noexcept;

  /// Waits for a message that recv() with the same `from` and `tag` would take, and leaves it in
  /// place. Errors: timeout, peer_failed, peer_left, bad_argument, forked.
  Result<MessageInfo> probe(int from, Tag tag, Deadline deadline = {}) noexcept;
  /// The message that probe() would return at once; nullopt if there is none. Makes progress.
  std::optional<MessageInfo> iprobe(int from, Tag tag) noexcept;

  /// Waits for all of `requests` to end; each can then be asked by wait(). Returns the first
  /// failure in their order, or ok. After a timeout, requests that have not ended stay alive.
  Status wait_all(std::span<MessageRequest> requests, Deadline deadline = {}) noexcept;
  /// Waits for one of `requests` to end and returns its index. If several have ended, successive
  /// calls return each in turn. The timeout's text names the requests with their peers (32 at
  /// most).
  Result<std::size_t> wait_any(std::span<MessageRequest> requests, Deadline deadline = {}) noexcept;

 private:
  std::shared_ptr<detail::MessageState> state_;
};

}  // namespace weft
