// Rendezvous: tensors exchanged by key and step; the receiver asks, and the sender writes into the
// result.
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
#include "weft/device.hpp"
#include "weft/error.hpp"
#include "weft/group.hpp"
#include "weft/tensor.hpp"

namespace weft {

class World;

/// A message between two ranks about a tensor; `tensor` is the one-sided write itself.
enum class RendezvousMessage : std::uint8_t {
  hello,               ///< the place of the receiver's completion words; once per pair
  tensor_request,      ///< the receiver asks; with the result's place if it knows the metadata
  meta_data_response,  ///< the sender tells dtype, shape, dead or not, and codec, because the
                       ///< receiver did not know them or they differ
  tensor_re_request,   ///< the receiver asks again, with the result's place
  tensor,              ///< the payload and its completion
  error_status,        ///< the tensor will not come
  cancel  ///< the receiver does not want the tensor any more; answered by error_status or tensor
};
WEFT_API std::string_view name(RendezvousMessage message) noexcept;

/// One message, as RendezvousSpec::observer sees it.
struct RendezvousEvent {
  RendezvousMessage message = RendezvousMessage::hello;
  bool sent = false;  ///< false: received
  int peer = -1;
  std::string_view key;  ///< valid during the observer's call
  std::uint64_t step = 0;
  bool by_name = false;        ///< a request that carried the key's name, not only its index
  bool with_metadata = false;  ///< a request that carried the result's place
};

/// The properties of a rendezvous. `name` and `message_bytes` must be equal on every rank; the
/// limits are this rank's own.
struct RendezvousSpec {
  std::string name = "default";  ///< 1 to 100 bytes
  /// Limits on the tensors offered to one receiver and not fetched yet; above either, send() waits.
  /// A tensor larger than `max_parked_bytes` is accepted while it is the only parked one.
  std::size_t max_parked_bytes = std::size_t{256} << 20;
  std::uint32_t max_parked = 1024;
  /// Limit, at the sender, on one receiver's requests for tensors that are not offered yet. The
  /// sender reads requests when it next offers a tensor, or waits in a call: recv() of one beyond
  /// the limit fails then with Code::exhausted, and its key and step is not received any more.
  std::uint32_t max_parked_requests = 2048;
  std::uint32_t message_bytes = 512;  ///< 256 to 1536
  /// Optimizations of the protocol, which can be disabled to measure their effect.
  bool cache_metadata = true;  ///< false: every exchange takes the extra round trip
  bool index_keys = true;      ///< false: every request carries its key's name
  bool batch_requests = true;  ///< false: every request is a message of its own
  /// Where recv() puts this rank's tensors; nothing of it is compared. On a GPU they go through
  /// host memory, counted as staged. Encoded values stay in host memory.
  Memory memory = {};
  /// Called for every message of this rank, in order for each peer, from any thread and under a
  /// lock: it must be quick and must not call the rendezvous.
  std::function<void(const RendezvousEvent&)> observer = {};
};

/// The encoding of a value that is not plain bytes. encode() and decode() may throw; the exception
/// becomes the call's status.
class WEFT_API Codec {
 public:
  virtual ~Codec();
  /// The number of the encoding, not 0. Both ends must agree.
  virtual std::uint16_t id() const = 0;
  /// Bytes of the encoded value.
  virtual std::size_t size() const = 0;
  /// Writes the value into `to`, which has size() bytes.
  virtual void encode(std::span<std::byte> to) const = 0;
  /// Sets the value from the bytes that the other end's encode() wrote.
  virtual void decode(std::span<const std::byte> from) = 0;
};

/// The result of recv(): a tensor in this rank's data arena or on the GPU of
/// RendezvousSpec::memory, owned by the caller.
struct WEFT_API Received {
  Tensor tensor;
  bool is_dead = false;     ///< true: no content, since the sender called send_dead()
  std::uint16_t codec = 0;  ///< not 0: `tensor` holds the bytes of a value encoded by this codec

  /// Decodes the bytes into `value`. Errors: mismatch (another codec, or a plain tensor),
  /// bad_argument (the codec threw; the text has its message).
  Status decode(Codec& value) const noexcept;
};

/// The name of a tensor within the exchange between two ranks. Each name is exchanged once.
struct KeyStep {
  std::string_view key;  ///< 1 to 128 bytes
  std::uint64_t step = 0;
};

namespace detail {
class RendezvousState;
}

/// Receiver-driven exchange of tensors by (key, step) between any two ranks of those that open it.
/// All of them must call open(), also one that will neither send nor receive: open it for a Group
/// to leave ranks out. Offer and request may come in either order. A tensor of known dtype and
/// shape costs one request and one write into the result tensor: no copy, no other message. A new
/// or changed shape costs one more round trip.
///
/// Requests are answered by any thread that is inside one of these calls, otherwise by the rank's
/// progress thread, so the application may compute meanwhile. Every call in a fork of the process
/// fails with Code::forked.
///
/// Thread-safety: every member may be called concurrently,
/// except destruction.
///
/// Source: TensorFlow's note "Verbs implementation to use direct tensor writes (0 copies)".
class WEFT_API Rendezvous {
 public:
  /// Opens the exchange between all ranks of the world, each of which must call it with the same
  /// `name` and `message_bytes`, even if it has no tensor to exchange. A name may be opened again
  /// once every rank has destroyed the former exchange; ensuring that is up to the ranks. Throws
  /// Error: bad_argument, duplicate_name, mismatch, timeout (names a rank that has not opened it),
  /// peer_failed, peer_left, exhausted; for RendezvousSpec::memory on a GPU also system,
  /// bad_config.
  static Rendezvous open(World& world, const RendezvousSpec& spec = {}, Deadline deadline = {});
  /// Opens the exchange between the members of `group`, this rank among them: the ranks that have a
  /// part in it (World::group().subset(places), which sends no message), or the survivors after
  /// Group::shrink(). In calls, other ranks are Code::bad_argument. Groups have
  /// separate exchanges, even under equal names.
  static Rendezvous open(World& world, const Group& group, const RendezvousSpec& spec = {},
                         Deadline deadline = {});

