// Waiting for a GPU's copy, of which no doorbell tells.
#pragma once

#include <memory>
#include <optional>

#include "p2p/transport/local_rank.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

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

/// Copies a dense tensor between a GPU and one of the rank's arenas, which is `arena`, and waits
/// for it. After a timeout the copy goes on and keeps both tensors' memory.
Status copy_and_wait(LocalRank& local, const char* operation, const std::shared_ptr<Arena>& arena,
                     const Tensor& from, const Tensor& to, Deadline until) noexcept;

}  // namespace weft::p2p
