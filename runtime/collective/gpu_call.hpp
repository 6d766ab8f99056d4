// A call on tensors on a GPU, by way of host memory.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/collective.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::detail {

/// Stands tensors of the data arena in for those on a GPU. One thread.
class GpuCall {
 public:
  static bool is_needed(const Call& call) noexcept {
    return call.in.memory().is_gpu() || call.out.memory().is_gpu();
  }
  /// Checks the tensors on a GPU. Throws Error: bad_argument, system.
  GpuCall(p2p::LocalRank& local, const Call& call);
  /// Takes the host memory. Throws Error: bad_argument, exhausted.
  void make_host();

  /// The same call on host memory. Requires make_host(), as all below.
  const Call& host() const noexcept { return host_; }
  /// Copies this rank's input from its GPU. For a rank that has one.
  Status bring_in(Deadline until) noexcept;
  /// Copies this rank's output to its GPU. For a rank that has one.
  Status take_out(Deadline until) noexcept;

  // The same for a plan, which does not wait; one copy at a time.
  /// Begins to copy; false if there is nothing to copy. Throws Error.
  bool begin_in() { return begin(call_.in, host_.in); }
  bool begin_out() { return begin(host_.out, call_.out); }
  /// How that ended; nullopt while it is under way. Requires that it has begun.
  std::optional<Status> poll() noexcept;
  /// The GPU of the tensors.
  Memory memory() const noexcept {
    return call_.in.memory().is_gpu() ? call_.in.memory() : call_.out.memory();
  }

  /// Bytes that were copied since the last call.
  std::uint64_t take_staged_bytes() noexcept { return std::exchange(staged_bytes_, 0); }

 private:
  static bool is_needed(const Tensor& from, const Tensor& to) noexcept {
    return (from.memory().is_gpu() || to.memory().is_gpu()) && from.bytes() != 0;
  }
  Tensor make_host(const Tensor& gpu) const;
  Status copy(const Tensor& from, const Tensor& to, Deadline until) noexcept;
  bool begin(const Tensor& from, const Tensor& to);

  p2p::LocalRank& local_;
  const Call call_;
  Call host_;
  std::optional<p2p::cuda::DeviceCopy> copy_{};  ///< under way
  std::uint64_t copied_bytes_ = 0;               ///< by that
  std::uint64_t staged_bytes_ = 0;
};

}  // namespace weft::detail
