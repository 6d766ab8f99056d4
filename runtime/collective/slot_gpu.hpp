// This rank's GPU in a group between hosts: which calls it carries out, and its copies and kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/peer_work.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/collective/task.hpp"

namespace weft::detail {

/// The kernels of a call, and what they are given. Those that it does not need are null.
struct GpuArithmetic {
  p2p::cuda::Function combine = nullptr;  ///< tensors of several ranks, into the result
  p2p::cuda::Function join = nullptr;     ///< two, in the type of the arithmetic
  p2p::cuda::Function widen = nullptr;    ///< into that type; null: the tensors have it
  p2p::cuda::Function finish = nullptr;   ///< and back
  std::size_t element = 1;                ///< bytes
  std::size_t wide = 1;                   ///< bytes of an element in that type
  std::uint32_t ranks = 1;                ///< whose elements a result combines
  double scale = 1;                       ///< see kernels::ReduceParameters
  double divisor = 1;
};

/// A copy or a kernel, while its user has to do with it. Works go on without it.
class GpuWork {
 public:
  /// Whether it has begun and its user has not passed() it.
  bool has_begun() const noexcept { return nth_ != 0; }
  void pass() noexcept { nth_ = 0; }

 private:
  friend class SlotGpu;
  std::uint64_t nth_ = 0;  ///< of all works, from 1; 0: it has not begun
  std::size_t at_ = 0;     ///< where its copy is kept
};

/// Works are on one stream of weft's own and wait for no rank. A work that fails, or can't begin,
/// is the failure of all: nothing begins any more. One thread at a time.
class SlotGpu {
 public:
  SlotGpu(p2p::LocalRank& local, p2p::Mesh& mesh, std::span<const int> ranks, int me);
  SlotGpu(const SlotGpu&) = delete;
  SlotGpu& operator=(const SlotGpu&) = delete;

  /// Whether the GPU may carry out the call, as far as this rank knows alone; else the log has the
  /// reason. Requires a NoneBegins, which lasts until kernels, results and slots are there. Throws
  /// Error.
  bool takes(const Task& task, const Call& call);
  /// Whether the last refusal's reason may pass.
  bool refusal_passes() const noexcept { return refusal_passes_; }
  /// Refuses a call, with a reason that may pass or not. Each is logged once.
  void refuse(const std::string& why, bool passes) noexcept;
  /// The GPU whose memory the slots and all tensors lie in. Requires that takes() was true once.
  const std::shared_ptr<p2p::cuda::Gpu>& gpu() const noexcept { return gpu_; }
  /// Memory for results, as bytes. Throws Error.
  Tensor make(std::size_t bytes) const;
  /// The kernels of a call that combines. `by_pairs`: elements are combined in several places.
  /// nullopt: refused. Throws Error.
  std::optional<GpuArithmetic> find_kernels(const Task& task, bool by_pairs, std::size_t wide);

  /// The call that works are for from now on, and its tensors, which they keep.
  void begin_call(const GpuArithmetic& arithmetic, std::array<Tensor, 3> tensors) noexcept;
  // They begin a work; `from`: an arrival that it reads, which it keeps too.
  void copy(GpuWork& work, std::byte* to, const std::byte* from, std::size_t bytes,
            const Tensor& arrival = {}) noexcept;
  void combine(GpuWork& work, std::byte* to, std::span<const std::byte* const> sources,
               std::int64_t count, std::span<const Tensor> arrivals) noexcept;
  void join(GpuWork& work, std::byte* to, const std::byte* a, const std::byte* b, std::size_t count,
            const Tensor& arrival) noexcept;
  void widen(GpuWork& work, std::byte* to, const std::byte* from, std::size_t count) noexcept;
  void finish(GpuWork& work, std::byte* to, const std::byte* sum, std::size_t count) noexcept;
  /// Whether a work that has begun has ended, and well.
  bool has_ended(const GpuWork& work) noexcept;

  /// Whether a work goes on. A waiting thread of the rank is to look again as long as that is so.
  bool works() noexcept;
  /// Whether it is to do so for something else too that rings no bell.
  void look_again(bool does) noexcept {
    // A work that went on when it was last looked at may have ended since.
    if (std::exchange(looks_again_, does) != does || is_working_) (void)works();
  }
  /// Whether a work went on when that was last looked at.
  bool is_working() const noexcept { return is_working_; }
  /// The same, or something else that is to be looked at again.
  bool is_silent() const noexcept { return is_silent_; }
  const Status& failure() const noexcept { return failure_; }
  /// Works since the last call.
  std::uint64_t take_begun() noexcept { return std::exchange(begun_, 0); }

 private:
  bool place(const Tensor& tensor, std::shared_ptr<p2p::cuda::Gpu>& gpu);
  /// Whether the NICs of all members' paths reach the tensor.
  bool is_reached(const Tensor& tensor);
  bool prepare();
  void begin(GpuWork& work, std::span<const Tensor> arrivals,
             std::span<const p2p::cuda::PeerCopy> copies,
             const p2p::cuda::PeerReduction& reduction) noexcept;
  void convert(GpuWork& work, p2p::cuda::Function kernel, std::byte* to, const std::byte* from,
               std::size_t count) noexcept;
  bool poll(std::size_t at) noexcept;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  const std::span<const int> ranks_;
  const int me_;
  std::shared_ptr<p2p::cuda::Gpu> gpu_;
  p2p::cuda::OwnStreams streams_;
  p2p::cuda::StreamHandle stream_ = nullptr;
  bool refusal_passes_ = false;
  std::vector<std::string> told_;
  const char* operation_ = "collective";
  GpuArithmetic arithmetic_;
  std::array<Tensor, 3> tensors_;
  struct Kept {
    std::uint64_t nth = 0;
    std::optional<p2p::cuda::DeviceCopy> work{};  ///< goes on
  };
  std::vector<Kept> kept_;
  std::uint64_t begun_in_all_ = 0;
  std::uint64_t begun_ = 0;
  Status failure_;
  p2p::SilentWork silent_;
  bool is_working_ = false;
  bool is_silent_ = false;
  bool looks_again_ = false;
};

}  // namespace weft::detail
