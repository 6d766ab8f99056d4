#include "p2p/transport/cuda/pair_proof.hpp"

#include <fcntl.h>

#include <span>
#include <utility>

#include "p2p/transport/cuda/gpu_page.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kProve = "prove";
bool sees(Gpus& gpus, const Tensor& page, const std::shared_ptr<Arena>& staging,
          std::uint64_t nonce) {
  const OwnedBlock block =
      finish_page(kProve, gpus.stage(kProve, std::span(&page, 1), OwnedBlock(staging, kGpuPage)));
  return holds_page(block.data(), nonce);
}

PairProof prove(Gpus& gpus, int writer, int owner, const std::shared_ptr<Arena>& staging) {
  // The writer's GPU is opened as a rank opens it: by the arena of its memory.
  const GpuChunk writers = [&] {
    const auto arena = gpus.arena(Memory::gpu(writer));
    const OwnedBlock block(arena, kGpuPage);
    return *gpus.chunk_at(block.data(), kGpuPage);
  }();
  const auto arena = gpus.arena(Memory::gpu(owner));
  const Tensor page(make_storage(arena, kGpuPage), 0, DType::u8, {kGpuPage});
  const auto at = arena->locate(page.data(), kGpuPage);
  auto exported = gpus.exported(at->chunk);
  if (!exported) return {GpuWay::not_exported};
  // Under a name that this process does not know: mapped from the descriptor, as a peer maps it.
  exported->id = {.process = -1 - writer, .number = at->chunk};
  os::Fd descriptor(::fcntl(gpus.descriptor_of(at->chunk), F_DUPFD_CLOEXEC, 0));
  PeerMemory peers;
  peers.keep(0, at->chunk, *exported, std::move(descriptor));
  auto mapped = peers.map(0, {at->chunk, at->offset, at->bytes}, writers.gpu);
  if (mapped.way != GpuWay::mapped) return {mapped.way, std::move(mapped.detail)};
  const std::uint64_t nonce = make_nonce();
  OwnedBlock block(staging, kGpuPage);
  fill_page(block.data(), nonce);
  const Tensor from = Tensor::wrap(block.data(), DType::u8, {kGpuPage});
  (void)finish_page(kProve, gpus.copy_parts(kProve, std::span(&from, 1), mapped.bytes,
                                            std::span(&staging, 1), OwnedBlock(staging, kGpuPage)));
  if (!sees(gpus, mapped.bytes, staging, nonce)) return {GpuWay::writes_lost};
  return {sees(gpus, page, staging, nonce) ? GpuWay::mapped : GpuWay::not_seen};
}

}  // namespace

PairProof prove_pair(Gpus& gpus, int writer, int owner, const std::shared_ptr<Arena>& staging) {
  try {
    return prove(gpus, writer, owner, staging);
  } catch (const Error& error) {
    return {GpuWay::copy_failed, error.detail().message};
  }
}

}  // namespace weft::p2p::cuda
