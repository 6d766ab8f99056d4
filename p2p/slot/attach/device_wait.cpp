#include "p2p/slot/attach/device_wait.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {
namespace {

[[noreturn]] void throw_streams_wait(const char* operation) {
  throw_error(Code::timeout, operation,
              "memory is to be pinned first, and a stream still waits for another call",
              "make the first call of each slot's end, and of each plan, while no stream waits");
}

}  // namespace

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

bool waits_on_thread(LocalRank& local) noexcept {
  if (!cuda::launches_block()) return false;
  if (local.gpus->is_first_such_wait())
    local.log->warn(Subsystem::slot,
                    "threads wait in the place of streams: CUDA_LAUNCH_BLOCKING is set");
  return true;
}

void wait_for_streams(LocalRank& local, const char* operation, Deadline until) {
  if (!local.gpus->any_stream_waits()) return;
  const auto outcome = wait_for_device(
      local,
      [&] {
        return local.gpus->any_stream_waits() ? std::nullopt : std::optional<Status>(Status{});
      },
      until, [] { return stats::WaitAbout{}; });
  if (!outcome) throw_streams_wait(operation);
}

bool pin_for_streams(LocalRank& local, const char* operation, const std::shared_ptr<cuda::Gpu>& gpu,
                     const OwnedBlock& block, Deadline until) {
  const std::uint32_t chunk = block.block().chunk;
  local.gpus->pin(gpu, block.arena(), chunk);
  if (local.gpus->pins().is_pinned(chunk)) return true;
  // A graph that is replayed waits again and again.
  if (until.passed()) throw_streams_wait(operation);
  return false;
}

}  // namespace weft::p2p
