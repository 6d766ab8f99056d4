#include "p2p/slot/attach/grant.hpp"

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/slot/attach/slot_line.hpp"

namespace weft::p2p {
namespace {

/// No slot comes that far in a thousand years.
constexpr std::uint64_t kMostSequence = std::uint64_t{1} << 62;

/// Whether other ranks map memory of that sort for writing.
bool peers_write(ArenaSort sort) noexcept {
  return sort == ArenaSort::data || sort == ArenaSort::adopted;
}

}  // namespace

Code code_of(std::uint32_t written) noexcept {
  const bool is_error = written != 0 && written <= static_cast<std::uint32_t>(Code::partitioned);
  return is_error ? static_cast<Code>(written) : Code::system;
}

bool same_contract(const Contract& one, const Contract& other) noexcept {
  const bool same_shape = one.placement == Placement::dynamic
                              ? one.shape.dims() == other.shape.dims()
                              : one.shape == other.shape;
  return same_shape && one.dtype == other.dtype && one.depth == other.depth &&
         one.writer == other.writer && one.flow == other.flow && one.placement == other.placement;
}

std::optional<Shape> shape_of(const DynamicRecord& record, std::size_t dims, int ranks) {
  if (record.rank < 0 || record.rank >= ranks) return std::nullopt;
  try {
    return Shape(std::span<const std::int64_t>(record.dim.data(), dims));
  } catch (const Error&) {  // negative, or more elements than memory can hold
    return std::nullopt;
  }
}

bool makes_sense(const AttachedMessage& message, const Contract& declared) noexcept {
  const std::size_t bytes = payload_bytes(declared);
  const bool reader = declared.writer == Writer::owner;
  const std::size_t lines =
      reader ? PublishedWords::bytes(declared.depth) : declared.depth * sizeof(SlotLine);
  if (sort_of_chunk(message.lines.chunk) != ArenaSort::control ||
      (reader && sort_of_chunk(message.reader_words.chunk) != ArenaSort::control))
    return false;
  if (message.lines.bytes < lines || message.lines.offset % alignof(SlotLine) != 0) return false;
  // A writer stores there; a reader loads whole lines of what its owner alone may write.
  const ArenaSort sort = sort_of_chunk(message.buffers.chunk);
  const bool by_nic = message.on_gpu != 0 && message.gpu_way == cuda::GpuWay::nic;
  const bool may_write = by_nic ? sort == ArenaSort::device : peers_write(sort);
  if (message.stride != 0 && (reader ? sort != ArenaSort::published : !may_write)) return false;
  if (reader &&
      (message.buffers.offset % Heap::kGranule != 0 || message.stride % Heap::kGranule != 0))
    return false;
  if (!reader && (message.released > message.sequence || message.sequence > kMostSequence))
    return false;
  if (reader && (message.stride == 0 || message.reader_words.offset % sizeof(std::uint64_t) != 0 ||
                 message.reader_words.bytes != ReaderWords::bytes(declared.depth) ||
                 Newest::of(message.newest).buffer >= declared.depth))
    return false;
  if (message.stride == 0) return bytes <= SlotLine::kInlineBytes;
  return message.stride >= bytes && message.stride <= message.buffers.bytes / declared.depth;
}

bool gpu_buffers_make_sense(const AttachedMessage& message, const Contract& declared) noexcept {
  const auto lies_there = [](const MemoryRef& ref) {
    return sort_of_chunk(ref.chunk) == ArenaSort::device;
  };
  const std::size_t bytes = payload_bytes(declared);
  return declared.writer == Writer::peer && declared.placement == Placement::fixed && bytes != 0 &&
         lies_there(message.gpu_buffers) && lies_there(message.gpu_page) &&
         message.gpu_page.bytes == kGpuPage && message.stride != 0 && message.gpu_stride >= bytes &&
         message.gpu_stride <= message.gpu_buffers.bytes / declared.depth;
}

bool tails_make_sense(const AttachedMessage& message, const Contract& declared,
                      std::uint64_t most) noexcept {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  const std::size_t bytes = payload_bytes(declared);
  const ArenaSort sort = sort_of_chunk(message.tails.chunk);
  const bool writable = peers_write(sort) || sort == ArenaSort::control;  // there: small ones
  return declared.writer == Writer::peer && most != 0 && bytes <= most &&
         message.tail_stride >= bytes_with_tail(bytes) && message.tail_stride % kWord == 0 &&
         message.tails.offset % kWord == 0 && writable &&
         message.tail_stride <= message.tails.bytes / declared.depth;
}

std::optional<StagedChunks> granted_chunks(const AttachedMessage& message,
                                           const Contract& declared) noexcept {
  const std::size_t bytes = payload_bytes(declared);
  if (message.chunk_bytes == 0) return StagedChunks{.tensor = bytes, .bytes = bytes};
  const std::size_t rows = message.on_gpu != 0 ? declared.depth : 1;
  const StagedChunks chunks = StagedChunks::of(bytes, message.chunk_bytes, rows);
  const bool fits = declared.writer == Writer::peer && declared.placement == Placement::fixed &&
                    message.stride != 0 && chunks.count > 1 &&
                    chunks.bytes == message.chunk_bytes &&
                    sort_of_chunk(message.chunk_words.chunk) == ArenaSort::control &&
                    message.chunk_words.offset % sizeof(std::uint64_t) == 0 &&
                    message.chunk_words.bytes == chunks.words() * sizeof(std::uint64_t) &&
                    message.chunks_above <= kMostSequence;
  return fits ? std::optional(chunks) : std::nullopt;
}

}  // namespace weft::p2p
