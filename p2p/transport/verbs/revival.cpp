#include "p2p/transport/verbs/revival.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>

namespace weft::p2p::verbs {

void Revival::lose() noexcept {
  const std::lock_guard lock(pair_.mutex_);
  pair_.connected_.store(false, std::memory_order_release);
  pair_.to_error();
  pair_.recovery_.is_marked = pair_.post_nothing() == 0;
}

bool Revival::is_drained() noexcept {
  const std::lock_guard lock(pair_.mutex_);
  // Requests that ended without a completion show by one behind them.
  if (!pair_.recovery_.is_marked) pair_.recovery_.is_marked = pair_.post_nothing() == 0;
  return pair_.recovery_.is_marked &&
         pair_.recovery_.flushed.load() >= pair_.posted_.load(std::memory_order_relaxed) &&
         pair_.receives_.out.load(std::memory_order_acquire) == 0;
}

std::uint64_t Revival::taken() const noexcept { return pair_.receives_reported(); }

std::uint64_t Revival::skip_notification() noexcept {
  const std::lock_guard lock(pair_.mutex_);
  const std::uint64_t number = pair_.notified_.load(std::memory_order_relaxed) + 1;
  pair_.notified_.store(number, std::memory_order_release);
  return number;
}

void Revival::count_resent() noexcept {
  pair_.receives_.seen.store(pair_.receives_.seen.load(std::memory_order_relaxed) + 1,
                             std::memory_order_release);
}

bool Revival::count_all(std::uint64_t notifications) noexcept {
  const std::uint64_t seen = pair_.receives_.seen.load(std::memory_order_relaxed);
  if (notifications < seen || notifications - seen > std::uint64_t{2} * QueuePair::kReceives)
    return false;
  pair_.receives_.seen.store(notifications, std::memory_order_release);
  return true;
}

void Revival::resolve() noexcept {
  const std::lock_guard lock(pair_.mutex_);
  const std::uint64_t last = pair_.posted_.load(std::memory_order_relaxed);
  pair_.succeeded_.store(last, std::memory_order_release);
  pair_.ended_.store(last, std::memory_order_release);
}

void Revival::abandon() noexcept {
  pair_.recovery_.is_abandoned.store(true);
  pair_.raise_ended(pair_.recovery_.flushed.load());
}

void Revival::restart() {
  pair_.completions_.unbind(pair_);
  pair_.device_.to_reset(pair_.handle_.get());
  pair_.device_.to_init(pair_.handle_.get());
  QueuePair::Receives& receives = pair_.receives_;
  for (receives.used_count = 0; receives.used_count < QueuePair::kReceives; ++receives.used_count)
    receives.used[receives.used_count] = receives.used_count;
  if (const int error = pair_.post_receives())
    throw Error(
        ErrorDetail{.code = Code::system,
                    .operation = "connect",
                    .message = fmt::format("{}: ibv_post_recv for {}: {}", pair_.device_.name(),
                                           pair_.name(), std::strerror(error)),
                    .peer = pair_.options_.peer});
  {
    // Both ends count on from what was sent by either way; the receives above are besides that.
    const std::lock_guard lock(pair_.mutex_);
    const std::uint64_t seen = receives.seen.load(std::memory_order_relaxed);
    receives.posted.store(seen, std::memory_order_release);
    receives.reported = seen + QueuePair::kReceives;
    pair_.believe_reported(pair_.notified_.load(std::memory_order_relaxed));
    pair_.address_.first_psn = randombytes_uniform(1U << 24U);
  }
  pair_.completions_.bind(pair_.recovery_.queue, pair_);
}

std::uint64_t Revival::probe() noexcept {
  const std::lock_guard lock(pair_.mutex_);
  if (pair_.post_nothing() != 0) return 0;
  return pair_.posted_.load(std::memory_order_relaxed);
}

}  // namespace weft::p2p::verbs
