// A stage of an operation that one thread at a time sets and any thread may look at.
#pragma once

#include <atomic>

namespace weft {

/// Used as an enumeration. A thread that sees a stage sees what was written before it was set.
template <typename Stage>
class AtomicStage {
 public:
  AtomicStage(Stage stage) noexcept : stage_(stage) {}
  AtomicStage& operator=(Stage stage) noexcept {
    stage_.store(stage, std::memory_order_release);
    return *this;
  }
  operator Stage() const noexcept { return stage_.load(std::memory_order_acquire); }

 private:
  std::atomic<Stage> stage_;
};

}  // namespace weft
