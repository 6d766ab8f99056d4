// Signals: 64-bit words of one rank that all ranks count in.
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

/// The owner's end of a signal. Thread-safety: any thread, except destruction and also_needs().
/// Must go before its world. Destroying it ends the remote ends' operations with Code::closed.
class WEFT_API Signal {
 public:
  /// Throws Error: duplicate_name, bad_argument (a name has 1 to 200 bytes), exhausted.
  static Signal expose(World& world, const std::string& name, std::uint64_t value = 0);

  Signal() noexcept;
  Signal(Signal&&) noexcept;
  Signal& operator=(Signal&&) noexcept;
  ~Signal();

  std::uint64_t value() const noexcept;
  /// Gives the value before; wraps around.
  std::uint64_t fetch_add(std::uint64_t amount) noexcept;
  /// Stores `desired` if the value is `expected`. Gives the value before.
  std::uint64_t compare_swap(std::uint64_t expected, std::uint64_t desired) noexcept;
  /// Waits until the value is at least that, and gives it. Errors: timeout (with the value seen and
  /// the first four ranks that have attached), peer_failed or peer_left (a rank of also_needs()).
  Result<std::uint64_t> wait_at_least(std::uint64_t least, Deadline deadline = {}) noexcept;
  /// From now on waits also end when one of `ranks` is dead or has left. Throws
  /// Error(bad_argument).
  void also_needs(std::span<const int> ranks);

 private:
  explicit Signal(std::shared_ptr<detail::SignalState> state) noexcept;
  std::shared_ptr<detail::SignalState> state_;
};

/// The other end. Every word is changed by the processors of its owner's host alone: by this rank's
/// where it shares memory with the owner (no message, no system call unless the owner sleeps),
/// otherwise by the owner's progress thread, which gets a control message for each operation. Which
/// of the two is fixed at attach. Thread-safety: one thread at a time.
class WEFT_API RemoteSignal {
 public:
  /// Waits for the signal to be exposed. Throws Error: timeout (names signal and owner),
  /// peer_failed, peer_left, bad_argument, exhausted.
  static RemoteSignal attach(World& world, int owner, const std::string& name,
                             Deadline deadline = {});

  RemoteSignal() noexcept;
  RemoteSignal(RemoteSignal&&) noexcept;
  RemoteSignal& operator=(RemoteSignal&&) noexcept;
  ~RemoteSignal();

  int owner() const noexcept;
  /// Whether operations are this rank's own loads and stores, not messages.
  bool is_direct() const noexcept;

  /// Adds without asking for the value; returns at once. Seen by the owner after every put and
  /// message to it that had ended before, whichever slot it went to. Errors: peer_failed,
  /// peer_left, closed (not by message: an owner that has closed the signal drops it).
  Status add(std::uint64_t amount) noexcept;
  /// Gives the value before. Errors: those of add(), closed, timeout (it may still be done).
  Result<std::uint64_t> fetch_add(std::uint64_t amount, Deadline deadline = {}) noexcept;
  /// Stores `desired` if the value is `expected`. Gives the value before.
  Result<std::uint64_t> compare_swap(std::uint64_t expected, std::uint64_t desired,
                                     Deadline deadline = {}) noexcept;
  /// Puts a tensor, waits until it may be written again, and adds: who sees the signal sees the
  /// tensor. `slot` is the same owner's: else bad_argument. Errors of the put and of add(); nothing
  /// is added unless the put has ended well.
  Status put(RemoteSlot& slot, const Tensor& tensor, std::uint64_t amount,
             Deadline deadline = {}) noexcept;

 private:
  explicit RemoteSignal(std::shared_ptr<detail::RemoteSignalState> state) noexcept;
  std::shared_ptr<detail::RemoteSignalState> state_;
};

}  // namespace weft
