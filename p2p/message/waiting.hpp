// The wait of a message call: progresses all messages, whatever it waits for.
#pragma once

#include <algorithm>
#include <chrono>

#include "p2p/message/message_state.hpp"

namespace weft::detail {

template <typename Ready, typename What>
p2p::WaitEnd MessageState::wait_until(const Ready& ready, Deadline deadline,
                                      const What& what) noexcept {
  // No doorbell rings when a full queue has room again, so poll at this interval.
  constexpr std::chrono::microseconds kLook{200};
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const std::uint64_t since_ns = stats::ns_of(Clock::now());
  stats::WaitDetailsRoom details;
  const auto about = [&] {
    stats::WaitAbout wait = this->about(details.make(), what);
    wait.since_ns = since_ns;
    return wait;
  };
  for (;;) {
    const bool schedule_poll = awaits_in_silence();
    const Deadline step =
        schedule_poll ? Deadline::at(std::min(until.when(), Clock::now() + kLook)) : until;
    const p2p::WaitEnd end = local_.waiter.wait(
        [&] {
          progress();
          return ready();
        },
        [&] { return awaits_in_silence() && !schedule_poll; }, step, about);
    if (end == p2p::WaitEnd::ready || until.passed()) return end;
  }
}

}  // namespace weft::detail
