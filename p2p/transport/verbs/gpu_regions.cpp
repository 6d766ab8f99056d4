#include "p2p/transport/verbs/gpu_regions.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/own_gpu.hpp"
#include "p2p/transport/verbs/regions.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr const char* kRegister = "register";
constexpr int kGpuAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// The memory that the thread's batch has flushed.
struct BatchState {
  bool is_open = false;
  const void* flushed = nullptr;
};
thread_local BatchState flush_batch;

}  // namespace

GpuRegions::Batch::Batch() noexcept { flush_batch = {.is_open = true}; }
GpuRegions::Batch::~Batch() { flush_batch = {}; }

GpuRegions::GpuRegions(Device& device, Regions& host, std::shared_ptr<Arena> staging,
                       cuda::Gpus* const* gpus)
    : device_(device), host_(host), staging_(std::move(staging)), gpus_(gpus) {}

Result<RegisteredChunk> GpuRegions::of_chunk(std::uint32_t chunk) noexcept {
  try {
    if (*gpus_ != nullptr)
      if (const auto found = (*gpus_)->chunk(chunk)) return find_or_make(*found);
  } catch (...) {
    return caught_status();
  }
  return refuse(Code::bad_argument, [&] {
    return ErrorDetail{.operation = kRegister,
                       .message = fmt::format("chunk {:#x} is none on a GPU", chunk)};
  });
}

Result<std::uint32_t> GpuRegions::local_key(const std::byte* data, std::size_t bytes) noexcept {
  if (const RegionTable::Region* region = table_.find(data, bytes)) return region->local_key;
  try {
    if (*gpus_ != nullptr)
      if (const auto found = (*gpus_)->chunk_at(data, bytes)) {
        const auto made = find_or_make(*found);
        if (!made.ok()) return made.status();
        return made->local_key;
      }
  } catch (...) {
    return caught_status();
  }
  return refuse(Code::bad_argument, [&] {
    return ErrorDetail{.operation = kRegister,
                       .message = fmt::format("{} bytes lie in no arena on a GPU", bytes)};
  });
}

Result<RegisteredChunk> GpuRegions::find_or_make(const cuda::GpuChunk& chunk) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const Made& made = this->make(chunk);
    if (!made.refusal.ok()) return made.refusal;
    return made.chunk;
  } catch (...) {
    return caught_status();
  }
}

const GpuRegions::Made& GpuRegions::make(const cuda::GpuChunk& chunk) {
  if (const auto known = made_.find(chunk.chunk); known != made_.end()) return known->second;
  try {
    reach(chunk).refusal.or_throw();
    // The page that proved the GPU may lie in this chunk.
    if (const auto known = made_.find(chunk.chunk); known != made_.end()) return known->second;
    return keep(chunk.chunk, register_chunk(chunk));
  } catch (const Error& error) {
    return made_[chunk.chunk] = {.chunk = {}, .refusal = error.status()};
  }
}

const GpuRegions::Made& GpuRegions::keep(std::uint32_t chunk, const RegisteredChunk& made) {
  table_.add({made.data, made.bytes, made.local_key});
  return made_[chunk] = {.chunk = made, .refusal = {}};
}

Result<GpuRegions::Reach> GpuRegions::reach_of(const cuda::GpuChunk& chunk) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const Reached& reached = reach(chunk);
    if (!reached.refusal.ok()) return reached.refusal;
    return Reach{reached.registered_by, reached.flush};
  } catch (...) {
    return caught_status();
  }
}

RegisteredChunk GpuRegions::register_chunk(const cuda::GpuChunk& chunk, std::string* by) {
  RegisteredChunk made{chunk.data(), chunk.bytes(), 0, 0};
  handles_.reserve(handles_.size() + 1);
  arenas_.push_back(chunk.arena);
  Verbs& verbs = device_.verbs();
  std::string why;
  MemoryRegion region;
  if (const os::Fd descriptor = cuda::dma_buf_of(chunk, why)) {
    region = MemoryRegion(
        verbs, verbs.reg_dmabuf_mr(device_.domain(),
                                   {.fd = descriptor.get(),
                                    .bytes = made.bytes,
                                    .address = reinterpret_cast<std::uint64_t>(made.data)},
                                   kGpuAccess));
    if (!region) why = fmt::format("ibv_reg_dmabuf_mr: {}", os::words(errno));
  }
  if (by != nullptr) *by = region ? "dma-buf" : "address, since " + why;
  if (!region) {
    region = MemoryRegion(verbs, verbs.reg_mr(device_.domain(), made.data, made.bytes, kGpuAccess));
    if (!region)
      throw_error(Code::system, kRegister,
                  fmt::format("{} registers no memory of GPU {}: {}; ibv_reg_mr: {}",
                              device_.name(), chunk.gpu->ordinal(), why, os::words(errno)),
                  "a kernel, driver and NIC with dma-buf, or the module nvidia-peermem");
  }
  made.local_key = region->lkey;
  made.remote_key = region->rkey;
  handles_.push_back(std::move(region));
  return made;
}

