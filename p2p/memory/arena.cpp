#include "p2p/memory/arena.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/fail.hpp"
#include "p2p/memory/memory_limits.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2u << 20;

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
  }
  return "?";
}

class ArenaStorage final : public Storage {
 public:
  ArenaStorage(std::shared_ptr<Arena> arena, const Block& block)
      : Storage(block.data, block.bytes, arena.get()), arena_(std::move(arena)), block_(block) {}
  ~ArenaStorage() override { arena_->release(block_); }

 private:
  std::shared_ptr<Arena> arena_;
  Block block_;
};

}  // namespace

Arena::Arena(ArenaSort sort, ArenaLimits limits, std::shared_ptr<SegmentMapper> mapper)
    : sort_(sort),
      limits_(std::move(limits)),
      mapper_(std::move(mapper)),
      step_(std::min(limits_.chunk_bytes, ArenaLimits::kFirstChunk)) {}

Block Arena::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 0; index <= chunks_.size(); ++index) {
    Chunk& chunk = index < chunks_.size() ? *chunks_[index] : grow(bytes);
    const auto offset = chunk.heap.allocate(bytes);
    if (!offset) continue;
    used_ += Heap::rounded(bytes);
    peak_ = std::max(peak_, used_);
    ++allocations_;
    return {chunk.segment.mapping->data() + *offset, bytes,
            (static_cast<std::uint32_t>(sort_) << 24) | index, *offset};
  }
  refuse(bytes, "a new chunk did not hold it");
}

void Arena::release(const Block& block) noexcept {
  // In a fork, a thread that does not exist there may hold the mutex.
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  chunks_[index_of(block.chunk)]->heap.release(block.offset, block.bytes);
  used_ -= Heap::rounded(block.bytes);
}

Arena::Chunk& Arena::grow(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 62)) refuse(bytes, "more than any machine addresses");
  const std::size_t wanted = next_chunk(bytes, limits_.exported ? kHugePage : kPage);
  if (limits_.max_bytes != 0 && reserved_ + wanted > limits_.max_bytes)
    refuse(bytes, fmt::format("WEFT_ARENA_MAX allows {} bytes and a chunk of {} would be needed",
                              limits_.max_bytes, wanted));
  if (!limits_.exported) return add_chunk(create_lazy_segment(wanted), wanted);
  if (const auto reason = refusal_to_grow(wanted)) refuse(bytes, *reason);
  const PageKind kind{
      .huge = limits_.huge_pages, .numa = limits_.numa, .allowed_numa = limits_.allowed_numa};
  Segment segment =
      sort_ == ArenaSort::staging
          ? create_private_segment(wanted, kind)
          : create_shared_segment(wanted, kind, fmt::format("weft-{}", sort_name(sort_)),
                                  sort_ == ArenaSort::published ? Access::read : Access::write);
  if (sort_ != ArenaSort::staging) mapper_->add(segment.fd, segment.mapping);
  return add_chunk(std::move(segment), wanted);
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

Arena::Chunk& Arena::add_chunk(Segment segment, std::size_t bytes) {
  chunks_.push_back(std::make_unique<Chunk>(Chunk{std::move(segment), Heap(bytes), bytes}));
  reserved_ += bytes;
  step_ = std::min(2 * step_, limits_.chunk_bytes);
  return *chunks_.back();
}

void Arena::refuse(std::size_t bytes, const std::string& why) const {
  throw_error(Code::exhausted, "allocate",
              fmt::format("{} bytes asked of the {} arena, which holds {} and uses {}: {}", bytes,
                          sort_name(sort_), reserved_, used_, why),
              "ask for less, free tensors, or raise the limit named");
}

const os::Fd& Arena::chunk_fd(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[index_of(chunk)]->segment.fd;
}

std::size_t Arena::chunk_bytes(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[index_of(chunk)]->bytes;
}

std::byte* Arena::chunk_data(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[index_of(chunk)]->segment.mapping->data();
}

bool Arena::has_chunk(std::uint32_t chunk) const noexcept {
  const std::lock_guard lock(mutex_);
  return sort_of_chunk(chunk) == sort_ && index_of(chunk) < chunks_.size();
}

std::optional<Block> Arena::locate(const std::byte* data, std::size_t bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 0; index < chunks_.size(); ++index) {
    std::byte* begin = chunks_[index]->segment.mapping->data();
    if (data < begin || data + bytes > begin + chunks_[index]->bytes) continue;
    const auto offset = static_cast<std::size_t>(data - begin);
    return Block{begin + offset, bytes, (static_cast<std::uint32_t>(sort_) << 24) | index, offset};
  }
  return std::nullopt;
}

bool Arena::contains(const std::byte* data, std::size_t bytes) const noexcept {
  return locate(data, bytes).has_value();
}

ArenaReport Arena::report() const {
  const std::lock_guard lock(mutex_);
  ArenaReport report;
  report.sort = sort_name(sort_);
  report.chunks = chunks_.size();
  report.reserved_bytes = reserved_;
  report.used_bytes = used_;
  report.peak_bytes = peak_;
  report.quarantined_bytes = static_cast<std::uint64_t>(quarantine_.load());
  report.allocations = allocations_;
  for (const auto& chunk : chunks_) {
    report.largest_free_bytes =
        std::max<std::uint64_t>(report.largest_free_bytes, chunk->heap.largest_free());
    if (chunk->segment.huge_pages_advised) report.huge_page_bytes += chunk->bytes;
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
