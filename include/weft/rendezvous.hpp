// Tensors exchanged by key and step: the receiver asks, the sender writes into the result itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/group.hpp"
#include "weft/tensor.hpp"

namespace weft {

class World;

/// What two ranks say to each other about a tensor; `tensor` is its one-sided write.
enum class RendezvousMessage : std::uint8_t {
  hello,               ///< where the receiver's completion words lie; once for each pair
  tensor_request,      ///< the receiver asks, with the result's place when it knows the metadata
  meta_data_response,  ///< the sender tells dtype, shape and the rest: they were not known, or
                       ///< differ
  tensor_re_request,   ///< the receiver asks again, with the result's place
  tensor,              ///< the bytes and their completion
  error_status,        ///< the tensor will not come
  cancel  ///< the receiver does not want it any more; answered by error_status or tensor
};
WEFT_API std::string_view name(RendezvousMessage message) noexcept;

/// One message, as an observer sees it.
struct RendezvousEvent {
  RendezvousMessage message = RendezvousMessage::hello;
  bool sent = false;  ///< false: received
  int peer = -1;
  std::string_view key;  ///< valid during the call
  std::uint64_t step = 0;
  bool by_name = false;        ///< a request that carried the key's name, not its index alone
  bool with_metadata = false;  ///< a request that said where the result lies
};

/// What every rank that opens a rendezvous says of it. The limits are this rank's own.
struct RendezvousSpec {
  std::string name = "default";  ///< the same on every rank; 1 to 100 bytes
  /// Tensors offered to one receiver and not fetched yet. Above either limit send() waits. A tensor
  /// larger than all of max_parked_bytes is accepted when it is the only one.
  std::size_t max_parked_bytes = std::size_t{256} << 20;
  std::uint32_t max_parked = 1024;
  /// Requests of one receiver for tensors that are not there yet; those above are refused with
  /// Code::exhausted.
  std::uint32_t max_parked_requests = 2048;
  std::uint32_t message_bytes = 512;  ///< the same on every rank; 256 to 1536
  /// What the protocol saves; each can be switched off, so that its worth can be measured.
  bool cache_metadata = true;  ///< else every exchange takes the extra round trip
  bool index_keys = true;      ///< else every request carries its key's name
  bool batch_requests = true;  ///< else every request is a message of its own
  /// Sees every message of this rank, in order for each peer. Called with a lock held, by any
  /// thread: it must be quick and must not call the rendezvous.
  std::function<void(const RendezvousEvent&)> observer = {};
};

/// A value that is not plain bytes and can be written as such. An implementation may throw from
/// encode and decode; what it throws becomes the call's status.
class WEFT_API Codec {
 public:
  virtual ~Codec();
  /// Names the encoding; not 0. Both ends must agree.
  virtual std::uint16_t id() const = 0;
  virtual std::size_t size() const = 0;
  /// `to` has size() bytes.
  virtual void encode(std::span<std::byte> to) const = 0;
  virtual void decode(std::span<const std::byte> from) = 0;
};

/// What recv() got: a tensor in this rank's data arena, which is the caller's.
struct WEFT_API Received {
  Tensor tensor;
  bool is_dead = false;     ///< it has no content: the sender's branch was not taken
  std::uint16_t codec = 0;  ///< not 0: the tensor holds the bytes of an encoded value

