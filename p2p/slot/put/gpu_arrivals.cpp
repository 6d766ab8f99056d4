#include "p2p/slot/put/gpu_arrivals.hpp"

#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {
namespace {

std::shared_ptr<cuda::Gpu> gpu_of(const LocalRank& local, const Tensor& memory) {
  const auto at = local.gpus->chunk_at(memory.data(), memory.bytes());
  return at ? at->gpu : nullptr;
}

}  // namespace

GpuArrivals::GpuArrivals(LocalRank& local, std::size_t bytes, std::uint32_t depth,
                         const Tensor& memory, std::size_t stride)
    : local_(local),
      gpu_(gpu_of(local, memory)),
      stride_(Heap::rounded(bytes)),
      stage_(std::make_shared<const OwnedBlock>(local.data, stride_ * depth)),
      copies_(depth),
      offer_(local, memory, stride) {}

void GpuArrivals::begin_writer(std::uint64_t after, bool by_nic) {
  const std::lock_guard lock(writers_mutex_);
  // There is a buffer for each tensor that has not been handed out.
  while (writers_.size() > 1 && writers_[1].after + copies_.size() <= after)
    writers_.erase(writers_.begin());
  writers_.push_back({after, by_nic});
}

bool GpuArrivals::came_by_nic(std::uint64_t sequence) const noexcept {
  const std::lock_guard lock(writers_mutex_);
  for (auto writer = writers_.rbegin(); writer != writers_.rend(); ++writer)
    if (writer->after < sequence) return writer->by_nic;
  return false;
}

void GpuArrivals::prepare_chunks(const ChunkWords& words) {
  std::vector<std::vector<Chunk>> made(copies_.size());
  for (auto& chunks : made) chunks.resize(words.cut().words_per_row());
  const std::lock_guard lock(copies_mutex_);
  words_ = &words;
  for (std::size_t i = 0; i < copies_.size(); ++i) copies_[i].chunks = std::move(made[i]);
}

void GpuArrivals::expect_chunks(std::uint64_t above) noexcept {
  const std::lock_guard lock(copies_mutex_);
  // A writer may have set any numbers: nothing that they say holds for the next one.
  for (Copy& copy : copies_) copy.early = 0;
  chunks_above_.store(above, std::memory_order_release);
}

void GpuArrivals::expect_no_chunks() noexcept {
  const std::lock_guard lock(copies_mutex_);
  chunks_above_.store(kNoChunks, std::memory_order_release);
}

bool GpuArrivals::is_copying() noexcept {
  const std::lock_guard lock(copies_mutex_);
  if (may_write_) {
    may_write_ = gpu_ == nullptr || !gpu_->has_idle_stream();
    if (may_write_) return true;
  }
  for (Copy& copy : copies_) {
    if (copy.sequence != 0 && !copy.copy.poll()) return true;
    for (Chunk& chunk : copy.chunks)
      if (chunk.has_begun && !chunk.copy.poll()) return true;
  }
  return false;
}

void GpuArrivals::begin_early(std::uint64_t index, std::uint64_t sequence,
                              const Tensor& to) noexcept {
  if (!expects_chunks()) return;
  const std::lock_guard lock(copies_mutex_);
  const std::uint64_t above = chunks_above_.load(std::memory_order_acquire);
  if (above == kNoChunks) return;
  Copy& copy = copies_[index];
  if (copy.early != sequence) {
    copy.early = sequence;
    copy.next = 0;
    for (Chunk& chunk : copy.chunks) chunk.counts = false;
  }
  const StagedChunks& cut = words_->cut();
  for (; copy.next < copy.chunks.size(); ++copy.next) {
    Chunk& chunk = copy.chunks[copy.next];
    const std::uint64_t word = words_->at(index, copy.next);
    if (word <= above || word == chunk.word) return;
    chunk.word = word;
    chunk.copy = {};
    chunk.counts = chunk.has_begun = false;  // as it stays if the copy does not begin
    try {
      chunk.copy = local_.gpus->unstage("wait", stage_, index * stride_, to,
                                        {cut.offset(copy.next), cut.bytes_of(copy.next)});
      chunk.counts = chunk.has_begun = true;
    } catch (...) {
      lose_sight();  // it is copied with what is left
    }
  }
}

std::size_t GpuArrivals::good_chunks(std::uint64_t index, std::uint64_t sequence) const noexcept {
  const Copy& copy = copies_[index];
  const std::uint64_t above = chunks_above_.load(std::memory_order_acquire);
  if (above == kNoChunks || copy.early != sequence) return 0;
  std::size_t good = 0;
  // A chunk that was put again after its copy had begun has another number.
  while (good < copy.next && copy.chunks[good].counts && copy.chunks[good].word > above &&
         copy.chunks[good].word == words_->at(index, good))
    ++good;
  return good;
}

void GpuArrivals::begin(std::uint64_t index, std::uint64_t sequence, const Tensor& to) {
  const std::lock_guard lock(copies_mutex_);
  Copy& copy = copies_[index];
  if (copy.sequence == sequence) return;
  const std::size_t good = good_chunks(index, sequence);
  const std::size_t offset = good == 0 ? 0 : words_->cut().offset(good);
  copy.copy = {};
  copy.sequence = 0;
  try {
    // On one stream with the chunks', so that none of these comes after it.
    copy.copy =
        local_.gpus->unstage("wait", stage_, index * stride_, to, {offset, to.bytes() - offset});
  } catch (...) {
    lose_sight();
    throw;
  }
  copy.sequence = sequence;
  copy.next = good;
  for (std::size_t i = 0; i < copy.chunks.size(); ++i) {
    Chunk& chunk = copy.chunks[i];
    chunk.word = words_->at(index, i);
    if (i < good) continue;
    chunk.copy = {};
    chunk.counts = chunk.has_begun = false;
  }
}

std::optional<Status> GpuArrivals::poll(std::uint64_t index) noexcept {
  const std::lock_guard lock(copies_mutex_);
  Copy& copy = copies_[index];
  auto outcome = copy.copy.poll();
  for (std::size_t i = 0; i < copy.next && outcome && outcome->ok(); ++i)
    outcome = copy.chunks[i].copy.poll();
  if (!outcome || outcome->ok()) return outcome;
  copy.sequence = 0;
  copy.early = 0;
  return outcome;
}

}  // namespace weft::p2p
