// Copies by which tensors on a GPU go through host memory.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/check_address.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

/// The GPU that has parts; the first if several have. Requires that one has.
Memory gpu_memory_of(std::span<const Tensor> parts) {
  for (const Tensor& part : parts)
    if (part.memory().is_gpu()) return part.memory();
  return {};
}

}  // namespace

Memory Gpus::resolve(const char* operation, Memory memory) {
  const std::lock_guard lock(mutex_);
  return gpu(operation, memory)->memory();
}

void Gpus::check_parts(const char* operation, std::span<const Tensor> parts) {
  const Memory memory = gpu_memory_of(parts);
  for (const Tensor& part : parts) {
    if (part.memory().is_host()) continue;
    if (!(part.memory() == memory))
      throw_error(Code::bad_argument, operation,
                  fmt::format("of its tensors one lies on {}, another on {}", memory.text(),
                              part.memory().text()),
                  "gather tensors of one GPU");
    if (!part.dense())
      throw_error(Code::bad_argument, operation,
                  fmt::format("the tensor {} on {} has strides", part.text(), memory.text()),
                  "a GPU's tensors are moved dense: copy it there first");
    if (part.arena() != nullptr || part.bytes() == 0) continue;
    std::shared_ptr<Gpu> chosen;
    {
      const std::lock_guard lock(mutex_);
      chosen = gpu(operation, memory);
    }
    const Gpu::Current current(*chosen);
    check_address(*chosen, operation, "the tensor", part);
  }
}

DeviceCopy Gpus::stage(const char* operation, std::span<const Tensor> parts, OwnedBlock block,
                       const StreamPoint* after) {
  reap_late_copies();
  std::shared_ptr<Gpu> chosen;
  {
    const std::lock_guard lock(mutex_);
    chosen = gpu(operation, gpu_memory_of(parts));
  }
  const Gpu::Current current(*chosen);
  const ScopedRelaxation relaxed(chosen->driver());
  pin_chunk(chosen, block.arena(), block.block().chunk);
  auto copy = std::make_unique<CopyUnderWay>(operation, chosen);
  copy->pinned_by = pins_;
  copy->tensors.assign(parts.begin(), parts.end());
  copy->block = std::move(block);
  const StreamHandle stream =
      after == nullptr ? chosen->stream_to_host() : after->hold(chosen, operation);
  std::byte* to = copy->block.data();
  DriverStatus status = DriverStatus::success;
  std::size_t begun = 0;
  for (const Tensor& part : parts) {
    if (part.memory().is_gpu()) {
      if (status == DriverStatus::success && part.bytes() != 0) {
        status = chosen->driver().copy(reinterpret_cast<DevicePointer>(to), address_of(part),
                                       part.bytes(), stream);
        if (status == DriverStatus::success) ++begun;
      }
      to += part.bytes();
      continue;
    }
    for_each_run(part, [&to](const std::byte* from, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      to += bytes;
    });
  }
  return begun_copy(std::move(copy), stream, status, begun);
}

