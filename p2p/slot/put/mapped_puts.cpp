#include "p2p/slot/put/mapped_puts.hpp"

#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {
namespace {

using cuda::GpuWay;

GpuWay offered_by(const AttachedMessage& granted) noexcept {
  const bool is_known = cuda::reason_of(granted.gpu_way) != nullptr;
  if (!is_known || (granted.gpu_way == GpuWay::mapped && granted.gpu_stride == 0))
    return GpuWay::other_host;
  return granted.gpu_way;
}

cuda::PeerMemory::Range range_of(const MemoryRef& ref) noexcept {
  return {ref.chunk, ref.offset, ref.bytes};
}

}  // namespace

MappedPuts::MappedPuts(LocalRank& local, UseGate& gate, const AttachedMessage& granted,
                       std::size_t bytes)
    : local_(local),
      gate_(gate),
      arenas_{local.data, local.published},
      offered_(offered_by(granted)),
      buffers_(granted.gpu_buffers),
      stride_(granted.gpu_stride),
      page_ref_(granted.gpu_page),
      bytes_(bytes) {
  // Nothing may fail once a copy is under way.
  dropped_.reserve(copies_.size() + 1);
}

MappedPuts::Way MappedPuts::map(int owner, const std::shared_ptr<cuda::Gpu>& gpu) {
  cuda::PeerMemory& peers = local_.gpus->peers();
  auto buffers = peers.map(owner, range_of(buffers_), gpu);
  if (buffers.way != GpuWay::mapped) return {buffers.way, std::move(buffers.detail)};
  auto page = peers.map(owner, range_of(page_ref_), gpu);
  if (page.way != GpuWay::mapped) return {page.way, std::move(page.detail)};
  mapped_buffers_ = std::move(buffers.bytes);
  page_ = std::move(page.bytes);
  return {};
}

void MappedPuts::accept() {
  reached_.emplace_back(mapped_buffers_.memory().ordinal(), mapped_buffers_);
}

void MappedPuts::enter() {
  if (!gate_.enter())
    throw_error(Code::closed, "put", "the owner has closed the slot", "attach again");
}

void MappedPuts::begin_page(std::uint64_t nonce) {
  OwnedBlock block(local_.staging, kGpuPage);
  fill_page(block.data(), nonce);
  const Tensor from = Tensor::wrap(block.data(), DType::u8, {kGpuPage});
  enter();
  page_copy_.is_inside = true;
  try {
    page_copy_.copy = local_.gpus->copy_parts("attach", std::span(&from, 1), page_,
                                              std::span(&local_.staging, 1), std::move(block));
    page_copy_.ticket = 1;
  } catch (...) {
    std::exchange(page_copy_, {});
    gate_.leave();
    throw;
  }
}

void MappedPuts::begin_reading_page() {
  page_copy_ = {};
  page_copy_.copy = local_.gpus->stage("attach", std::span<const Tensor>(&page_, 1),
                                       OwnedBlock(local_.staging, kGpuPage));
  page_copy_.ticket = 1;
}

bool MappedPuts::page_came_back(std::uint64_t nonce) noexcept {
  const OwnedBlock block = page_copy_.copy.take_block();
  page_copy_ = {};
  return holds_page(block.data(), nonce);
}

void MappedPuts::answer(const GpuPageSeenMessage& message) noexcept {
  seen_.store(message.seen != 0, std::memory_order_relaxed);
  answered_.store(message.nonce, std::memory_order_release);
}

std::optional<bool> MappedPuts::answered(std::uint64_t nonce) const noexcept {
  if (answered_.load(std::memory_order_acquire) != nonce) return std::nullopt;
  return seen_.load(std::memory_order_relaxed);
}

const Tensor* MappedPuts::reached_by(int gpu) const noexcept {
  for (const auto& [ordinal, buffers] : reached_)
    if (ordinal == gpu) return &buffers;
  return nullptr;
}

bool MappedPuts::takes(std::span<const Tensor> parts) const noexcept {
  if (reached_.empty()) return false;
  int gpu = reached_.front().first;
  for (const Tensor& part : parts)
    if (part.memory().is_gpu() && part.bytes() != 0) gpu = part.memory().ordinal();
  return reached_by(gpu) != nullptr;
}

bool MappedPuts::lies_in_arena(const Tensor& part) const noexcept {
  if (!part.dense()) return false;
  for (const auto& arena : arenas_)
    if (arena->contains(part.data(), part.extent())) return true;
  return false;
}

std::size_t MappedPuts::begin(std::uint64_t ticket, std::span<const Tensor> parts,
                              std::uint64_t buffer, const cuda::StreamPoint* after) {
  int gpu = reached_.front().first;
  std::size_t packed = 0;
  std::size_t bytes = 0;
  for (const Tensor& part : parts) {
    if (part.memory().is_gpu() && part.bytes() != 0) gpu = part.memory().ordinal();
    if (part.memory().is_host() && !lies_in_arena(part)) packed += part.bytes();
    bytes += part.bytes();
  }
  OwnedBlock pack;
  if (packed != 0) {
    pack = std::move(packs_[ticket % packs_.size()]);
    if (!pack) pack = OwnedBlock(local_.staging, bytes_);
  }
  const Tensor& buffers = *reached_by(gpu);
  const Tensor to(buffers.storage(), buffer * stride_, DType::u8,
                  {static_cast<std::int64_t>(bytes)});
  enter();
  Copy& copy = at(ticket);
  try {
    copy.copy = local_.gpus->copy_parts("put", parts, to, arenas_, std::move(pack), after);
  } catch (...) {
    gate_.leave();
    throw;
  }
  copy.ticket = ticket;
  copy.is_inside = true;
  return packed;
}

std::optional<Status> MappedPuts::poll(Copy& copy) noexcept {
  auto outcome = copy.copy.poll();
  if (!outcome) return outcome;
  if (std::exchange(copy.is_inside, false)) {
    if (&copy != &page_copy_ && copy.ticket != 0)
      if (OwnedBlock pack = copy.copy.take_block()) packs_[copy.ticket % 2] = std::move(pack);
    gate_.leave();
  }
  return outcome;
}

void MappedPuts::drop_all() noexcept {
  for (Copy* copy : {&copies_[0], &copies_[1], &page_copy_}) {
    if (copy->is_inside && !poll(*copy)) dropped_.push_back(std::move(*copy));
    *copy = {};
  }
}

bool MappedPuts::is_held_up() noexcept {
  std::erase_if(dropped_, [this](Copy& copy) { return poll(copy).has_value(); });
  return !dropped_.empty();
}

bool MappedPuts::is_copying() noexcept {
  bool any = is_held_up();
  for (Copy* copy : {&copies_[0], &copies_[1], &page_copy_})
    if (copy->is_inside && !poll(*copy)) any = true;
  return any;
}

}  // namespace weft::p2p