GpuRegions::Reached& GpuRegions::reach(const cuda::GpuChunk& chunk) {
  const auto [place, is_new] = reached_.try_emplace(chunk.gpu->ordinal());
  Reached& reached = place->second;
  if (!is_new) return reached;
  try {
    prove(reached, chunk);
  } catch (const Error& error) {
    reached.refusal = error.status();
  }
  return reached;
}

Loopback::Range GpuRegions::here() const noexcept {
  return {block_.data(), static_cast<std::uint32_t>(kGpuPage), block_key_};
}

void GpuRegions::prove(Reached& reached, const cuda::GpuChunk& chunk) {
  const auto& setting = device_.options();
  reached.gpu = chunk.gpu;
  if (!setting.gpudirect)
    throw_error(Code::system, kRegister, "GPUDirect is off", "WEFT_GDR_LEVEL=never asks for that");
  if (auto why = cuda::no_gpudirect(*chunk.gpu))
    throw_error(Code::system, kRegister, std::move(*why));
  if (!setting.far_gpus.empty())
    for (const std::string own = cuda::pci_address_of(chunk.gpu->driver(), chunk.gpu->ordinal());
         const auto& [pci, why] : setting.far_gpus)
      if (pci == own)
        throw_error(Code::system, kRegister,
                    fmt::format("{} and GPU {}: {}", device_.name(), chunk.gpu->ordinal(), why),
                    "WEFT_GDR_LEVEL sets how far GPUDirect goes");
  reached.flush = cuda::flush_by(*chunk.gpu, setting.gpu_flush);
  reached.page = Tensor(make_storage(chunk.arena, kGpuPage), 0, DType::u8, {kGpuPage});
  const auto at = chunk.arena->locate(reached.page.data(), kGpuPage);
  const RegisteredChunk made =
      register_chunk({chunk.arena, chunk.gpu, at->chunk, at->offset}, &reached.registered_by);
  reached.page_ref = {reinterpret_cast<std::uint64_t>(reached.page.data()), made.remote_key};
  if (!loopback_) {
    block_ = OwnedBlock(staging_, 2 * kGpuPage);
    const auto key = host_.local_key(block_.data(), 2 * kGpuPage);
    if (!key.ok()) throw Error(key.status());
    block_key_ = *key;
    loopback_ = std::make_unique<Loopback>(device_);
  }
  cuda::Gpus& gpus = **gpus_;
  const std::uint64_t written = make_nonce();
  fill_page(block_.data(), written);
  loopback_->write(here(), reached.page_ref).or_throw();
  if (reached.flush != cuda::FlushBy::none && !flush_one(reached))
    throw_error(Code::system, kRegister, "what the NIC writes to the GPU can't be flushed");
  OwnedBlock seen =
      cuda::finish_page(kRegister, gpus.stage(kRegister, std::span<const Tensor>(&reached.page, 1),
                                              OwnedBlock(staging_, kGpuPage)));
  if (!holds_page(seen.data(), written))
    throw_error(Code::system, kRegister,
                fmt::format("GPU {} does not see what {} has written into its memory",
                            chunk.gpu->ordinal(), device_.name()));
  const std::uint64_t sent = make_nonce();
  fill_page(seen.data(), sent);
  const Tensor from = Tensor::wrap(seen.data(), DType::u8, {kGpuPage});
  (void)cuda::finish_page(kRegister,
                          gpus.copy_parts(kRegister, std::span(&from, 1), reached.page,
                                          std::span(&staging_, 1), OwnedBlock(staging_, kGpuPage)));
  loopback_->read(here(), reached.page_ref).or_throw();
  if (!holds_page(block_.data(), sent))
    throw_error(Code::system, kRegister,
                fmt::format("{} does not read what GPU {} has written into its memory",
                            device_.name(), chunk.gpu->ordinal()));
  (void)keep(at->chunk, made);
  if (reached.flush == cuda::FlushBy::none) return;
  const std::lock_guard lock(flush_mutex_);
  flushed_.push_back(&reached);
}

bool GpuRegions::flush_one(const Reached& reached) noexcept {
  if (reached.flush == cuda::FlushBy::driver) return cuda::flush_writes(*reached.gpu);
  Loopback::Range word = here();
  word.data += kGpuPage;  // not where a proof is
  word.bytes = sizeof(std::uint64_t);
  return loopback_->read(word, reached.page_ref).ok();
}

bool GpuRegions::flush(stats::Counter& flushes) noexcept {
  if (flush_batch.is_open && flush_batch.flushed == this) return true;
  const std::lock_guard lock(flush_mutex_);
  for (const Reached* reached : flushed_) {
    if (!flush_one(*reached)) return false;
    flushes.add(1);
  }
  if (flush_batch.is_open) flush_batch.flushed = this;
  return true;
}

}  // namespace weft::p2p::verbs
