// Waits for one of several handles.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/handle.hpp"
#include "runtime/world/services.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {
namespace {

/// Number of awaited ends that the timeout of a call names.
constexpr std::size_t kMostNamed = 4;

/// The timeout status of wait_any(). `awaited` returns the end at an index, with its peer.
template <typename AwaitedAt>
ErrorDetail none_ready(int rank, std::size_t count, const AwaitedAt& awaited) {
  ErrorDetail detail{
      .code = Code::timeout,
      .operation = "wait_any",
      .message = fmt::format("none of {} became ready", count),
      .hint = "check that these ranks are at the same step; raise WEFT_TIMEOUT if they are",
      .rank = rank};
  for (std::size_t i = 0; i < count; ++i) {
    p2p::Awaited one = awaited(i);
    if (i < kMostNamed) {
      detail.message += fmt::format("{} slot \"{}\"", i == 0 ? ":" : ";", one.slot);
      if (one.sequence != 0) detail.message += fmt::format(", tensor {}", one.sequence);
      detail.message += fmt::format(": {}", one.lack);
    }
    if (detail.peer < 0 && one.peer >= 0) {
      detail.peer = one.peer;
      detail.host = std::move(one.host);
      detail.slot = std::move(one.slot);
      detail.sequence_expected = one.sequence;
    }
    if (i >= kMostNamed && detail.peer >= 0) break;
  }
  if (count > kMostNamed) detail.message += fmt::format("; and {} more", count - kMostNamed);
  return detail;
}

ErrorDetail empty_set(int rank) {
  ErrorDetail detail =
      bad_argument("wait_any", "the set has no slot, no request and no reader",
                   "give it at least one handle: nothing else could end this wait");
  detail.rank = rank;
  return detail;
}

}  // namespace

Result<std::size_t> World::wait_any(const detail::AwaitedEnds& ends, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "World", "wait_any");
  const p2p::LocalRank& local = state_->local;
  struct Ended {
    Request& request;
    bool ready() const noexcept { return request.test(); }
    bool broken() const noexcept { return false; }
    void before_wait() const noexcept {}
    p2p::Awaited awaited() const {
      detail::PutWriter* const writer = request.living();
      if (writer == nullptr) return {.slot = "", .lack = "the request has ended"};
      return writer->awaited_put(request.ticket_);
    }
  };
  struct Held {
    detail::Condition& condition;
    bool ready() const noexcept { return condition.holds(); }
    bool broken() const noexcept { return false; }
    void before_wait() const noexcept {}
    p2p::Awaited awaited() const { return {.slot = "", .lack = "its condition"}; }
  };
  const WaitSet& set = ends.set;
  const std::size_t first_request = set.slots.size();
  const std::size_t first_reader = first_request + set.requests.size();
  const std::size_t first_condition = first_reader + set.readers.size();
  const std::size_t all = first_condition + ends.conditions.size();
  const auto with_end = [&](std::size_t i, const auto& act) {
    if (i < first_request) return act(*set.slots[i]->state_);
    if (i < first_reader) return act(Ended{*set.requests[i - first_request]});
    if (i < first_condition) return act(*set.readers[i - first_reader]->state_);
    return act(Held{*ends.conditions[i - first_condition]});
  };
  // Starts where the last call stopped, so that a handle that is always ready does not hide the
  // others.
  const std::size_t first = state_->next_any.load(std::memory_order_relaxed);
  const auto first_that = [&](const auto& what) {
    for (std::size_t i = 0; i < all; ++i)
      if (const std::size_t at = (first + i) % all; with_end(at, what)) return at;
    return all;
  };
  std::size_t found = all;
  const auto ready = [&] {
    found = first_that([](auto&& end) { return end.ready(); });
    return found < all || (ends.woken && ends.woken());
  };
  std::size_t lost = all;
  const auto broken = [&] {
    lost = first_that([](auto&& end) { return end.broken(); });
    return lost < all;
  };
  if (!ready())
    for (std::size_t i = 0; i < all; ++i) with_end(i, [](auto&& end) { end.before_wait(); });
  const p2p::WaitEnd end = local.waiter.wait(ready, broken, deadline, [&] { return ends.about; });
  if (end == p2p::WaitEnd::timeout)
    return refuse(Code::timeout, [&] {
      return none_ready(local.rank, first_condition, [&](std::size_t i) {
        return with_end(i, [](auto&& one) { return p2p::Awaited(one.awaited()); });
      });
    });
  if (end == p2p::WaitEnd::broken) found = lost;
  if (found < all) state_->next_any.store(found + 1, std::memory_order_relaxed);
  return found;
}

Status World::check(const WaitSet& set) const noexcept {
  const auto check_all = [this](const auto& handles, const char* what, auto is_empty,
                                auto orphan) -> Status {
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (handles[i] == nullptr || is_empty(*handles[i]))
        return refuse(Code::bad_argument, [&] {
          ErrorDetail detail = bad_argument("wait_any", fmt::format("{} {} is empty", what, i),
                                            "give it handles that World has made");
          detail.rank = state_->rank;
          return detail;
        });
      if (Status status = orphan(*handles[i]); !status.ok()) return status;
    }
    return {};
  };
  const auto has_no_state = [](const auto& handle) { return handle.state_ == nullptr; };
  const auto orphan = [](const auto& handle) -> Status {
    return handle.state_->over() ? handle.state_->refusal("wait_any") : Status();
  };
  if (Status status = check_all(set.slots, "slot", has_no_state, orphan); !status.ok())
    return status;
  if (Status status = check_all(set.readers, "reader", has_no_state, orphan); !status.ok())
    return status;
  return check_all(
      set.requests, "request", [](const Request&) { return false; },
      [](const Request&) { return Status(); });
}

Result<std::size_t> World::wait_any(const WaitSet& set, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "World", "wait_any");
  if (set.slots.empty() && set.readers.empty() && set.requests.empty())
    return refuse(Code::bad_argument, [&] { return empty_set(state_->rank); });
  if (Status status = check(set); !status.ok()) return status;
  return wait_any(detail::AwaitedEnds{.set = set}, deadline);
}

Result<std::size_t> World::wait_any(std::span<Slot* const> slots, Deadline deadline) noexcept {
  return wait_any(WaitSet{.slots = slots}, deadline);
}

Result<std::size_t> World::wait_any(std::span<PublishedReader* const> readers,
                                    Deadline deadline) noexcept {
  return wait_any(WaitSet{.readers = readers}, deadline);
}

Result<std::size_t> World::wait_any(std::span<Request* const> requests,
                                    Deadline deadline) noexcept {
  return wait_any(WaitSet{.requests = requests}, deadline);
}

}  // namespace weft
