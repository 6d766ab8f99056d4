// A mark that distinguishes a process from its forks.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/os/mapping.hpp"

namespace weft::os {

/// A word that the kernel clears in every fork of the process that made it, so that checking costs
/// one load. Thread-safety: any thread.
class ForkMark {
 public:
  /// Throws Error(system).
  ForkMark();

  /// True if the calling process is a fork of the process that made the mark.
  bool forked() const noexcept { return word().load(std::memory_order_relaxed) == 0; }
  /// Nonzero in the process that made the mark, 0 in its forks.
  const std::atomic<std::uint32_t>& word() const noexcept {
    return *reinterpret_cast<const std::atomic<std::uint32_t>*>(page_.data());
  }

 private:
  Mapping page_;
};

}  // namespace weft::os
