#include "p2p/transport/verbs/adopted_regions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

}  // namespace

AdoptedRegions::Entry::Entry(MemoryRegion made, const AdoptedRegion& adopted, RegionCounts& counter)
    : region(std::move(made)),
      chunk{adopted.data, adopted.bytes, region->lkey, region->rkey},
      counts(counter) {
  ++counts.registrations;
  counts.bytes += chunk.bytes;
}

AdoptedRegions::Entry::~Entry() { counts.bytes -= chunk.bytes; }

AdoptedRegions::AdoptedRegions(Device& device, std::shared_ptr<AdoptedMemory> memory,
                               RegionCounts& counts, Limits limits)
    : device_(device),
      memory_(std::move(memory)),
      counts_(counts),
      limits_(limits),
      released_(memory_->on_release([this](std::uint32_t chunk) { forget(chunk); })) {}

RegisteredChunk AdoptedRegions::for_peers(std::uint32_t chunk) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Entry> entry = entry_of(chunk);
  entry->told = true;
  return entry->chunk;
}

AdoptedRegions::Lease AdoptedRegions::lend(std::uint32_t chunk) {
  const std::lock_guard lock(mutex_);
  return Lease(entry_of(chunk));
}

void AdoptedRegions::forget(std::uint32_t chunk) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(chunk);
  if (found == entries_.end()) return;
  bytes_ -= found->second->chunk.bytes;
  entries_.erase(found);
}

std::shared_ptr<AdoptedRegions::Entry> AdoptedRegions::entry_of(std::uint32_t chunk) {
  if (const auto found = entries_.find(chunk); found != entries_.end()) {
    found->second->last_use = ++uses_;
    return found->second;
  }
  // Asked while the mutex is held: a region that is given back now is forgotten after this.
  const auto region = memory_->region(chunk);
  if (!region)
    throw Error(
        ErrorDetail{.code = Code::bad_argument,
                    .operation = "register",
                    .message = fmt::format("adopted region {} was given back", chunk & 0xffffffU),
                    .hint = "keep a tensor of it as long as it is used"});
  make_room(region->bytes);
  auto entry = std::make_shared<Entry>(make(*region), *region, counts_);
  entry->last_use = ++uses_;
  entries_.emplace(chunk, entry);
  bytes_ += region->bytes;
  return entry;
}

MemoryRegion AdoptedRegions::make(const AdoptedRegion& region) {
  for (;;) {
    try {
      return device_.register_memory(region.data, region.bytes, kAccess);
    } catch (const Error& error) {
      if (error.code() != Code::exhausted || !drop_one()) throw;
    }
  }
}

void AdoptedRegions::make_room(std::uint64_t bytes) {
  const auto is_full = [&] {
    return entries_.size() >= limits_.regions || bytes > limits_.bytes ||
           bytes_ > limits_.bytes - bytes;
  };
  while (is_full() && drop_one()) {
  }
}

bool AdoptedRegions::drop_one() {
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    // Leases are made while the mutex is held, so a count of one stays one.
    if (at->second->told || at->second.use_count() > 1) continue;
    if (oldest == entries_.end() || at->second->last_use < oldest->second->last_use) oldest = at;
  }
  if (oldest == entries_.end()) return false;
  bytes_ -= oldest->second->chunk.bytes;
  entries_.erase(oldest);
  return true;
}

}  // namespace weft::p2p::verbs
