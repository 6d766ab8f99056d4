// Waiting for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace weft::tests {

/// Polls until `holds()` is true, for at most `limit`. Returns whether it became true.
template <typename Condition>
bool soon(Condition&& holds, std::chrono::nanoseconds limit = std::chrono::seconds(5)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace weft::tests
