// One GPU as weft uses it: its primary context, streams of weft's own, errors that name it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/os/fork_mark.hpp"
#include "p2p/transport/cuda/api/driver.hpp"
#include "p2p/transport/cuda/gpu_kernels.hpp"
#include "p2p/transport/cuda/stream_words.hpp"
#include "weft/device.hpp"
#include "weft/error.hpp"

namespace weft::p2p::cuda {

/// Thread-safe. Memory on the GPU keeps it.
class Gpu {
 public:
  /// Retains the primary context, which the application's CUDA runtime shares. Throws Error:
  /// system, exhausted.
  static std::shared_ptr<Gpu> open(const Driver& driver, int ordinal);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  /// Makes the GPU's context current for a scope. The thread's own is as before afterwards.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

   private:
    const Driver& driver_;
  };

  const Driver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  Memory memory() const { return Memory::gpu(ordinal_); }
  Context context() const noexcept { return context_; }
  /// Streams of weft's own, not in order with the application's or each other: one for copies from
  /// this GPU to host memory that others wait for, one for all else.
  StreamHandle stream() const noexcept { return stream_; }
  StreamHandle stream_to_host() const noexcept { return stream_to_host_; }
  /// Whether a server of MPS has the context, and so outlives this process (runs_under_mps()).
  bool under_mps() const noexcept { return under_mps_; }
  /// Whether stream() has ended all that it was given.
  bool has_idle_stream() const noexcept;

  /// True in a fork of the process, where no call of the driver may be made.
  bool forked() const noexcept { return fork_mark_.forked(); }

  /// An event for one use, given back by give_back(). Requires a Current.
  Event take_event();
  void give_back(Event event) noexcept;
  /// A stream for one user at a time, given back by give_back(). Requires a Current. Throws Error.
  StreamHandle take_stream();
  void give_back(StreamHandle stream) noexcept;
  /// Words on which streams wait, made by the first call. Requires a Current. Throws Error.
  StreamWords& words(const char* operation);
  /// The same if they have been made; null, else.
  StreamWords* words_in_use() noexcept { return words_in_use_.load(std::memory_order_acquire); }

  /// The kernels, loaded by the first call. Requires a Current, and then that no stream waits.
  GpuKernels& kernels();
  /// Whether they have been loaded, or refused.
  bool has_looked_for_kernels() noexcept;

  /// Throws the error of a call of the driver unless `status` is success: exhausted for lack of
  /// memory, else system. `function`: the call, as NVIDIA names it.
  void check(DriverStatus status, const char* operation, const char* function) const;
  /// The same as a status.
  Status outcome(DriverStatus status, const char* operation, const char* function) const noexcept;

 private:
  Gpu(const Driver& driver, int ordinal) noexcept : driver_(driver), ordinal_(ordinal) {}

  const Driver& driver_;
  const int ordinal_;
  const os::ForkMark fork_mark_;
  bool under_mps_ = false;
  Context context_ = nullptr;
  StreamHandle stream_ = nullptr;
  StreamHandle stream_to_host_ = nullptr;
  std::mutex mutex_;
  std::vector<Event> events_;
  std::vector<StreamHandle> streams_;  ///< that nobody uses
  std::mutex words_mutex_;
  std::unique_ptr<StreamWords> words_;
  std::atomic<StreamWords*> words_in_use_{nullptr};
  std::mutex kernels_mutex_;
  std::unique_ptr<GpuKernels> kernels_;
};

}  // namespace weft::p2p::cuda
