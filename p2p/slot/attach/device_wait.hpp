// Waiting for a GPU's copy, of which no doorbell tells.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "p2p/transport/local_rank.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// Has the waiting threads of a rank look again and again while something goes on that rings no
/// doorbell. One thread.
class SilentWork {
 public:
  explicit SilentWork(Waiter& waiter) noexcept : waiter_(waiter) {}
  SilentWork(const SilentWork&) = delete;
  SilentWork& operator=(const SilentWork&) = delete;
  ~SilentWork() { set(false); }

  void set(bool goes_on) noexcept {
    if (goes_on != std::exchange(goes_on_, goes_on)) waiter_.count_silent(goes_on ? 1 : -1);
  }

 private:
  Waiter& waiter_;
  bool goes_on_ = false;
};

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
  SilentWork copy(local.waiter);
  copy.set(true);
  (void)local.waiter.wait(
      ended, [] { return false; }, until, about);
  return outcome;
}

/// Copies a dense tensor between a GPU and one of the rank's arenas, which is `arena`, and waits
/// for it. After a timeout the copy goes on and keeps both tensors' memory.
Status copy_and_wait(LocalRank& local, const char* operation, const std::shared_ptr<Arena>& arena,
                     const Tensor& from, const Tensor& to, Deadline until) noexcept;

/// Whether the thread is to wait where a stream could, which CUDA_LAUNCH_BLOCKING asks for. Says so
/// once.
bool waits_on_thread(LocalRank& local) noexcept;

/// Waits until no stream waits for this rank's processor: what is about to be called may wait for
/// all streams. Throws Error(timeout).
void wait_for_streams(LocalRank& local, const char* operation, Deadline until);

/// Pins the block's chunk for the GPU's copies, or learns that the driver refuses to. Returns false
/// if a stream has begun to wait since: wait for that, and call again. Throws Error(timeout).
bool pin_for_streams(LocalRank& local, const char* operation, const std::shared_ptr<cuda::Gpu>& gpu,
                     const OwnedBlock& block, Deadline until);

}  // namespace weft::p2p
