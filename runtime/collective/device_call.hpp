// A call that the GPUs of the ranks carry out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "runtime/collective/group_area.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::detail {

/// The places of this rank's tensors, and of the others' while the call is under way.
struct DeviceCall {
  enum class Step : std::uint8_t {
    offered,  ///< others may have tensors in host memory, or an unknown place
    writing,  ///< pages are written that prove the paths
    proving,  ///< they are read back
    wrote,    ///< others' pages may be missing
    reading,  ///< their pages are read
    said,     ///< others may refuse
    working   ///< this rank's GPU does its share
  };

  std::shared_ptr<p2p::cuda::Gpu> gpu{};
  p2p::cuda::Function kernel = nullptr;  ///< null: the call combines nothing
  DevicePlaces places{};

  Step step = Step::offered;
  // By member.
  std::vector<const std::byte*> ins{};
  std::vector<std::byte*> outs{};
  std::vector<std::array<char, 16>> gpus{};  ///< UUIDs
  std::vector<Tensor> pages{};               ///< for this rank, on the others' GPUs
  std::uint64_t nonce = 0;
  std::vector<Tensor> held{};                   ///< memory that must stay while the GPU works
  std::optional<p2p::cuda::DeviceCopy> work{};  ///< goes on
  Status outcome{};                             ///< of the work that has ended

  /// The outcome of this rank's share; nullopt while its GPU works.
  std::optional<Status> poll() noexcept {
    if (work)
      if (const auto ended = work->poll()) {
        outcome = *ended;
        work.reset();
      }
    return work ? std::nullopt : std::optional(outcome);
  }
  /// Begins anew.
  void take(p2p::cuda::Begun begun) noexcept {
    work = std::move(begun.work);
    outcome = std::move(begun.status);
  }
};

}  // namespace weft::detail
