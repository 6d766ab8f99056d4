// Puts that were asked for and have not begun, and what came of the last ones.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

struct PendingPut {
  Tensor tensor{};
  std::vector<Tensor> parts{};  ///< of a gathered put, instead of the tensor
  Memory memory{};              ///< of the tensor, when that has gone, too
  std::uint64_t ticket = 0;
  std::uint64_t sequence = 0;  ///< dynamic: once it was announced
  Until until = Until::reusable;
  bool more = false;  ///< PutWork::more
  /// Where on a stream the tensor is ready; null: it is.
  std::shared_ptr<const cuda::StreamPoint> after{};
  /// Pinned host memory for its copy by a GPU; empty: it is taken when that begins.
  OwnedBlock stage{};
  bool cancelled = false;
  Status outcome{};  ///< kept until the place is taken again, kMost puts later

  std::span<const Tensor> all() const noexcept {
    return parts.empty() ? std::span<const Tensor>(&tensor, 1) : std::span<const Tensor>(parts);
  }
  void release_source() noexcept {
    tensor = {};
    stage = {};
    parts.clear();
    after = nullptr;
  }
};

/// Tickets count a writer's puts that did not end within their call. Everything but count() and
/// done() requires mutex(), or that no put is pending and the caller is the application's thread.
class PendingPuts {
 public:
  static constexpr std::size_t kMost = 64;

  /// `shown`: where statistics show the count.
  explicit PendingPuts(stats::Word& shown) noexcept : shown_(shown) {}

  std::mutex& mutex() const noexcept { return mutex_; }
  std::uint32_t count(std::memory_order order) const noexcept { return count_.load(order); }
  /// All tickets up to this one have begun, or never will.
  std::uint64_t done(std::memory_order order) const noexcept { return done_.load(order); }

  /// Makes the places. Returns false if there is no memory for them.
  bool prepare() noexcept {
    if (!places_) places_.reset(new (std::nothrow) Places);
    return places_ != nullptr;
  }
  /// Whether as many as `most` tickets are open.
  bool is_full(std::uint64_t most) const noexcept {
    return next_ - done_.load(std::memory_order_relaxed) > most;
  }
  std::uint64_t open() const noexcept { return next_ - done_.load() - 1; }
  std::uint64_t next() const noexcept { return next_; }
  /// Requires prepare(). Returns the put's ticket.
  std::uint64_t add(PendingPut put) noexcept {
    const std::uint64_t ticket = next_++;
    put.ticket = ticket;
    put.memory = put.tensor.memory();
    for (const Tensor& part : put.parts)
      if (part.memory().is_gpu()) put.memory = part.memory();
    (*places_)[ticket % kMost] = std::move(put);
    set_count(count_.load(std::memory_order_relaxed) + 1);
    return ticket;
  }
  /// A ticket of a put that begins at once.
  std::uint64_t skip() noexcept {
    const std::uint64_t ticket = next_++;
    done_.store(ticket, std::memory_order_release);
    return ticket;
  }
  std::uint64_t front_ticket() const noexcept { return done_.load(std::memory_order_relaxed) + 1; }
  PendingPut& at(std::uint64_t ticket) const noexcept { return (*places_)[ticket % kMost]; }
  /// The front has begun or was cancelled.
  void pop() noexcept {
    const std::uint64_t ticket = front_ticket();
    at(ticket).release_source();
    done_.store(ticket, std::memory_order_release);
    set_count(count_.load(std::memory_order_relaxed) - 1);
  }
  /// Fails every pending put with `why`.
  void fail_all(const Status& why) noexcept {
    for (std::uint64_t ticket = front_ticket(); ticket < next_; ++ticket) {
      at(ticket).release_source();
      at(ticket).outcome = why;
    }
    done_.store(next_ - 1, std::memory_order_release);
    set_count(0);
  }
  /// The number of the put with that ticket among the slot's tensors, if `sent` of them have begun.
  std::uint64_t sequence_of(std::uint64_t ticket, std::uint64_t sent) const noexcept {
    const std::uint64_t begun = done_.load(std::memory_order_relaxed);
    if (ticket <= begun) {
      const bool is_known = places_ && at(ticket).ticket == ticket && at(ticket).sequence != 0;
      return is_known ? at(ticket).sequence : sent - std::min(sent, begun - ticket);
    }
    for (std::uint64_t before = begun + 1; before <= ticket; ++before)
      sent += at(before).cancelled ? 0 : 1;
    return sent;
  }
  /// The memory that the put with that ticket was of; the host's if that is forgotten.
  Memory memory_of(std::uint64_t ticket) const noexcept {
    return places_ && at(ticket).ticket == ticket ? at(ticket).memory : Memory::host();
  }
  /// Why the put with that ticket did not begin; ok() if it did, or if that is forgotten.
  Status outcome(std::uint64_t ticket) const noexcept {
    return places_ && at(ticket).ticket == ticket ? at(ticket).outcome : Status{};
  }

 private:
  void set_count(std::uint32_t count) noexcept {
    count_.store(count, std::memory_order_release);
    shown_.store(count, std::memory_order_relaxed);
  }

  stats::Word& shown_;
  mutable std::mutex mutex_;
  std::atomic<std::uint32_t> count_{0};
  using Places = std::array<PendingPut, kMost>;
  std::unique_ptr<Places> places_;  ///< by ticket modulo kMost; made by the first
  std::uint64_t next_ = 1;
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace weft::p2p
