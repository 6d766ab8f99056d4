// Streams of the application's that wait for arrivals, and that release arrivals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "p2p/transport/cuda/user_stream.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// An owner's, made by the first wait of a stream. The application's thread adds to it, the
/// progress thread works it off. Everything requires the mutex, but for is_failed().
class StreamArrivals {
 public:
  struct Waiting {
    std::uint64_t sequence = 0;
    std::uint64_t buffer = 0;
    Deadline until{};
    std::uint32_t* outcome = nullptr;
    cuda::StreamWait wait{};
  };
  struct Releasing {
    std::uint64_t sequence = 0;
    std::unique_ptr<cuda::StreamPoint> after{};  ///< null: once it has arrived
  };

  /// `words`: of that GPU's. Each arrival that may be held, or waited for, has one.
  StreamArrivals(std::shared_ptr<cuda::Gpu> gpu, cuda::StreamWords& words, std::uint32_t depth)
      : gpu_(std::move(gpu)),
        words_(words),
        outcomes_(words.take("wait", 2 * std::size_t{depth})) {}
  StreamArrivals(const StreamArrivals&) = delete;
  StreamArrivals& operator=(const StreamArrivals&) = delete;
  ~StreamArrivals() {
    if (!gpu_->forked()) words_.give_back(outcomes_);
  }

  std::mutex mutex;
  std::deque<Waiting> waiting{};       ///< in the order of their sequences
  std::vector<Releasing> releasing{};  ///< their arrivals are gone
  bool is_served = false;              ///< the progress thread looks

  /// The word of the next wait.
  std::uint32_t* next_outcome() noexcept {
    std::uint32_t* const word = words_.at(outcomes_[turn_++ % outcomes_.size()]);
    cuda::tell_gpus(*word, 0);
    return word;
  }
  bool is_awaited(std::uint64_t sequence) const noexcept {
    return std::ranges::any_of(waiting,
                               [&](const Waiting& one) { return one.sequence == sequence; });
  }
  /// The `kept` first go on waiting; the tensors of the others have not come, and their streams go
  /// on. The first failure counts.
  void fail(std::size_t kept, Status why) {
    for (std::size_t i = kept; i < waiting.size(); ++i) {
      Waiting& one = waiting[i];
      cuda::tell_gpus(*one.outcome, static_cast<std::uint32_t>(why.code()));
      one.wait.end();
      const auto is_of_it = [&](const Releasing& other) { return other.sequence == one.sequence; };
      if (std::erase_if(releasing, is_of_it) == 0) void_.push_back(one.sequence);
    }
    resume_ = {waiting[kept].sequence, waiting[kept].buffer};
    waiting.resize(kept);
    if (failure_.ok()) failure_ = std::move(why);
    failed_.store(true, std::memory_order_release);
  }
  /// Whether the application is to be told of a failure. Any thread.
  bool is_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  struct Resume {
    std::uint64_t sequence = 0;
    std::uint64_t buffer = 0;
  };
  /// Requires is_failed(). Where the next wait begins anew.
  std::pair<Status, Resume> take_failure() noexcept {
    failed_.store(false, std::memory_order_release);
    return {std::exchange(failure_, {}), resume_};
  }
  /// Whether an arrival that is let go never came.
  bool forget_void(std::uint64_t sequence) noexcept {
    const auto found = std::ranges::find(void_, sequence);
    if (found == void_.end()) return false;
    void_.erase(found);
    return true;
  }
  const std::shared_ptr<cuda::Gpu>& gpu() const noexcept { return gpu_; }

 private:
  const std::shared_ptr<cuda::Gpu> gpu_;
  cuda::StreamWords& words_;
  const std::vector<std::uint32_t> outcomes_;
  std::uint64_t turn_ = 0;
  std::vector<std::uint64_t> void_{};  ///< arrivals that the application holds and that never came
  Status failure_{};
  Resume resume_{};
  std::atomic<bool> failed_{false};
};

}  // namespace weft::p2p
