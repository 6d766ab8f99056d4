#include "runtime/tool/gpu/gpu_paths.hpp"

#include <fmt/format.h>

#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/fail.hpp"
#include "p2p/memory/segment.hpp"
#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/kernels/kernel_image.hpp"
#include "p2p/transport/cuda/own_gpu.hpp"
#include "p2p/transport/cuda/pair_proof.hpp"
#include "p2p/transport/rank_memory.hpp"
#include "runtime/tool/gpu/nic_paths.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

using p2p::kGpuPage;
using p2p::OwnedBlock;
using p2p::cuda::Driver;
using p2p::cuda::DriverStatus;
using p2p::cuda::GpuChunk;
using p2p::cuda::Gpus;

constexpr const char* kTry = "try";

template <typename Try>
Finding found(const Try& attempt) {
  try {
    return attempt();
  } catch (const Error& error) {
    return {false, error.detail().message};
  }
}

Finding exported(Gpus& gpus, const GpuChunk& chunk) {
  if (gpus.exported(chunk.chunk)) return {true, "by descriptor"};
  return {false, "the driver exports no memory of it, so other processes stage"};
}

Finding dma_buf(const GpuChunk& chunk) {
  std::string why;
  const os::Fd descriptor = p2p::cuda::dma_buf_of(chunk, why);
  return descriptor ? Finding{true, "of a whole chunk"} : Finding{false, why};
}

Finding gpudirect(const GpuChunk& chunk) {
  const auto why = p2p::cuda::no_gpudirect(*chunk.gpu);
  return why ? Finding{false, *why} : Finding{true, "by its driver"};
}

