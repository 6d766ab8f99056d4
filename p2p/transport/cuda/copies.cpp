// World::copy: what it checks, and how it waits.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/transport/cuda/capture.hpp"
#include "p2p/transport/cuda/check_address.hpp"
#include "p2p/transport/cuda/copy_staging.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kCopy = "copy";

[[noreturn]] void refuse_copy(std::string message, const char* hint) {
  throw_error(Code::bad_argument, kCopy, std::move(message), hint);
}

void check_ends(const Tensor& from, const Tensor& to) {
  if (from.dtype() != to.dtype() || !(from.shape() == to.shape()))
    throw_error(Code::mismatch, kCopy,
                fmt::format("the source is {} and the target {}", from.text(), to.text()),
                "both must have one dtype and shape");
  for (const auto& [which, tensor] : {std::pair{"source", &from}, std::pair{"target", &to}}) {
    if (tensor->bytes() == 0 && tensor->shape().elements() != 0)
      refuse_copy(fmt::format("the {} {} has no memory", which, tensor->text()),
                  "allocate it, or wrap or adopt memory");
    if (!tensor->dense())
      refuse_copy(fmt::format("the {} {} has strides", which, tensor->text()),
                  "copy dense tensors");
  }
}

/// After a timeout the copy keeps its tensors until it ends.
void wait_for_copy(DeviceCopy copy, Memory memory, const Tensor& from, Deadline deadline) {
  for (int round = 0;; ++round) {
    if (const auto outcome = copy.poll()) return outcome->or_throw();
    if (deadline.passed())
      throw_error(Code::timeout, kCopy,
                  fmt::format("{} has not copied {} within its time", memory.text(), from.text()),
                  "keep the memory of both: the copy is still under way");
    pause_copy(round);
  }
}

}  // namespace

std::shared_ptr<Gpu> Gpus::gpu_of_copy(const Tensor& from, const Tensor& to, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (from.memory().is_gpu() && to.memory().is_gpu() && !(from.memory() == to.memory()))
    refuse_copy(fmt::format("from {} to {}", from.memory().text(), to.memory().text()),
                "weft copies within one GPU so far: copy to host memory first");
  Memory memory = from.memory().is_gpu() ? from.memory() : to.memory();
  const bool has_handle = !stream.none() && stream.handle() != nullptr;
  if (!has_handle) return gpu(kCopy, memory.is_host() ? Memory::gpu() : memory);
  const int ordinal = gpu_of_stream(driver(kCopy), kCopy, stream.handle());
  if (memory.is_host()) memory = Memory::gpu(ordinal);
  if (ordinal != memory.ordinal())
    refuse_copy(
        fmt::format("the stream is of GPU {}, and the tensors are on {}", ordinal, memory.text()),
        "give a stream of the tensors' GPU");
  return gpu(kCopy, memory);
}

void Gpus::copy(const Tensor& from, const Tensor& to, Stream stream, const CopyStaging& staging,
                Deadline deadline) {
  check_ends(from, to);
  if (from.bytes() == 0) return;
  reap_late_copies();
  reap_graphs();
  if (from.memory().is_host() && to.memory().is_host() && stream.none()) {
    check_host(kCopy, from);
    check_host(kCopy, to);
    std::memmove(to.data(), from.data(), from.bytes());
    return;
  }
  const auto chosen = gpu_of_copy(from, to, stream);
  const Gpu::Current current(*chosen);
  check_address(*chosen, kCopy, "the source", from);
  check_address(*chosen, kCopy, "the target", to);
  const auto handle = stream.none() ? chosen->stream() : static_cast<StreamHandle>(stream.handle());
  if (!stream.none())
    return chosen->check(
        chosen->driver().copy(address_of(to), address_of(from), from.bytes(), handle), kCopy,
        "cuMemcpyAsync");
  const ScopedRelaxation relaxed(chosen->driver());
  const Tensor* const host = from.memory().is_host() ? &from
                             : to.memory().is_host() ? &to
                                                     : nullptr;
  if (host != nullptr && !is_pinned_for_copies(*this, chosen, staging, *host))
    return copy_by_staging(*this, chosen, staging, kCopy, from, to, deadline);
  auto copy = std::make_unique<CopyUnderWay>(kCopy, chosen);
  copy->pinned_by = pins_;
  copy->tensors = {from, to};
  const DriverStatus status =
      chosen->driver().copy(address_of(to), address_of(from), from.bytes(), handle);
  wait_for_copy(begun_copy(std::move(copy), handle, status), chosen->memory(), from, deadline);
}

}  // namespace weft::p2p::cuda
