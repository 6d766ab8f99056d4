// Puts that a fabric has taken and that have not ended yet, with what they hold until then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/channel.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// One put under way.
struct InFlightPut {
  std::uint64_t ticket = 0;  ///< of its request
  std::uint64_t posted = 0;  ///< what the channel calls it
  bool awaited = false;      ///< its request ends with it, not before
  // Lent to the channel.
  Tensor tensor{};
  std::vector<Tensor> parts{};
  OwnedBlock packed{};
  std::shared_ptr<const void> block{};
};

/// Those of one end of a slot, in the order in which they began. Ends are noticed in that order,
/// too. Allocates in reserve() alone. Thread-safety: the caller's, but for empty().
class InFlightPuts {
 public:
  /// Before the first put. Throws std::bad_alloc.
  void reserve(std::uint32_t most) {
    in_flight_.resize(most);
    packs_.reserve(most + 1);
  }
  bool empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
  [[gnu::always_inline]] bool full() const noexcept {
    return !empty() && count() == in_flight_.size();
  }

  /// Requires !full(), and a ticket above those before it.
  InFlightPut& begin(std::uint64_t ticket, std::uint64_t posted, bool awaited) noexcept {
    InFlightPut& put_in_flight = in_flight_[(first_ + count()) % in_flight_.size()];
    put_in_flight.ticket = ticket;
    put_in_flight.posted = posted;
    put_in_flight.awaited = awaited;
    count_.store(count() + 1, std::memory_order_relaxed);
    return put_in_flight;
  }
  /// Lets go of what has ended.
  void poll(Channel& channel) noexcept {
    while (!empty()) {
      InFlightPut& put_in_flight = in_flight_[first_];
      const auto outcome = channel.poll_put(put_in_flight.posted);
      if (!outcome) return;
      if (!outcome->ok() && failed_from_ == 0) {
        failed_from_ = put_in_flight.ticket;
        failure_ = *outcome;
      }
      put_in_flight.tensor = {};
      put_in_flight.parts.clear();
      put_in_flight.block = nullptr;
      if (put_in_flight.packed) packs_.push_back(std::exchange(put_in_flight.packed, {}));
      first_ = (first_ + 1) % in_flight_.size();
      count_.store(count() - 1, std::memory_order_relaxed);
    }
  }
  /// Whether a request has to wait for one of them. Requires that its put has begun.
  bool holds_up(std::uint64_t ticket) const noexcept {
    for (std::size_t i = 0; i < count(); ++i) {
      const InFlightPut& put_in_flight = in_flight_[(first_ + i) % in_flight_.size()];
      if (put_in_flight.ticket > ticket) return false;
      if (put_in_flight.awaited) return true;
    }
    return false;
  }
  /// Whether the put with that ticket has some under way.
  bool has(std::uint64_t ticket) const noexcept {
    for (std::size_t i = 0; i < count(); ++i)
      if (in_flight_[(first_ + i) % in_flight_.size()].ticket == ticket) return true;
    return false;
  }
  /// The error of a put that has begun: a failed path fails all later puts too.
  Status failure_of(std::uint64_t ticket) const noexcept {
    return failed_from_ != 0 && ticket >= failed_from_ ? failure_ : Status{};
  }
  /// Room for a packed tensor that a put_in_flight has let go of; none if there is none.
  OwnedBlock take_pack() noexcept {
    OwnedBlock pack;
    if (packs_.empty()) return pack;
    pack = std::move(packs_.back());
    packs_.pop_back();
    return pack;
  }

  /// The channel may still read what they hold: nobody may free it.
  void forget_for_ever() noexcept {
    (void)new (std::nothrow) std::vector<InFlightPut>(std::move(in_flight_));
    count_.store(0, std::memory_order_relaxed);
  }

 private:
  std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

  std::vector<InFlightPut> in_flight_;
  std::size_t first_ = 0;
  std::atomic<std::size_t> count_{0};
  std::vector<OwnedBlock> packs_;
  std::uint64_t failed_from_ = 0;
  Status failure_;
};

}  // namespace weft::p2p