/// A stream waits for a word, and goes on.
Finding stream_words(const GpuChunk& chunk) {
  constexpr std::chrono::seconds kLongest{5};
  p2p::cuda::Gpu& gpu = *chunk.gpu;
  const p2p::cuda::Gpu::Current current(gpu);
  p2p::cuda::StreamWords& words = gpu.words(kTry);
  const p2p::cuda::StreamHandle stream = gpu.take_stream();
  const std::shared_ptr<void> given_back(nullptr, [&](void*) { gpu.give_back(stream); });
  const auto word = words.begin_wait(gpu, kTry, stream);
  const bool waits = gpu.driver().query_stream(stream) == DriverStatus::not_ready;
  words.end_wait(word);
  const auto until = std::chrono::steady_clock::now() + kLongest;
  DriverStatus status = DriverStatus::not_ready;
  while ((status = gpu.driver().query_stream(stream)) == DriverStatus::not_ready &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  gpu.check(status, kTry, "cuStreamQuery");
  if (!waits) return {false, "a stream did not wait for its word"};
  return {true, "streams wait on words of the processor's"};
}

/// A page goes to the GPU and back.
Finding copied(Gpus& gpus, const GpuChunk& chunk, const std::shared_ptr<p2p::Arena>& staging) {
  const Tensor page(p2p::make_storage(chunk.arena, kGpuPage), 0, DType::u8, {kGpuPage});
  const std::uint64_t nonce = p2p::make_nonce();
  OwnedBlock block(staging, kGpuPage);
  p2p::fill_page(block.data(), nonce);
  const Tensor from = Tensor::wrap(block.data(), DType::u8, {kGpuPage});
  (void)finish_page(kTry, gpus.copy_parts(kTry, std::span(&from, 1), page, std::span(&staging, 1),
                                          OwnedBlock(staging, kGpuPage)));
  const OwnedBlock back =
      finish_page(kTry, gpus.stage(kTry, std::span(&page, 1), OwnedBlock(staging, kGpuPage)));
  if (!p2p::holds_page(back.data(), nonce)) return {false, "the page that came back is another"};
  const bool is_pinned = gpus.pins().is_pinned(back.block().chunk).value_or(false);
  return {true, is_pinned ? "a page went there and back, by pinned memory"
                          : "a page went there and back; the driver pins no memory: " +
                                gpus.pins().take_refusal()};
}

Finding kernels() {
  if (p2p::cuda::has_kernels())
    return {true,
            "built by nvcc, and not tried: GPUs of a host carry out collectives themselves where "
            "their driver takes them"};
  return {false,
          "weft was built without nvcc, so collectives of GPU tensors go by host memory: build it "
          "where the CUDA toolkit is, with -DWEFT_CUDA=ON"};
}

void place_staging(const topology::RankPlacement& placement, GpuPaths& paths) {
  paths.staging = placement.staging;
  paths.staging_reason =
      placement.staging < 0 ? "topology has no preference" : "beside " + placement.nic;
}

GpuFacts facts_of(const Driver& driver, int ordinal) {
  return {.ordinal = ordinal,
          .uuid = p2p::cuda::uuid_text_of(driver, ordinal),
          .name = p2p::cuda::device_name_of(driver, ordinal),
          .pci = p2p::cuda::pci_address_of(driver, ordinal)};
}

/// A chunk of the GPU's arena; nullopt: it can't be opened.
std::optional<GpuChunk> open(Gpus& gpus, GpuFacts& facts, std::vector<Tensor>& keep) {
  facts.opened = found([&] {
    const auto arena = gpus.arena(Memory::gpu(facts.ordinal));
    keep.emplace_back(p2p::make_storage(arena, kGpuPage), 0, DType::u8, Shape{kGpuPage});
    return Finding{true, {}};
  });
  if (!facts.opened.works) return std::nullopt;
  auto chunk = gpus.chunk_at(keep.back().data(), kGpuPage);
  const p2p::cuda::Gpu::Current current(*chunk->gpu);
  (void)chunk->gpu->driver().memory_info(&facts.free, &facts.total);
  return chunk;
}

Finding pair_finding(Gpus& gpus, int writer, int owner,
                     const std::shared_ptr<p2p::Arena>& staging) {
  const auto proof = p2p::cuda::prove_pair(gpus, writer, owner, staging);
  std::string says = p2p::cuda::reason_of(proof.way);
  if (!proof.detail.empty()) says += ": " + proof.detail;
  return {proof.way == p2p::cuda::GpuWay::mapped, std::move(says)};
}

std::string version_of(const Driver& driver) {
  int version = 0;
  if (driver.version(&version) != DriverStatus::success) return "?";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

GpuPaths try_gpu_paths(const GpuScene& scene) {
  GpuPaths paths;
  const auto loaded = p2p::cuda::load_driver();
  if (!loaded.ok()) {
    paths.none = loaded.status().detail().message;
    if (const std::string& named = scene.config.text(Setting::gpu); named != "auto")
      throw_error(Code::bad_config, kTry, fmt::format("WEFT_GPU={}: {}", named, paths.none),
                  "unset WEFT_GPU where there is no GPU");
    return paths;
  }
  const Driver& driver = **loaded;
  paths.driver = version_of(driver);
  const p2p::cuda::GpuWish wish{.setting = scene.config.text(Setting::gpu),
                                .pci = scene.placement.gpu,
                                .visible = scene.placement.visible_gpus,
                                .reason = scene.placement.gpu_reason};
  const auto own = choose_own_gpu(driver, wish, kTry);
  paths.own = own.ordinal;
  paths.own_reason = own.reason;
  paths.kernels = kernels();
  place_staging(scene.placement, paths);
  const auto mapper = std::make_shared<p2p::SegmentMapper>();
  const p2p::RankMemory memory(
      {.config = scene.config, .log = nullptr, .mapper = mapper, .placement = scene.placement});
  Gpus gpus(wish, mapper, scene.config.size(Setting::arena_chunk).value());
  std::vector<GpuChunk> chunks;
  std::vector<Tensor> keep;
  int count = 0;
  (void)driver.device_count(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    GpuFacts& facts = paths.gpus.emplace_back(facts_of(driver, ordinal));
    const auto chunk = open(gpus, facts, keep);
    if (!chunk) continue;
    chunks.push_back(*chunk);
    facts.exported = found([&] { return exported(gpus, *chunk); });
    facts.gpudirect = found([&] { return gpudirect(*chunk); });
    facts.dma_buf = found([&] { return dma_buf(*chunk); });
    facts.copy = found([&] { return copied(gpus, *chunk, memory.staging); });
    facts.stream_words = found([&] { return stream_words(*chunk); });
  }
  for (const GpuChunk& writer : chunks)
    for (const GpuChunk& owner : chunks)
      paths.pairs.push_back(
          {writer.gpu->ordinal(), owner.gpu->ordinal(),
           pair_finding(gpus, writer.gpu->ordinal(), owner.gpu->ordinal(), memory.staging)});
  try_nics(scene, gpus, chunks, memory, paths);
  return paths;
}

}  // namespace weft::tool
