// Words on which streams wait for the processor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "p2p/transport/cuda/api/driver.hpp"

namespace weft::p2p::cuda {

class Gpu;

/// A page of words in host memory that is pinned for all GPUs, made once: nothing may be pinned
/// while a stream waits. The value of a word that streams wait on only rises, so it serves again at
/// once, whether or not the stream has gone on. The words of take(), whose values are their
/// owner's, are others. Thread-safe.
class StreamWords {
 public:
  static constexpr std::uint32_t kCount = 8192;   ///< for streams to wait on
  static constexpr std::uint32_t kTaken = 16384;  ///< for take(), behind them

  /// Requires a Gpu::Current. Throws Error.
  StreamWords(Gpu& gpu, const char* operation);
  /// So that none is made while a stream waits. Requires a Gpu::Current. Throws Error.
  void make_events(Gpu& gpu);
  StreamWords(const StreamWords&) = delete;
  StreamWords& operator=(const StreamWords&) = delete;
  /// Requires a Gpu::Current, and that no stream waits. A stream that has not noticed yet keeps the
  /// page.
  ~StreamWords();

  /// While one exists, no stream begins to wait. For calls of the driver that may wait for all
  /// streams, and look before whether one waits. Such calls follow each other. Any thread.
  class NoneBegins {
   public:
    NoneBegins();

   private:
    const std::lock_guard<std::mutex> lock_;
  };

  struct Word {
    std::uint32_t index = 0;
    std::uint32_t value = 0;  ///< with which its stream goes on
  };
  /// Makes a stream wait on a word that is not in use. Requires a Gpu::Current. Throws Error.
  Word begin_wait(Gpu& gpu, const char* operation, StreamHandle stream);
  /// The stream goes on, behind all that this thread has written.
  void end_wait(Word word) noexcept;
  /// Streams that wait.
  int waiting() const noexcept { return waiting_.load(std::memory_order_acquire); }
  /// The same of streams that wait in captured graphs, on words of take(): +1 or -1.
  void count_waiting(int change) noexcept {
    waiting_.fetch_add(change, std::memory_order_acq_rel);
    all_waiting.fetch_add(change, std::memory_order_acq_rel);
  }
  /// Whether a stream of the process waits for any of its worlds.
  static bool any_waits() noexcept { return all_waiting.load(std::memory_order_acquire) > 0; }
  /// Waits that are part of graphs. One that is launched may be on its way to them at any time.
  int captured() const noexcept { return captured_.load(std::memory_order_acquire); }
  void count_captured(int change) noexcept {
    captured_.fetch_add(change, std::memory_order_acq_rel);
  }

  /// Words that no stream waits on, for GPUs to read. Throws Error(exhausted).
  std::vector<std::uint32_t> take(const char* operation, std::size_t count);
  void give_back(const std::vector<std::uint32_t>& indices) noexcept;
  std::uint32_t* at(std::uint32_t index) noexcept { return &words_[index]; }

 private:
  void store(std::uint32_t index, std::uint32_t value) noexcept;
  /// A word on which no stream waits any more, as far as there is one. Requires the mutex, and that
  /// some are free.
  std::uint32_t take_free() noexcept;
  bool all_have_passed() noexcept;

  const Driver& driver_;
  std::uint32_t* words_ = nullptr;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> not_taken_;
  std::vector<std::uint32_t> values_;
  std::vector<Event> events_;  ///< behind a word's last wait; null: there was none
  std::atomic<int> waiting_{0};
  static inline std::atomic<int> all_waiting{0};
  std::atomic<int> captured_{0};
};

/// A stream that waits until this object says so, or goes. A value that moves; one thread at a
/// time.
class StreamWait {
 public:
  StreamWait() noexcept = default;
  /// As StreamWords::begin_wait.
  StreamWait(std::shared_ptr<Gpu> gpu, const char* operation, StreamHandle stream);
  StreamWait(StreamWait&& other) noexcept
      : gpu_(std::move(other.gpu_)), word_(std::exchange(other.word_, {})) {}
  StreamWait& operator=(StreamWait&& other) noexcept {
    end();
    gpu_ = std::move(other.gpu_);
    word_ = other.word_;
    return *this;
  }
  ~StreamWait() { end(); }

  void end() noexcept;

 private:
  std::shared_ptr<Gpu> gpu_;
  StreamWords::Word word_{};
};

/// Stores to a word that GPUs read.
inline void tell_gpus(std::uint32_t& word, std::uint32_t value) noexcept {
  std::atomic_ref<std::uint32_t>(word).store(value, std::memory_order_release);
}

}  // namespace weft::p2p::cuda
