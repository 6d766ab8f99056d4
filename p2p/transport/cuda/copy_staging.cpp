#include "p2p/transport/cuda/copy_staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/check_address.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr std::size_t kHalves = 2;
constexpr std::size_t kLeastChunk = std::size_t{64} << 10;

bool is_registered(const Driver& driver, DevicePointer at) {
  unsigned kind = 0;
  return driver.pointer_attribute(&kind, PointerAttribute::memory_kind, at) ==
             DriverStatus::success &&
         kind == static_cast<unsigned>(MemoryKind::host);
}

/// A copy by two pieces of pinned memory in turn: while the GPU copies one, the processor has the
/// other.
class StagedCopy {
 public:
  StagedCopy(Gpus& gpus, const std::shared_ptr<Gpu>& gpu, const char* operation, const Tensor& from,
             const Tensor& to, Deadline deadline)
      : gpus_(gpus), gpu_(gpu), operation_(operation), from_(from), to_(to), deadline_(deadline) {}

  void run(const CopyStaging& staging) {
    chunk_ = std::min(std::max<std::size_t>(staging.chunk_bytes, 1), from_.bytes());
    const bool is_pinned = take_block(staging);
    const std::size_t chunks = chunk_count();
    if (!is_pinned)
      at_once();
    else if (from_.memory().is_gpu())
      to_host(chunks);
    else
      to_gpu(chunks);
  }

 private:
  bool is_late() const { return deadline_.passed(); }
  std::size_t chunk_count() const { return (from_.bytes() - 1) / chunk_ + 1; }

  /// Returns whether the block is pinned. While a stream waits nothing is, but a smaller block may
  /// fit into what was pinned before.
  bool take_block(const CopyStaging& staging) {
    for (;; chunk_ /= 2) {
      block_ =
          std::make_shared<OwnedBlock>(staging.staging, std::min(kHalves, chunk_count()) * chunk_);
      const std::uint32_t number = block_->block().chunk;
      gpus_.pin(gpu_, block_->arena(), number);
      const std::optional<bool> pinned = gpus_.pins().is_pinned(number);
      // The driver's refusal holds for smaller ones too.
      if (pinned || chunk_ <= kLeastChunk) return pinned.value_or(false);
    }
  }

  /// No memory can be pinned, or not now, since a stream waits: it may wait for the next calls of
  /// this very thread. So the driver copies, and may wait in that.
  void at_once() {
    auto copy = std::make_unique<CopyUnderWay>(operation_, gpu_);
    copy->tensors = {from_, to_};
    const DriverStatus status =
        gpu_->driver().copy(address_of(to_), address_of(from_), from_.bytes(), gpu_->stream());
    under_way_[0] = begun_copy(std::move(copy), gpu_->stream(), status);
    finish(0);
  }

  std::size_t bytes_of(std::size_t number) const {
    return std::min(chunk_, from_.bytes() - number * chunk_);
  }
  std::byte* half(std::size_t number) const { return block_->data() + (number % kHalves) * chunk_; }

  void begin(std::size_t number) {
    const Tensor& on_gpu = from_.memory().is_gpu() ? from_ : to_;
    const DevicePointer there = address_of(on_gpu) + number * chunk_;
    const auto here = reinterpret_cast<DevicePointer>(half(number));
    const bool outwards = from_.memory().is_gpu();
    auto copy = std::make_unique<CopyUnderWay>(operation_, gpu_);
    copy->pinned_by = gpus_.pins().shared_from_this();
    copy->tensors = {on_gpu};
    copy->memory = block_;
    const DriverStatus status = gpu_->driver().copy(
        outwards ? here : there, outwards ? there : here, bytes_of(number), gpu_->stream());
    under_way_[number % kHalves] = begun_copy(std::move(copy), gpu_->stream(), status);
  }

  /// Waits for the chunk that has that half, if there is one.
  void finish(std::size_t number) {
    std::optional<DeviceCopy>& copy = under_way_[number % kHalves];
    for (int round = 0; copy.has_value(); ++round) {
      if (const auto outcome = copy->poll()) {
        outcome->or_throw();
        copy.reset();
      } else if (is_late()) {
        throw_error(Code::timeout, operation_,
                    fmt::format("{} has not copied {} within its time", gpu_->memory().text(),
                                from_.text()),
                    "give it a longer deadline: the target is partly written, and a chunk of it "
                    "may still be under way");
      } else {
        pause_copy(round);
      }
    }
  }

  void to_host(std::size_t chunks) {
    begin(0);
    for (std::size_t i = 0; i < chunks; ++i) {
      if (i + 1 < chunks) begin(i + 1);
      finish(i);
      std::memcpy(to_.data() + i * chunk_, half(i), bytes_of(i));
    }
  }

  void to_gpu(std::size_t chunks) {
    for (std::size_t i = 0; i < chunks; ++i) {
      finish(i);
      std::memcpy(half(i), from_.data() + i * chunk_, bytes_of(i));
      begin(i);
    }
    finish(chunks);
    finish(chunks + 1);
  }

  Gpus& gpus_;
  const std::shared_ptr<Gpu>& gpu_;
  const char* const operation_;
  const Tensor& from_;
  const Tensor& to_;
  const Deadline deadline_;
  std::size_t chunk_ = 0;
  std::shared_ptr<OwnedBlock> block_{};
  std::array<std::optional<DeviceCopy>, kHalves> under_way_{};
};

}  // namespace

bool is_pinned_for_copies(Gpus& gpus, const std::shared_ptr<Gpu>& gpu, const CopyStaging& staging,
                          const Tensor& host) {
  if (const auto at = staging.data->locate(host.data(), host.bytes())) {
    gpus.pin(gpu, staging.data, at->chunk);
    return gpus.pins().is_pinned(at->chunk).value_or(false);
  }
  const DevicePointer first = address_of(host);
  return is_registered(gpu->driver(), first) &&
         is_registered(gpu->driver(), first + host.bytes() - 1);
}

void copy_by_staging(Gpus& gpus, const std::shared_ptr<Gpu>& gpu, const CopyStaging& staging,
                     const char* operation, const Tensor& from, const Tensor& to,
                     Deadline deadline) {
  StagedCopy(gpus, gpu, operation, from, to, deadline).run(staging);
}

void pause_copy(int round) {
  constexpr int kYields = 200;
  constexpr std::chrono::microseconds kSleep{50};
  if (round < kYields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kSleep);
}

}  // namespace weft::p2p::cuda
