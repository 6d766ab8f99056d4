// Streams of the application's that wait for arrivals, and that release arrivals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/slot/attach/graph_calls.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
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
    std::uint32_t* outcome = nullptr;  ///< the attempt, too: a sequence may have several
    cuda::StreamWait wait{};
    // In a captured graph, in the place of the wait:
    std::shared_ptr<GraphCall> graph{};
    std::uint64_t run = 0;
    std::optional<cuda::DeviceCopy> copy{};  ///< to the graph's own tensor
  };
  struct Releasing {
    std::uint64_t sequence = 0;
    const std::uint32_t* outcome = nullptr;      ///< null: a thread has waited for it
    std::unique_ptr<cuda::StreamPoint> after{};  ///< null: once it has arrived
    bool is_void = false;                        ///< it never came: only its word is let go
  };

  /// `words`: of that GPU's. Each arrival that is waited for, or held since, has one.
  StreamArrivals(std::shared_ptr<cuda::Gpu> gpu, cuda::StreamWords& words, std::uint32_t depth)
      : gpu_(std::move(gpu)),
        words_(words),
        outcomes_(words.take("wait", 2 * std::size_t{depth})),
        free_(outcomes_) {}
  StreamArrivals(const StreamArrivals&) = delete;
  StreamArrivals& operator=(const StreamArrivals&) = delete;
  ~StreamArrivals() {
    if (!gpu_->forked()) words_.give_back(outcomes_);
  }

  std::mutex mutex;
  std::deque<Waiting> waiting{};       ///< in the order of their sequences
  std::vector<Releasing> releasing{};  ///< their arrivals are gone
  bool is_served = false;              ///< the progress thread looks

  /// A word for the next wait, until free_outcome(). Throws Error(exhausted), std::bad_alloc.
  std::uint32_t* next_outcome() {
    void_.reserve(void_.size() + waiting.size() + 1);  // fail() must not fail
    if (free_.empty()) {
      // Arrivals that never came are held.
      outcomes_.reserve(outcomes_.size() + 1);
      free_.reserve(outcomes_.size() + 1);
      free_.push_back(words_.take("wait", 1).front());
      outcomes_.push_back(free_.front());
    }
    std::uint32_t* const word = words_.at(free_.back());
    free_.pop_back();
    cuda::tell_gpus(*word, 0);
    return word;
  }
  /// The arrival has gone. Null: it had no word.
  void free_outcome(const std::uint32_t* word) noexcept {
    if (word != nullptr) free_.push_back(static_cast<std::uint32_t>(word - words_.at(0)));
  }
  /// A graph's run takes a tensor. Returns false without memory for it.
  bool add(const GraphPort::Run& run, std::uint64_t sequence, std::uint64_t buffer) noexcept {
    try {
      Waiting& one = waiting.emplace_back();
      one.sequence = sequence;
      one.buffer = buffer;
      one.until = run.until;
      one.graph = run.call;
      one.run = run.number;
      return true;
    } catch (...) {
      return false;
    }
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
      if (one.graph != nullptr) {
        one.graph->port->end(*one.graph, one.run, static_cast<std::uint32_t>(why.code()));
        continue;
      }
      cuda::tell_gpus(*one.outcome, static_cast<std::uint32_t>(why.code()));
      one.wait.end();
      const auto behind = std::ranges::find(releasing, one.outcome, &Releasing::outcome);
      if (behind == releasing.end()) {
        void_.push_back(one.outcome);
      } else if (behind->after != nullptr) {
        behind->is_void = true;
      } else {
        free_outcome(one.outcome);
        releasing.erase(behind);
      }
    }
    resume_ = Resume{waiting[kept].sequence, waiting[kept].buffer};
    waiting.resize(kept);
    fail_next(std::move(why));
  }
  /// The next tensor can't be waited for, and no stream has begun to.
  void fail_next(Status why) {
    if (failure_.ok()) failure_ = std::move(why);
    failed_.store(true, std::memory_order_release);
  }
  /// Requires is_failed().
  std::uint32_t failure_code() const noexcept {
    return static_cast<std::uint32_t>(failure_.code());
  }
  /// Whether the application is to be told of a failure. Any thread.
  bool is_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  struct Resume {
    std::uint64_t sequence = 0;
    std::uint64_t buffer = 0;
  };
  /// Requires is_failed(). Where the next wait begins anew; nullopt: where it is.
  std::pair<Status, std::optional<Resume>> take_failure() noexcept {
    failed_.store(false, std::memory_order_release);
    return {std::exchange(failure_, {}), std::exchange(resume_, std::nullopt)};
  }
  /// Whether an arrival that is let go never came. Its word stays in use.
  bool forget_void(const std::uint32_t* outcome) noexcept {
    const auto found = std::ranges::find(void_, outcome);
    if (found == void_.end()) return false;
    void_.erase(found);
    return true;
  }
  const std::shared_ptr<cuda::Gpu>& gpu() const noexcept { return gpu_; }

 private:
  const std::shared_ptr<cuda::Gpu> gpu_;
  cuda::StreamWords& words_;
  std::vector<std::uint32_t> outcomes_;
  std::vector<std::uint32_t> free_;  ///< of them, with room for all
  /// Words of arrivals that the application holds and that never came.
  std::vector<const std::uint32_t*> void_{};
  Status failure_{};
  std::optional<Resume> resume_{};
  std::atomic<bool> failed_{false};
};

}  // namespace weft::p2p
