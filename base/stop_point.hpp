// A hook by which tests stop a rank inside a copy or a reduction.
#pragma once

#include <atomic>
#include <cstddef>

namespace weft {

/// Called before each piece (at most 256 KiB) of a copy or reduction of tensors, and before each
/// system call within a tensor that travels by TCP. `loop` names the code; `piece` counts from 0,
/// in units of 256 KiB. Null unless a test sets it, to stop, kill or park the rank there. The hook
/// costs one relaxed load and a predicted branch per piece, so release builds keep it, and the
/// tested code is the shipped code.
using StopPoint = void (*)(const char* loop, std::size_t piece) noexcept;
inline constinit std::atomic<StopPoint> stop_point{nullptr};

inline void pass_stop_point(const char* loop, std::size_t piece) noexcept {
  const StopPoint hook = stop_point.load(std::memory_order_relaxed);
  if (hook != nullptr) [[unlikely]]
    hook(loop, piece);
}

/// True if a test set the hook. Copies that otherwise take one piece then use several.
inline bool has_stop_point() noexcept {
  return stop_point.load(std::memory_order_relaxed) != nullptr;
}

}  // namespace weft
