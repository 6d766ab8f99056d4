#include "p2p/memory/arena.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/fail.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

const char* sort_name(ArenaSort sort) {
  switch (sort) {
    case ArenaSort::control:
      return "control";
    case ArenaSort::data:
      return "data";
    case ArenaSort::staging:
      return "private";
    case ArenaSort::published:
      return "published";
    case ArenaSort::adopted:
      return "adopted";
    case ArenaSort::device:
      return "device";
  }
  return "?";
}

/// A rank has several arenas of the sort device.
std::uint32_t first_chunk_of(ArenaSort sort, Memory memory) noexcept {
  constexpr unsigned kMostOrdinals = 256;
  const unsigned ordinal = memory.is_gpu() ? static_cast<unsigned>(memory.ordinal()) : 0;
  return (static_cast<std::uint32_t>(sort) << 24) | ((ordinal % kMostOrdinals) << 16);
}

class ArenaStorage final : public Storage {
 public:
  ArenaStorage(std::shared_ptr<Arena> arena, const Block& block)
      : Storage(block.data, block.bytes, arena.get(), arena->memory()),
        arena_(std::move(arena)),
        block_(block) {}
  ~ArenaStorage() override { arena_->release(block_); }

 private:
  std::shared_ptr<Arena> arena_;
  Block block_;
};

std::unique_ptr<ChunkSource> host_chunks(ArenaSort sort, const ArenaLimits& limits,
                                         const std::shared_ptr<SegmentMapper>& mapper) {
  if (!limits.exported) return lazy_chunks();
  PageKind kind{
      .huge = limits.huge_pages, .numa = limits.numa, .allowed_numa = limits.allowed_numa};
  if (sort == ArenaSort::staging) return private_chunks(std::move(kind));
  return shared_chunks(std::move(kind), fmt::format("weft-{}", sort_name(sort)),
                       sort == ArenaSort::published ? Access::read : Access::write, mapper);
}

}  // namespace

Arena::Arena(ArenaSort sort, ArenaLimits limits, std::shared_ptr<SegmentMapper> mapper)
    : Arena(sort, limits, mapper, host_chunks(sort, limits, mapper)) {}

Arena::Arena(ArenaSort sort, ArenaLimits limits, std::shared_ptr<SegmentMapper> mapper,
             std::unique_ptr<ChunkSource> source)
    : sort_(sort),
      limits_(std::move(limits)),
      mapper_(std::move(mapper)),
      source_(std::move(source)),
      first_chunk_(first_chunk_of(sort, source_->memory())),
      step_(std::min(limits_.chunk_bytes, ArenaLimits::kFirstChunk)) {}

Block Arena::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 0; index <= chunks_.size(); ++index) {
    Chunk& chunk = index < chunks_.size() ? *chunks_[index] : grow(bytes);
    if (is_sealed(index)) continue;
    const auto offset = chunk.heap.allocate(bytes);
    if (!offset) continue;
    used_ += chunk.heap.taken(bytes);
    peak_ = std::max(peak_, used_);
    ++allocations_;
    return {chunk.memory.data + *offset, bytes, first_chunk_ + index, *offset};
  }
  refuse(bytes, "a new chunk did not hold it");
}

void Arena::release(const Block& block) noexcept {
  // In a fork, a thread that does not exist there may hold the mutex.
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  Chunk& chunk = *chunks_[index_of(block.chunk)];
  chunk.heap.release(block.offset, block.bytes);
  used_ -= chunk.heap.taken(block.bytes);
}

void Arena::seal(std::uint32_t chunk) noexcept {
  if (forked()) return;
  const std::lock_guard lock(seals_mutex_);
  sealed_[index_of(chunk)] = true;
}

void Arena::seal() noexcept {
  if (forked()) return;
  const std::lock_guard lock(seals_mutex_);
  sealed_.assign(sealed_.size(), true);
}

bool Arena::is_sealed(std::size_t index) const noexcept {
  const std::lock_guard lock(seals_mutex_);
  return sealed_[index];
}

Arena::Chunk& Arena::grow(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 62)) refuse(bytes, "more than any machine addresses");
  const std::size_t wanted = next_chunk(bytes, source_->page());
  if (limits_.max_bytes != 0 && reserved_ + wanted > limits_.max_bytes)
    refuse(bytes, fmt::format("WEFT_ARENA_MAX allows {} bytes and a chunk of {} would be needed",
                              limits_.max_bytes, wanted));
  if (const auto reason = source_->refusal(wanted)) refuse(bytes, *reason);
  return add_chunk(source_->create(wanted), wanted);
}

