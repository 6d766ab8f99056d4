// Signals: 64-bit words of one rank that all ranks can add to and wait for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/slot.hpp"
#include "weft/tensor.hpp"

namespace weft {

class World;

namespace detail {
class SignalState;
class RemoteSignalState;
}  // namespace detail

/// The owner's end of a signal. Destroying it ends the remote ends' operations with Code::closed.
/// In a fork of the process value() is 0 and nothing changes.
/// Thread-safety: any thread, except destruction and also_needs().
class WEFT_API Signal {
 public:
  /// Exposes a signal with initial value `value`. Throws Error: duplicate_name, bad_argument (a
  /// name has 1 to 200 bytes), exhausted, forked.
  static Signal expose(World& world, const std::string& name, std::uint64_t value = 0);

  Signal() noexcept;
  Signal(Signal&&) noexcept;
  Signal& operator=(Signal&&) noexcept;
  ~Signal();

  /// The current value.
  std::uint64_t value() const noexcept;
  /// Adds `amount`, modulo 2^64, and returns the previous value.
  std::uint64_t fetch_add(std::uint64_t amount) noexcept;
  /// Stores `desired` if the value is `expected`. Returns the previous value.
  std::uint64_t compare_swap(std::uint64_t expected, std::uint64_t desired) noexcept;
  /// Waits until the value is at least `least` and returns the value. Errors: timeout (has the
  /// value seen and the first 4 attached ranks), peer_failed or peer_left (a rank of also_needs()),
  /// forked.
  Result<std::uint64_t> wait_at_least(std::uint64_t least, Deadline deadline = {}) noexcept;
  /// Makes later waits also end when one of `ranks` is dead or has left. Replaces the ranks of an
  /// earlier call. Throws Error(bad_argument).
  void also_needs(std::span<const int> ranks);

 private:
  explicit Signal(std::shared_ptr<detail::SignalState> state) noexcept;
  std::shared_ptr<detail::SignalState> state_;
};

/// A remote end of a signal. Only processors of the owner's host change the word: this rank's own
/// if it shares memory with the owner (no message, and no system call unless the owner sleeps),
/// otherwise the owner's progress thread, which gets one control message per operation. The choice
/// is fixed at attach(). Source: decision 026. Thread-safety: one thread at a time.
class WEFT_API RemoteSignal {
 public:
  /// Attaches to the signal `name` of rank `owner`, waiting for it to be exposed. Throws Error:
  /// timeout (names signal and owner), peer_failed, peer_left, bad_argument, exhausted, forked.
  static RemoteSignal attach(World& world, int owner, const std::string& name,
                             Deadline deadline = {});

  RemoteSignal() noexcept;
  RemoteSignal(RemoteSignal&&) noexcept;
  RemoteSignal& operator=(RemoteSignal&&) noexcept;
  ~RemoteSignal();

  int owner() const noexcept;
  /// True if operations are this rank's own loads and stores, false if they are messages.
  bool is_direct() const noexcept;

  /// Adds `amount` without returning the value, and returns at once. The owner sees the sum after
  /// every put and message to it that had ended before, whichever slot it went to. Errors:
  /// peer_failed, peer_left, closed (only if is_direct(); otherwise an owner that has closed the
  /// signal drops the message), forked.
  Status add(std::uint64_t amount) noexcept;
  /// Adds `amount` and returns the previous value. Errors: those of add(), closed, timeout (the
  /// operation may still take effect).
  Result<std::uint64_t> fetch_add(std::uint64_t amount, Deadline deadline = {}) noexcept;
  /// Stores `desired` if the value is `expected`. Returns the previous value. Errors: as
  /// fetch_add().
  Result<std::uint64_t> compare_swap(std::uint64_t expected, std::uint64_t desired,
                                     Deadline deadline = {}) noexcept;
  /// Puts `tensor` into `slot`, waits until it is delivered (Until::delivered), then adds `amount`:
  /// a rank that sees the new value also sees the tensor. Nothing is added if the put fails.
  /// Errors: bad_argument (`slot` has another owner, or was attached by another world), those of
  /// the put and of add().
  Status put(RemoteSlot& slot, const Tensor& tensor, std::uint64_t amount,
             Deadline deadline = {}) noexcept;

 private:
  explicit RemoteSignal(std::shared_ptr<detail::RemoteSignalState> state) noexcept;
  std::shared_ptr<detail::RemoteSignalState> state_;
};

}  // namespace weft