DeviceCopy Gpus::copy_parts(const char* operation, std::span<const Tensor> parts, const Tensor& to,
                            std::span<const std::shared_ptr<Arena>> arenas, OwnedBlock block,
                            const StreamPoint* after) {
  reap_late_copies();
  std::shared_ptr<Gpu> chosen;
  {
    const std::lock_guard lock(mutex_);
    chosen = gpu(operation, to.memory());
  }
  const Gpu::Current current(*chosen);
  const ScopedRelaxation relaxed(chosen->driver());
  auto copy = std::make_unique<CopyUnderWay>(operation, chosen);
  copy->pinned_by = pins_;
  copy->tensors.assign(parts.begin(), parts.end());
  copy->tensors.push_back(to);
  copy->block = std::move(block);
  const StreamHandle stream = after == nullptr ? chosen->stream() : after->hold(chosen, operation);
  // The address that the GPU copies from.
  const auto source = [&](const Tensor& part, std::size_t offset) {
    if (part.memory().is_gpu()) return address_of(part);
    for (const auto& arena : arenas)
      if (const auto at = arena->locate(part.data(), part.extent()); at && part.dense()) {
        pin_chunk(chosen, arena, at->chunk);
        return address_of(part);
      }
    std::byte* const packed = copy->block.data() + offset;
    pin_chunk(chosen, copy->block.arena(), copy->block.block().chunk);
    std::byte* end = packed;
    for_each_run(part, [&end](const std::byte* from, std::size_t bytes) {
      std::memcpy(end, from, bytes);
      end += bytes;
    });
    return reinterpret_cast<DevicePointer>(packed);
  };
  DriverStatus status = DriverStatus::success;
  std::size_t begun = 0;
  std::size_t offset = 0;
  for (const Tensor& part : parts) {
    if (status == DriverStatus::success && part.bytes() != 0) {
      status = chosen->driver().copy(address_of(to) + offset, source(part, offset), part.bytes(),
                                     stream);
      if (status == DriverStatus::success) ++begun;
    }
    offset += part.bytes();
  }
  return begun_copy(std::move(copy), stream, status, begun);
}

DeviceCopy Gpus::stage(const char* operation, const Tensor& from,
                       std::shared_ptr<const OwnedBlock> block, std::size_t offset) {
  return copy_held(operation, from, std::move(block), offset, true);
}

DeviceCopy Gpus::unstage(const char* operation, std::shared_ptr<const OwnedBlock> block,
                         std::size_t offset, const Tensor& to) {
  return copy_held(operation, to, std::move(block), offset, false);
}

DeviceCopy Gpus::copy_held(const char* operation, const Tensor& on_gpu,
                           std::shared_ptr<const OwnedBlock> block, std::size_t offset,
                           bool outwards) {
  reap_late_copies();
  std::shared_ptr<Gpu> chosen;
  {
    const std::lock_guard lock(mutex_);
    chosen = gpu(operation, on_gpu.memory());
  }
  const Gpu::Current current(*chosen);
  const ScopedRelaxation relaxed(chosen->driver());
  pin_chunk(chosen, block->arena(), block->block().chunk);
  auto copy = std::make_unique<CopyUnderWay>(operation, chosen);
  copy->pinned_by = pins_;
  copy->tensors = {on_gpu};
  const auto there = address_of(on_gpu);
  const auto here = reinterpret_cast<DevicePointer>(block->data() + offset);
  copy->memory = std::move(block);
  const auto stream = outwards ? chosen->stream_to_host() : chosen->stream();
  const DriverStatus status = chosen->driver().copy(
      outwards ? here : there, outwards ? there : here, on_gpu.bytes(), stream);
  return begun_copy(std::move(copy), stream, status);
}

DeviceCopy Gpus::copy_pinned(const char* operation, const std::shared_ptr<Arena>& arena,
                             const Tensor& from, const Tensor& to) {
  reap_late_copies();
  const bool outwards = from.memory().is_gpu();
  const Tensor& host = outwards ? to : from;
  std::shared_ptr<Gpu> chosen;
  {
    const std::lock_guard lock(mutex_);
    chosen = gpu(operation, outwards ? from.memory() : to.memory());
  }
  const Gpu::Current current(*chosen);
  const ScopedRelaxation relaxed(chosen->driver());
  if (const auto at = arena->locate(host.data(), host.bytes())) pin_chunk(chosen, arena, at->chunk);
  auto copy = std::make_unique<CopyUnderWay>(operation, chosen);
  copy->pinned_by = pins_;
  copy->tensors = {from, to};
  const auto stream = outwards ? chosen->stream_to_host() : chosen->stream();
  const DriverStatus status =
      chosen->driver().copy(address_of(to), address_of(from), from.bytes(), stream);
  return begun_copy(std::move(copy), stream, status);
}

}  // namespace weft::p2p::cuda
