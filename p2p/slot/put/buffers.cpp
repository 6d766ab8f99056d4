#include "p2p/slot/put/buffers.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace weft::p2p {
namespace {

std::size_t stride_for(std::size_t bytes, std::uint32_t depth, const Tensor& memory, bool tails) {
  if (!memory.empty()) return memory.memory().is_gpu() ? memory.bytes() / depth : bytes;
  if (bytes <= SlotLine::kInlineBytes) return 0;
  return Heap::rounded(tails ? bytes_with_tail(bytes) : bytes);
}

MemoryRef ref_of(const OwnedBlock& owned) noexcept {
  const Block& block = owned.block();
  return {block.chunk, block.offset, block.bytes};
}

}  // namespace

PutBuffers::PutBuffers(LocalRank& local, const SlotSpec& spec, Tensor memory, bool tails)
    : local_(local),
      spec_(spec),
      bytes_(payload_bytes(spec)),
      memory_(std::move(memory)),
      stride_(stride_for(bytes_, spec.depth, memory_, tails)),
      lines_(local.control, spec.depth * sizeof(SlotLine)) {
  if (stride_ != 0 && memory_.empty()) buffers_ = OwnedBlock(local_.data, stride_ * spec_.depth);
  for (std::size_t i = 0; i < spec_.depth; ++i) new (&line(i)) SlotLine{};
  if (spec_.placement == Placement::dynamic) return;
  std::byte* buffers = memory_.empty() ? buffers_.data() : memory_.data();
  if (memory_.memory().is_gpu()) {
    if (bytes_ != 0) {
      gpu_ = std::make_unique<GpuArrivals>(local_, bytes_, spec_.depth, memory_, stride_);
      staged_after_.store(0, std::memory_order_relaxed);
    }
    const auto first = static_cast<std::size_t>(buffers - memory_.storage()->data());
    // An arrival's tensor may be kept: it shares the GPU's memory.
    for (std::size_t i = 0; i < spec_.depth; ++i)
      tensors_.emplace_back(memory_.storage(), first + i * stride_, spec_.dtype, spec_.shape);
    return;
  }
  for (std::size_t i = 0; i < spec_.depth; ++i)
    tensors_.push_back(Tensor::wrap(stride_ == 0 ? line(i).payload : buffers + i * stride_,
                                    spec_.dtype, spec_.shape, spec_.memory));
}

const std::byte* PutBuffers::payload(std::uint64_t index, std::uint64_t sequence) const noexcept {
  if (const TailBuffers* tails = arrived_with_tail(index, sequence); tails != nullptr)
    return tails->payload(index);
  return stride_ == 0 ? line(index).payload : buffers_.data() + index * stride_;
}

void PutBuffers::unstage(std::uint64_t index) noexcept {
  std::memcpy(tensors_[index].data(), stage_.data() + index * Heap::rounded(bytes_), bytes_);
}

std::uint64_t PutBuffers::highest_sequence() const noexcept {
  std::uint64_t highest = 0;
  for (std::size_t i = 0; i < spec_.depth; ++i) highest = std::max(highest, sequence_at(i));
  return highest;
}

bool PutBuffers::prepare_stage(const Peer& peer) {
  if (stage() || stride_ == 0 || memory_.empty() ||
      peer.channel->capabilities().peer_reaches_adopted.load() ||
      memory_.arena() != local_.adopted.get())
    return false;
  stage_ = OwnedBlock(local_.data, Heap::rounded(bytes_) * spec_.depth);
  return true;
}

void PutBuffers::grant_tails(const Peer& peer, const AttachMessage& asked,
                             AttachedMessage& granted) {
  const std::uint64_t most =
      std::min<std::uint64_t>(asked.tails_up_to, peer.channel->capabilities().tails_up_to.load());
  // Memory that a user gave holds the tensors and nothing between them.
  const bool has_room = memory_.empty() && (stride_ == 0 || stride_ >= bytes_with_tail(bytes_));
  if (!has_room || most == 0 || bytes_ > most) return;
  if (!tails_made_) make_tails();
  granted.tails = tails_made_->ref();
  granted.tail_stride = tails_made_->stride();
}

void PutBuffers::grant_chunks(Mesh& mesh, Peer& peer, const AttachMessage& asked,
                              AttachedMessage& granted) {
  if (spec_.placement == Placement::dynamic || stride_ == 0 || local_.require_gdr) return;
  if (gpu_ ? granted.gpu_way == cuda::GpuWay::nic : asked.chunk_bytes == 0) return;
  if (!chunk_words_) {
    const auto cut = StagedChunks::of(bytes_, gpu_ ? local_.gpu_staging : asked.chunk_bytes,
                                      gpu_ ? spec_.depth : 1);
    if (cut.count == 1) return;
    try {
      auto words = std::make_unique<ChunkWords>(local_.control, cut);
      if (gpu_) gpu_->prepare_chunks(*words);
      chunk_words_ = std::move(words);
    } catch (...) {
      return;  // tensors go whole
    }
  }
  const std::optional<std::uint64_t> above = chunk_words_->begin_writer();
  const MemoryRef ref = chunk_words_->ref();
  if (!above || !mesh.share(peer, ref.chunk)) return;
  granted.chunk_words = ref;
  granted.chunk_bytes = chunk_words_->cut().bytes;
  granted.chunks_above = *above;
}

void PutBuffers::make_tails() {
  TailBuffers::Place place;
  if (stride_ == 0) {
    place.stride = Heap::rounded(bytes_with_tail(bytes_));
    place.own = OwnedBlock(local_.control, place.stride * spec_.depth);
  } else {
    place.stride = stride_;
  }
  const OwnedBlock& memory = stride_ == 0 ? place.own : buffers_;
  place.first = memory.data();
  place.ref = ref_of(memory);
  tails_made_ = std::make_unique<TailBuffers>(spec_, bytes_, std::move(place));
  tails_.store(tails_made_.get(), std::memory_order_release);
}

bool PutBuffers::share(Mesh& mesh, Peer& peer) const {
  const auto buffers = [&] {
    if (stage()) return stage().block().chunk;
    return memory_.empty() ? buffers_.block().chunk : local_.locate(memory_).value().chunk;
  };
  return mesh.share(peer, lines_.block().chunk) && (stride_ == 0 || mesh.share(peer, buffers())) &&
         (!tails_made_ || mesh.share(peer, tails_made_->ref().chunk));
}

void PutBuffers::grant(AttachedMessage& granted) const {
  granted.lines = ref_of(lines_);
  granted.stride = stride_;
  if (stride_ == 0) return;
  if (stage()) {
    granted.stride = Heap::rounded(bytes_);
    granted.buffers = ref_of(stage());
  } else {
    granted.buffers = memory_.empty() ? ref_of(buffers_) : local_.locate(memory_).value();
  }
}

void PutBuffers::stage_after(std::uint64_t sequence) noexcept {
  // Tensors that arrived before this writer lie in the slot's own memory.
  std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  if (stage_) staged_after_.compare_exchange_strong(none, sequence);
}

bool PutBuffers::keep_user_memory() noexcept {
  if (memory_.empty() || memory_.memory().is_gpu()) return false;
  (void)new (std::nothrow) Tensor(std::move(memory_));  // on purpose: nobody may free it
  return true;
}

}  // namespace weft::p2p
