// Waiting for a GPU's copy, of which no doorbell tells.
#pragma once

#include <optional>

#include "p2p/transport/local_rank.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// The outcome that `poll()` gives; nullopt if it gave none until the deadline. The waiting thread
/// progresses all background operations meanwhile.
template <typename Poll, typename About>
std::optional<Status> wait_for_device(LocalRank& local, const Poll& poll, Deadline until,
                                      const About& about) noexcept {
  std::optional<Status> outcome;
  const auto ended = [&] {
    if (!outcome) outcome = poll();
    return outcome.has_value();
  };
  local.waiter.count_silent(1);
  (void)local.waiter.wait(
      ended, [] { return false; }, until, about);
  local.waiter.count_silent(-1);
  return outcome;
}

}  // namespace weft::p2p
