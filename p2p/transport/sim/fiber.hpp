// A rank's own stack, on the one thread of a simulation.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

#include "base/os/mapping.hpp"

namespace weft::p2p::sim {

/// Runs `body` in turns: resume() lets it go on until it parks or ends. `body` must not throw.
/// One thread.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  /// One that has not ended is abandoned: nothing on its stack is destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Outside of any fiber. Requires !ended().
  void resume();
  /// Inside this fiber.
  void park();
  bool ended() const noexcept { return ended_; }

 private:
  static void enter(unsigned low, unsigned high);
  void leave_for(ucontext_t& from, ucontext_t& to);

  std::function<void()> body_;
  os::Mapping stack_;
  ucontext_t own_{};
  ucontext_t outside_{};
  bool ended_ = false;

  // State that belongs to a stack besides the stack: exceptions that are being handled, and what
  // AddressSanitizer knows of the other side.
  struct Handling {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  Handling other_handling_;
  void* shadow_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
};

}  // namespace weft::p2p::sim
