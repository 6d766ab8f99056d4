#include "pslib/publication/snapshots.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace weft::pslib {
namespace {

constexpr auto kEndOfTime = Clock::time_point::max();

/// Appends the rows of one tensor in which two versions differ to `runs`.
void compare_tensor(const PublishedLayout::Placed& tensor, std::uint32_t index, const std::byte* a,
                    const std::byte* b, RowRuns& runs) {
  for (std::uint32_t row = 0; row < tensor.rows; ++row) {
    const std::size_t offset = row * tensor.row_bytes;
    const std::size_t bytes = std::min(tensor.row_bytes, tensor.bytes - offset);
    if (std::memcmp(a + offset, b + offset, bytes) == 0) continue;
    RowRun* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->tensor == index && last->first + last->rows == row)
      ++last->rows;
    else
      runs.push_back({.tensor = index, .rows = 1, .first = row});
  }
}

}  // namespace

Snapshots::Snapshots(std::shared_ptr<const PublishedLayout> layout,
                     const PublicationOptions& options)
    : layout_(std::move(layout)),
      compares_(options.history > 0),
      buffers_(static_cast<std::size_t>(options.buffers)),
      history_(static_cast<std::size_t>(options.history)) {
  for (Buffer& buffer : buffers_)
    buffer.memory =
        os::Mapping::anonymous(std::max(layout_->buffer_bytes(), PublishedLayout::kLine));
}

Snapshots::Held* Snapshots::Buffer::find(std::uint64_t number) noexcept {
  const auto at = std::find_if(leases.begin(), leases.end(),
                               [&](const Held& held) { return held.number == number; });
  return at == leases.end() ? nullptr : &*at;
}

Clock::time_point Snapshots::Buffer::kept_since(Clock::time_point now) const noexcept {
  if (leases.empty()) return kEndOfTime;
  auto since = kEndOfTime - Clock::duration(1);
  for (const Held& held : leases)
    if (now - held.progressed < kStalled) since = std::min(since, held.begun);
  return since;
}

TensorPlaces Snapshots::places(const Buffer& buffer) const {
  TensorPlaces places;
  for (const PublishedLayout::Placed& tensor : layout_->tensors())
    places.push_back(buffer.memory.data() + tensor.offset);
  return places;
}

/// Chooses a buffer other than the newest and revokes its leases.
std::size_t Snapshots::take_buffer() {
  const auto now = Clock::now();
  std::optional<std::size_t> best;
  Clock::time_point best_since;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (i == newest_ && newest() > 0) continue;
    Buffer& buffer = buffers_[i];
    const std::lock_guard lock(buffer.guard);
    const auto since = buffer.kept_since(now);
    // Among equals take the youngest version: the fewest rows have changed since.
    const bool is_better = !best || since > best_since ||
                           (since == best_since && buffer.version > buffers_[*best].version);
    if (!is_better) continue;
    best = i;
    best_since = since;
  }
  const std::lock_guard lock(buffers_[*best].guard);
  buffers_[*best].leases.clear();
  return *best;
}

RowRuns Snapshots::compare(const TensorPlaces& sources) const {
  if (newest() == 0 || !compares_) return layout_->all();
  RowRuns changed;
  const TensorPlaces current = places(buffers_[newest_]);
  for (std::uint32_t i = 0; i < sources.size(); ++i)
    compare_tensor(layout_->tensors()[i], i, current[i], sources[i], changed);
  return changed;
}

Snapshots::Published Snapshots::publish(const TensorPlaces& sources, std::uint64_t step) {
  RowRuns changed = compare(sources);
  const std::size_t taken = take_buffer();
  Buffer& buffer = buffers_[taken];
  // Only this thread changes the history.
  const auto missed = history_.since(std::exchange(buffer.version, 0));
  const RowRuns stale = missed ? unite(History::united(*missed), changed) : layout_->all();
  const TensorPlaces to = places(buffer);
  Published done;
  for (const RowRun& run : stale) {
    const std::size_t offset = layout_->offset(run);
    const std::size_t bytes = layout_->bytes(run);
    std::memcpy(to[run.tensor] + offset, sources[run.tensor] + offset, bytes);
    done.bytes_copied += bytes;
  }
  for (const RowRun& run : changed) done.rows_changed += run.rows;
  const std::lock_guard lock(mutex_);
  history_.add(std::move(changed));
  buffer.version = history_.newest();
  buffer.step = step;
  newest_ = taken;
  newest_version_.store(buffer.version);
  return done;
}

Snapshots::Offer Snapshots::offer(std::uint64_t have) {
  Offer offer;
  const auto missed = lease_newest(offer, have);
  // Without the lock: the changes may have millions of runs, and publish() must not wait for this.
  std::optional<RowRuns> changed;
  if (missed) changed = History::united(*missed);
  const auto cost = [&](const RowRuns& runs) {
    return layout_->bytes(runs) + runs.size() * sizeof(RowRun);
  };
  if (changed && cost(*changed) <= layout_->bytes() - layout_->bytes() / 4) {
    offer.from = have;
    offer.runs = *std::move(changed);
  } else {
    offer.runs = layout_->all();
  }
  return offer;
}

/// Takes the lease first: the version could be overwritten before its runs are known.
std::optional<History::Changes> Snapshots::lease_newest(Offer& offer, std::uint64_t have) {
  const std::lock_guard lock(mutex_);
  Buffer& buffer = buffers_[newest_];
  offer.lease = {.buffer = newest_, .version = buffer.version, .number = ++leases_};
  offer.step = buffer.step;
  offer.places = places(buffer);
  auto missed = history_.since(have);
  const auto now = Clock::now();
  const std::lock_guard guard(buffer.guard);
  buffer.leases.push_back({.number = offer.lease.number, .begun = now, .progressed = now});
  return missed;
}

void Snapshots::end(const Lease& lease) noexcept {
  Buffer& buffer = buffers_[lease.buffer];
  const std::lock_guard lock(buffer.guard);
  std::erase_if(buffer.leases, [&](const Held& held) { return held.number == lease.number; });
}

}  // namespace weft::pslib
