// A call on tensors on a GPU, by way of host memory.
#pragma once

#include <memory>

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
  /// Checks the tensors on a GPU. Throws Error: bad_argument, exhausted, system.
  GpuCall(p2p::LocalRank& local, const Call& call);

  /// The same call on host memory.
  const Call& host() const noexcept { return host_; }
  /// Copies this rank's input from its GPU. For a rank that has one.
  Status bring_in(Deadline until) noexcept;
  /// Copies this rank's output to its GPU. For a rank that has one.
  Status take_out(Deadline until) noexcept;
  /// Bytes that these two have copied.
  std::uint64_t staged_bytes() const noexcept { return staged_bytes_; }

 private:
  Tensor make_host(const Tensor& gpu) const;
  Status copy(const Tensor& from, const Tensor& to, Deadline until) noexcept;

  p2p::LocalRank& local_;
  const Call call_;
  Call host_;
  std::uint64_t staged_bytes_ = 0;
};

}  // namespace weft::detail