std::size_t Arena::next_chunk(std::size_t bytes, std::size_t page) noexcept {
  const auto whole = [page](std::size_t size) { return (size + page - 1) / page * page; };
  // A chunk costs peers a mapping and a NIC a registration, so a step is skipped rather than made a
  // chunk of its own for a request between two steps.
  while (step_ < bytes && step_ < limits_.chunk_bytes)
    step_ = std::min(2 * step_, limits_.chunk_bytes);
  const std::size_t needed = whole(bytes);
  std::size_t wanted = std::max(needed, whole(step_));
  // The last step may be shorter than the limit's rest.
  if (limits_.max_bytes != 0 && reserved_ + wanted > limits_.max_bytes)
    wanted = std::max(needed, (limits_.max_bytes - reserved_) / page * page);
  return wanted;
}

Arena::Chunk& Arena::add_chunk(ChunkMemory memory, std::size_t bytes) {
  auto chunk =
      std::make_unique<Chunk>(Chunk{std::move(memory), Heap(bytes, source_->granule()), bytes});
  chunks_.reserve(chunks_.size() + 1);
  {
    const std::lock_guard lock(seals_mutex_);
    sealed_.push_back(false);
  }
  chunks_.push_back(std::move(chunk));
  reserved_ += bytes;
  step_ = std::min(2 * step_, limits_.chunk_bytes);
  return *chunks_.back();
}

void Arena::refuse(std::size_t bytes, const std::string& why) const {
  throw_error(Code::exhausted, "allocate",
              fmt::format("{} bytes asked of the {} arena, which holds {} and uses {}: {}", bytes,
                          name(), reserved_, used_, why),
              "ask for less, free tensors, or raise the limit named");
}

std::string Arena::name() const {
  return sort_ == ArenaSort::device ? memory().text() : sort_name(sort_);
}

const os::Fd& Arena::chunk_fd(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[index_of(chunk)]->memory.fd;
}

std::size_t Arena::chunk_bytes(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[index_of(chunk)]->bytes;
}

std::byte* Arena::chunk_data(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[index_of(chunk)]->memory.data;
}

bool Arena::has_chunk(std::uint32_t chunk) const noexcept {
  const std::lock_guard lock(mutex_);
  return chunk >= first_chunk_ && index_of(chunk) < chunks_.size();
}

std::optional<Block> Arena::locate(const std::byte* data, std::size_t bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 0; index < chunks_.size(); ++index) {
    std::byte* begin = chunks_[index]->memory.data;
    if (data < begin || data + bytes > begin + chunks_[index]->bytes) continue;
    const auto offset = static_cast<std::size_t>(data - begin);
    return Block{begin + offset, bytes, first_chunk_ + index, offset};
  }
  return std::nullopt;
}

bool Arena::contains(const std::byte* data, std::size_t bytes) const noexcept {
  return locate(data, bytes).has_value();
}

ArenaReport Arena::report() const {
  const std::lock_guard lock(mutex_);
  ArenaReport report;
  report.sort = name();
  report.chunks = chunks_.size();
  report.reserved_bytes = reserved_;
  report.used_bytes = used_;
  report.peak_bytes = peak_;
  report.quarantined_bytes = static_cast<std::uint64_t>(quarantine_.load());
  report.allocations = allocations_;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    const Chunk& chunk = *chunks_[index];
    if (is_sealed(index))
      report.quarantined_bytes += chunk.bytes - chunk.heap.used();
    else
      report.largest_free_bytes =
          std::max<std::uint64_t>(report.largest_free_bytes, chunk.heap.largest_free());
    if (chunk.memory.huge_pages_advised) report.huge_page_bytes += chunk.bytes;
  }
  return report;
}

std::uint64_t Arena::left() const {
  const std::lock_guard lock(mutex_);
  return limits_.max_bytes == 0 ? std::numeric_limits<std::uint64_t>::max()
                                : limits_.max_bytes - std::min(limits_.max_bytes, used_);
}

std::shared_ptr<Storage> make_storage(std::shared_ptr<Arena> arena, std::size_t bytes) {
  const Block block = arena->allocate(bytes);
  try {
    return std::make_shared<ArenaStorage>(arena, block);
  } catch (...) {
    arena->release(block);
    throw;
  }
}

}  // namespace weft::p2p