  /// Decodes into `value`. Errors: mismatch (another codec, or none), bad_argument with what the
  /// codec threw.
  Status decode(Codec& value) const noexcept;
};

/// A tensor's name within an exchange between two ranks. Each is exchanged once.
struct KeyStep {
  std::string_view key;  ///< 1 to 128 bytes
  std::uint64_t step = 0;
};

namespace detail {
class RendezvousState;
}

/// Receiver-driven exchange of tensors by (key, step) between any two ranks. Both ends come in
/// either order. A tensor of known dtype and shape takes one request and one write into the result
/// tensor itself: no copy, no other message. A new or changed shape takes one more round trip.
///
/// What is offered is answered by any thread that is inside one of these calls, else by the rank's
/// progress thread: the application may compute. Thread-safety: every member may be called
/// concurrently, except destruction. Must go before its world.
///
/// Source: TensorFlow's note "Verbs implementation to use direct tensor writes (0 copies)".
class WEFT_API Rendezvous {
 public:
  /// Opens the exchange between all ranks of the world; every rank must do it, with the same name
  /// and message_bytes. A name may be opened again once every rank has destroyed the former
  /// exchange, which the ranks must make sure of. Throws Error: bad_argument, duplicate_name,
  /// mismatch, timeout (naming the rank that has not opened it), peer_failed, peer_left, exhausted.
  static Rendezvous open(World& world, const RendezvousSpec& spec = {}, Deadline deadline = {});
  /// The same between the members of a group alone, this rank among them: the survivors' after
  /// Group::shrink(), say. Other ranks are bad_argument to its calls. Each group
  /// has exchanges of its own, of the same names as others.
  static Rendezvous open(World& world, const Group& group, const RendezvousSpec& spec = {},
                         Deadline deadline = {});

  Rendezvous() noexcept;
  Rendezvous(Rendezvous&&) noexcept;
  Rendezvous& operator=(Rendezvous&&) noexcept;
  /// Returns at once. What was offered and not fetched is dropped: its receivers get Code::closed.
  /// What was asked for stays lent, unseen, until its senders can't write it any more.
  ~Rendezvous();

  /// Offers a tensor to a rank. Returns when it is parked or moved; it is lent until the receiver
  /// has fetched it or, needing to be told a new shape, made this rank clone it (counted as
  /// copied). A tensor outside the rank's arenas that was not adopted is cloned at once, and then
  /// never lent. Errors: timeout (too much is parked; names the receiver and the oldest key that it
  /// has not fetched; the tensor is not offered), bad_argument (also: this key and step were
  /// offered before), peer_failed, peer_left, closed, exhausted.
  Status send(int to, std::string_view key, std::uint64_t step, const Tensor& tensor,
              Deadline deadline = {}) noexcept;
  /// A tensor without content: the receiver's is_dead is set.
  Status send_dead(int to, std::string_view key, std::uint64_t step,
                   Deadline deadline = {}) noexcept;
  /// There will be none: the receiver's recv() ends with `code` and `text`.
  Status send_error(int to, std::string_view key, std::uint64_t step, Code code,
                    std::string_view text, Deadline deadline = {}) noexcept;
  /// Encodes a value into the rank's arena (counted as copied) and offers the bytes.
  Status send_encoded(int to, std::string_view key, std::uint64_t step, const Codec& value,
                      Deadline deadline = {}) noexcept;

  /// Whether a tensor that was offered is still read from where the caller has it.
  bool lent(int to, std::string_view key, std::uint64_t step) const noexcept;
  /// Answers requests until everything that this rank has offered was fetched. Errors: timeout
  /// (names the receiver and the oldest key that it has not fetched), peer_failed or peer_left
  /// (a receiver that is gone will not fetch what it was offered, which is dropped), closed.
  Status serve(Deadline deadline = {}) noexcept;

  /// Gets a tensor that `from` offers to this rank. A timeout leaves the request alive: another
  /// recv() of the same key and step takes it up again, cancel() ends it. Errors: timeout (names
  /// key, step and sender), peer_failed, peer_left, closed, exhausted, bad_argument (also: this key
  /// and step are being received or were received before), whatever the sender gave to
  /// send_error().
  Result<Received> recv(int from, std::string_view key, std::uint64_t step,
                        Deadline deadline = {}) noexcept;
  /// Many at once, in as few messages as they fit in; the results in the order of `wanted`.
  std::vector<Result<Received>> recv(int from, std::span<const KeyStep> wanted,
                                     Deadline deadline = {});
  /// Ends a request that a timeout left behind. Its result stays lent until the sender has agreed.
  /// bad_argument when there is none, or a thread waits for it.
  Status cancel(int from, std::string_view key, std::uint64_t step) noexcept;

 private:
  explicit Rendezvous(std::shared_ptr<detail::RendezvousState> state) noexcept;
  std::shared_ptr<detail::RendezvousState> state_;
};

}  // namespace weft
