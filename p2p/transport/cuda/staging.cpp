// Copies by which tensors on a GPU go through host memory.
#include <fmt/format.h>

#include <algorithm>
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

DeviceCopy Gpus::copy_to_host(std::unique_ptr<CopyUnderWay> copy, std::span<const Tensor> parts,
                              std::byte* to, std::size_t chunk, const StreamPoint* after) {
  Gpu& gpu = *copy->gpu;
  const StreamHandle stream =
      after == nullptr ? gpu.stream_to_host() : after->hold(copy->gpu, copy->operation);
  std::size_t left = 0;
  for (const Tensor& part : parts) left += part.bytes();
  std::size_t until_mark = chunk == 0 || chunk >= left ? left + 1 : chunk;
  DriverStatus status = DriverStatus::success;
  std::size_t begun = 0;
  // As far as the end of a chunk, at most.
  const auto next = [&](std::size_t bytes) { return std::min(bytes, until_mark); };
  const auto pass = [&](std::size_t bytes) {
    to += bytes;
    left -= bytes;
    until_mark -= bytes;
    if (until_mark != 0) return;
    until_mark = chunk < left ? chunk : left + 1;
    if (status == DriverStatus::success)
      status = gpu.driver().record_event(copy->chunks[copy->there++], stream);
  };
  if (chunk != 0 && left != 0) copy->chunks.reserve((left - 1) / chunk);
  for (std::size_t at = chunk; chunk != 0 && at < left; at += chunk)
    copy->chunks.push_back(gpu.take_event());
  for (const Tensor& part : parts) {
    if (part.memory().is_gpu()) {
      for (std::size_t done = 0; done < part.bytes();) {
        const std::size_t bytes = next(part.bytes() - done);
        if (status == DriverStatus::success) {
          status = gpu.driver().copy(reinterpret_cast<DevicePointer>(to), address_of(part) + done,
                                     bytes, stream);
          if (status == DriverStatus::success) ++begun;
        }
        done += bytes;
        pass(bytes);
      }
      continue;
    }
    for_each_run(part, [&](const std::byte* from, std::size_t bytes) {
      while (bytes != 0) {
        const std::size_t some = next(bytes);
        std::memcpy(to, from, some);
        from += some;
        bytes -= some;
        pass(some);
      }
    });
  }
  copy->there = 0;
  return begun_copy(std::move(copy), stream, status, begun);
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
  std::byte* const to = copy->block.data();
  return copy_to_host(std::move(copy), parts, to, 0, after);
}

DeviceCopy Gpus::stage(const char* operation, std::span<const Tensor> parts,
                       std::shared_ptr<const OwnedBlock> block, std::size_t offset,
                       std::size_t chunk, const StreamPoint* after) {
  reap_late_copies();
  std::shared_ptr<Gpu> chosen;
  {
    const std::lock_guard lock(mutex_);
    chosen = gpu(operation, gpu_memory_of(parts));
  }
  const Gpu::Current current(*chosen);
  const ScopedRelaxation relaxed(chosen->driver());
  pin_chunk(chosen, block->arena(), block->block().chunk);
  auto copy = std::make_unique<CopyUnderWay>(operation, chosen);
  copy->pinned_by = pins_;
  copy->tensors.assign(parts.begin(), parts.end());
  std::byte* const to = block->data() + offset;
  copy->memory = std::move(block);
  return copy_to_host(std::move(copy), parts, to, chunk, after);
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

DeviceCopy Gpus::unstage(const char* operation, std::shared_ptr<const OwnedBlock> block,
                         std::size_t offset, const Tensor& to, Range range) {
  reap_late_copies();
  std::shared_ptr<Gpu> chosen;
  {
    const std::lock_guard lock(mutex_);
    chosen = gpu(operation, to.memory());
  }
  const Gpu::Current current(*chosen);
  const ScopedRelaxation relaxed(chosen->driver());
  pin_chunk(chosen, block->arena(), block->block().chunk);
  auto copy = std::make_unique<CopyUnderWay>(operation, chosen);
  copy->pinned_by = pins_;
  copy->tensors = {to};
  const auto from = reinterpret_cast<DevicePointer>(block->data() + offset + range.first);
  copy->memory = std::move(block);
  const std::size_t bytes = range.bytes == 0 ? to.bytes() - range.first : range.bytes;
  const DriverStatus status =
      chosen->driver().copy(address_of(to) + range.first, from, bytes, chosen->stream());
  return begun_copy(std::move(copy), chosen->stream(), status);
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