  Rendezvous() noexcept;
  Rendezvous(Rendezvous&&) noexcept;
  Rendezvous& operator=(Rendezvous&&) noexcept;
  /// Returns at once. Offers that were not fetched are dropped: their receivers get Code::closed.
  /// Memory of pending results stays reserved until their senders can't write it any more.
  ~Rendezvous();

  /// Offers `tensor` to rank `to`. Returns when the tensor is parked or sent. The tensor is lent
  /// until the receiver has fetched it, or until this rank has cloned it (counted as copied)
  /// because the receiver must first be told a new shape. A tensor outside the rank's arenas that
  /// was not adopted is cloned at once and never lent. So is a dense one on a GPU, counted as
  /// staged: the call waits for the copy. Errors: timeout (a limit on parked tensors is reached;
  /// names the receiver and the oldest key that it has not fetched; or the GPU has not copied;
  /// `tensor` is not offered), bad_argument (also: this key and step were offered before, or
  /// `tensor` has no memory), peer_failed, peer_left, closed, exhausted, system (the GPU; `tensor`
  /// is not offered).
  Status send(int to, std::string_view key, std::uint64_t step, const Tensor& tensor,
              Deadline deadline = {}) noexcept;
  /// Offers a tensor without content: the receiver's Received::is_dead is true. Errors: as send().
  Status send_dead(int to, std::string_view key, std::uint64_t step,
                   Deadline deadline = {}) noexcept;
  /// Offers an error: the receiver's recv() fails with `code` and `text`. Errors: as send();
  /// bad_argument for Code::ok.
  Status send_error(int to, std::string_view key, std::uint64_t step, Code code,
                    std::string_view text, Deadline deadline = {}) noexcept;
  /// Encodes `value` into the rank's arena (counted as copied) and offers the bytes. Errors: as
  /// send(); bad_argument if the codec's id is 0 or encode() threw.
  Status send_encoded(int to, std::string_view key, std::uint64_t step, const Codec& value,
                      Deadline deadline = {}) noexcept;

  /// True while the offered tensor is still read from the caller's memory.
  bool lent(int to, std::string_view key, std::uint64_t step) const noexcept;
  /// Answers requests until everything that this rank has offered was fetched. Errors: timeout
  /// (names the receiver and the oldest key that it has not fetched), peer_failed or peer_left (a
  /// receiver is gone; its offers are dropped), closed.
  Status serve(Deadline deadline = {}) noexcept;

  /// Asks for the tensor, as recv() does, unless this rank has asked, and returns whether recv()
  /// would return at once. Where the tensor goes to a GPU, begins to copy it there once it has
  /// arrived. Never blocks; false in a fork.
  bool ready(int from, std::string_view key, std::uint64_t step) noexcept;
  /// Receives the tensor that rank `from` offers to this rank under `key` and `step`. A timeout
  /// leaves the request alive: another recv() of the same key and step resumes it, cancel() ends
  /// it. So does an error of the GPU (system, exhausted): the tensor has arrived, and another
  /// recv() copies it again. Errors: timeout (names key, step and sender), peer_failed, peer_left,
  /// closed, system, bad_argument (also: this key and step are being received or were
  /// received before), exhausted (also: more requests than the sender's max_parked_requests), and
  /// the code that the sender gave to send_error(): "send_error" is the error's operation then, so
  /// that a sent timeout differs from the end of `deadline`.
  Result<Received> recv(int from, std::string_view key, std::uint64_t step,
                        Deadline deadline = {}) noexcept;
  /// Receives several tensors at once, in as few messages as possible. The results are in the order
  /// of `wanted`.
  std::vector<Result<Received>> recv(int from, std::span<const KeyStep> wanted,
                                     Deadline deadline = {});
  /// Ends a request that a timeout left alive. Its result's memory stays reserved until the sender
  /// has agreed. Errors: bad_argument (there is no such request, or a thread waits for it).
  Status cancel(int from, std::string_view key, std::uint64_t step) noexcept;

 private:
  explicit Rendezvous(std::shared_ptr<detail::RendezvousState> state) noexcept;
  std::shared_ptr<detail::RendezvousState> state_;
};

}  // namespace weft
