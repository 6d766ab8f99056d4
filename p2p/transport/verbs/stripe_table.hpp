// How far the puts that go by several requests have got: on each queue pair their last one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "p2p/transport/notification_table.hpp"

namespace weft::p2p::verbs {

/// Thread-safe once it has places.
class StripeTable {
 public:
  /// A put's last request on each queue pair, or none (0).
  using Stripe = std::array<std::uint64_t, NotificationTable::kMaxQueuePairs>;
  /// In place of a request: its queue pair got no further, or not yet.
  static constexpr std::uint64_t kCutShort = std::uint64_t{1} << 63U;
  static constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};

  void make_places(std::size_t count) { stripes_.resize(count); }
  /// A number for a put that goes by the queue pairs in `pairs`; nullopt: its place is still in
  /// use, as `has_ended(pair, request)` says.
  template <typename Pairs, typename HasEnded>
  std::optional<std::uint64_t> begin(const Pairs& pairs, std::size_t pair_count,
                                     const HasEnded& has_ended) noexcept {
    const std::lock_guard lock(mutex_);
    Stripe& stripe = stripes_[next_ % stripes_.size()];
    for (std::size_t i = 0; i < pair_count; ++i)
      if (!has_ended(i, stripe[i] & ~kCutShort)) return std::nullopt;
    stripe = {};
    for (const auto& sending : pairs) stripe[sending.pair] = kNotPosted;
    return next_++;
  }
  void set(std::uint64_t number, std::size_t pair, std::uint64_t request) noexcept {
    const std::lock_guard lock(mutex_);
    stripes_[number % stripes_.size()][pair] = request;
  }
  /// The part of a put that a queue pair was to carry is lost: the put, which has not ended, does
  /// not before move() or cut().
  void hold(std::uint64_t number, std::size_t pair) noexcept { set(number, pair, kNotPosted); }
  /// Another one carries it: up to `request`, which it posted last.
  void move(std::uint64_t number, std::size_t from, std::size_t to,
            std::uint64_t request) noexcept {
    const std::lock_guard lock(mutex_);
    Stripe& stripe = stripes_[number % stripes_.size()];
    stripe[from] = 0;
    if (stripe[to] < request) stripe[to] = request;
  }
  /// It is never carried: `end` is the last request of the one, `request` of the other.
  void cut(std::uint64_t number, std::size_t from, std::uint64_t end, std::size_t to,
           std::uint64_t request) noexcept {
    const std::lock_guard lock(mutex_);
    Stripe& stripe = stripes_[number % stripes_.size()];
    stripe[from] = kCutShort | end;
    if (stripe[to] != kNotPosted) stripe[to] = kCutShort | request;
  }
  /// nullopt: the put has ended, and well. Its place was taken again, and with the first failure
  /// puts come to an end.
  std::optional<Stripe> find(std::uint64_t number) const noexcept {
    const std::lock_guard lock(mutex_);
    if (next_ > number + stripes_.size()) return std::nullopt;
    return stripes_[number % stripes_.size()];
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Stripe> stripes_;
  std::uint64_t next_ = 1;
};

}  // namespace weft::p2p::verbs
