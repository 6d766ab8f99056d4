#include "p2p/slot/attach/device_wait.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {

Status copy_and_wait(LocalRank& local, const char* operation, const std::shared_ptr<Arena>& arena,
                     const Tensor& from, const Tensor& to, Deadline until) noexcept {
  const Memory gpu = from.memory().is_gpu() ? from.memory() : to.memory();
  try {
    cuda::DeviceCopy copy = local.gpus->copy_pinned(operation, arena, from, to);
    const auto outcome = wait_for_device(
        local, [&] { return copy.poll(); }, until, [] { return stats::WaitAbout{}; });
    if (outcome) return *outcome;
    throw_error(Code::timeout, operation,
                fmt::format("{} has not copied {} within its time", gpu.text(), from.text()),
                "give it a longer deadline");
  } catch (...) {
    return caught_status();
  }
}

}  // namespace weft::p2p
