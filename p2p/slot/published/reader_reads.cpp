// Reads of versions through the fabric. A read that is not over at a call's deadline goes on
// between the calls, and the next call resumes it.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/slot/published/reader.hpp"

namespace weft::detail {

using p2p::GetWork;
using p2p::Newest;
using p2p::PublishedWords;
using p2p::WaitEnd;

namespace {

/// A view has no memory of the caller's.
bool is_view(std::span<const SlotRun> runs) noexcept {
  return std::ranges::any_of(runs,
                             [](const SlotRun& run) { return run.to == nullptr && run.count > 0; });
}

}  // namespace

/// A view of memory that can't be loaded from here is a copy of it, fetched by the fabric.
Status VersionReader::fetch(Held& held, std::span<const SlotRun> runs, const Shape& shape,
                            Deadline deadline) noexcept {
  const std::uint64_t seen = seen_;
  Status status = read(held, runs, nullptr, deadline);
  if (status) {
    try {
      held.block = std::move(reading_->landing);
      held.tensor = std::make_unique<Tensor>(Tensor::wrap(held.block.data(), spec_.dtype, shape));
      return {};
    } catch (...) {
      seen_ = seen;
      status = caught_status();
    }
  }
  drop_held(held_.size() - 1);
  return status;
}

template <typename Visit>
void VersionReader::for_each_piece(Newest version, std::span<const SlotRun> runs,
                                   const Visit& visit) const {
  std::byte* next = reading_->landing.data();
  for (const SlotRun& run : runs) {
    if (run.count == 0) continue;
    const std::size_t bytes = bytes_of(run);
    const auto first = static_cast<std::size_t>(run.first) * size_of(spec_.dtype);
    const bool direct = is_direct(run);
    visit(GetWork{direct ? run.to : next, at(buffers_, version.buffer * stride_ + first), bytes});
    if (!direct) next += bytes;
  }
}

Status VersionReader::plan_reading(Newest version, std::span<const SlotRun> runs) noexcept {
  std::size_t landing_bytes = 0;
  for (const SlotRun& run : runs)
    if (!is_direct(run)) landing_bytes += bytes_of(run);
  const auto word = at(lines_, PublishedWords::version_offset(version.buffer));
  const char* const operation = is_view(runs) ? "view" : "get";
  try {
    if (!reading_) {
      auto made = std::make_unique<p2p::Reading>();
      made->words = p2p::OwnedBlock(local_.control, 2 * sizeof(std::uint64_t));
      reading_ = std::move(made);
    }
    if (landing_bytes > reading_->landing.block().bytes)
      reading_->landing = p2p::OwnedBlock(local_.data, landing_bytes);
    auto& pieces = reading_->pieces;
    pieces.clear();
    pieces.reserve(runs.size() + 2);
    if (proves()) pieces.push_back({scratch_word(0), word, sizeof(std::uint64_t)});
    for_each_piece(version, runs, [&](const GetWork& piece) { pieces.push_back(piece); });
    if (proves()) pieces.push_back({scratch_word(1), word, sizeof(std::uint64_t)});
    reading_->get.pieces = pieces;
    reading_->get.gpu_flushes = to_gpu_ ? &row_.gpu_counters().gpu_flushes : nullptr;
  } catch (const Error& error) {
    return failure(Code::exhausted, operation, error.detail().message, error.detail().hint);
  } catch (const std::bad_alloc&) {
    return failure(Code::exhausted, operation, "no memory for the list of runs", "");
  }
  return {};
}

Status VersionReader::start_reading(Newest version, std::span<const SlotRun> runs) noexcept {
  is_given_up_ = false;
  lands_all_ = !to_gpu_ && (is_slow_ || is_view(runs));
  Status status = plan_reading(version, runs);
  if (status.code() == Code::exhausted && lands_all_ && !is_view(runs)) {
    lands_all_ = is_slow_ = false;  // without memory to land in, it is read as a first one is
    status = plan_reading(version, runs);
  }
  if (status && !reading_->pieces.empty()) owner_.channel->get(reading_->get);
  return status;
}

/// Moves on what landed to where it belongs. Returns the bytes of all runs.
std::uint64_t VersionReader::finish_reading(std::span<const SlotRun> runs) noexcept {
  std::uint64_t moved = 0;
  const std::byte* next = reading_->landing.data();
  for (const SlotRun& run : runs) {
    const std::size_t bytes = bytes_of(run);
    moved += bytes;
    if (bytes == 0 || is_direct(run)) continue;  // an empty run may lead nowhere
    if (run.to != nullptr) {                     // a view keeps what landed
      std::memcpy(run.to, next, bytes);
      counters_.bytes_copied.add(bytes);
    }
    next += bytes;
  }
  return moved;
}

/// One whole version, in one operation: where nothing keeps it from being overwritten, its word is
/// read before the runs and after them. If it was overwritten, it is given up for the newest.
Status VersionReader::read(Held& held, std::span<const SlotRun> runs, const Tensor* into,
                           Deadline deadline) noexcept {
  const bool goes_on = interrupted_.has_value();
  for (;;) {
    const Newest version = held.version;
    Status status;
    if (interrupted_) {
      interrupted_.reset();
    } else if (status = start_reading(version, runs); !status.ok()) {
      return status;
    }
    if (!reading_->pieces.empty()) {
      auto end = await_get(local_.waiter, reading_->get, deadline,
                           [&] { return about(stats::Operation::view, version.version); });
      if (!end) return unanswered(version, into);
      status = std::move(*end);
    }
    if (!status.ok()) {
      return altered(mesh_.disconnected(owner_.rank, status, deadline),
                     [&](ErrorDetail& detail) { detail.slot = spec_.name; });
    }
    const auto is = [&](const std::byte* word) {
      return std::memcmp(word, &version.version, sizeof version.version) == 0;
    };
    if (!proves() || (is(scratch_word(0)) && is(scratch_word(1)))) {
      count_reading(version, finish_reading(runs));
      if (lands_all_ && !is_view(runs)) {
        is_slow_ = goes_on;  // a read that one call was enough for need not land next time
        if (!is_slow_) reading_->landing = {};
      }
      return {};
    }
    const auto newer = [&] { return newest().version > version.version; };
    const WaitEnd end = local_.waiter.wait(
        newer, [this] { return broken(); }, deadline,
        [&] { return about(stats::Operation::view, version.version + 1); });
    if (end != WaitEnd::ready) return no_newer_version("get", end);
    held.version = newest();
  }
}

/// A read into weft's own memory or a GPU's goes on. One into the caller's host memory is given up:
/// where a NIC may still write there, the memory is lent until the NIC is done.
Status VersionReader::unanswered(Newest version, const Tensor* into) noexcept {
  local_.recorder.control(stats::Event::timeout, owner_.rank, id_, version.version);
  bool is_over = false;
  if (to_gpu_) {
    reading_->tensor = *into;
  } else if (!lands_all_) {
    is_slow_ = is_given_up_ = true;
    is_over = reading_->get.cancel();
    if (!is_over && into != nullptr) reading_->tensor = *into;
  }
  reading_->is_bare = !lands_all_ && into == nullptr;
  if (!is_over) interrupted_ = version;
  return altered(
      failure(Code::timeout, "get", text_or_empty([&] {
                return unanswered_text(fmt::format("version {} is being read", version.version));
              }),
              unanswered_hint()),
      [&](ErrorDetail& detail) {
        detail.sequence_expected = version.version;
        detail.sequence_seen = seen_;
      });
}

std::string VersionReader::unanswered_text(std::string_view what) const {
  if (owner_.rank == local_.rank)
    return fmt::format("{} from this rank's own slot, and has not ended", what);
  return fmt::format("rank {} (host {}) has not answered: {}{}", owner_.rank, owner_.host(), what,
                     mesh_.suspicion(owner_.rank));
}

const char* VersionReader::unanswered_hint() const noexcept {
  return owner_.rank == local_.rank
             ? "the same call again goes on; a longer deadline: WEFT_TIMEOUT"
             : "is its process stopped, or its host gone? the same call again goes on; a longer "
               "deadline: WEFT_TIMEOUT";
}

bool VersionReader::is_same_read(std::span<const SlotRun> runs) const noexcept {
  // A get to a GPU may have given this version from host memory meanwhile.
  if (is_given_up_ || interrupted_->version <= seen_) return false;
  if (to_gpu_ != (reading_->get.gpu_flushes != nullptr)) return false;
  const std::span<const GetWork> all = reading_->pieces;
  const std::size_t words = proves() ? 1 : 0;
  auto left = all.subspan(words, all.size() - 2 * words);
  bool is_same = true;
  for_each_piece(*interrupted_, runs, [&](const GetWork& piece) {
    is_same = is_same && !left.empty() && left.front().to == piece.to &&
              left.front().from.address == piece.from.address && left.front().bytes == piece.bytes;
    if (is_same) left = left.subspan(1);
  });
  return is_same && left.empty();
}

bool VersionReader::resume(std::span<const SlotRun> runs) noexcept {
  if (!is_same_read(runs) || !gate_.enter()) return false;
  if (pins() && !pin(*interrupted_)) {
    gate_.leave();
    return false;
  }
  held_.push_back({*interrupted_, {}, {}});
  return true;
}

Status VersionReader::end_interrupted(const char* operation, Deadline deadline) noexcept {
  is_given_up_ = true;
  if (!reading_->get.cancel() && !await_get(local_.waiter, reading_->get, deadline, [this] {
        return about(stats::Operation::view, interrupted_->version);
      }))
    return failure(Code::timeout, operation, text_or_empty([this] {
                     return unanswered_text("an earlier get is still under way");
                   }),
                   unanswered_hint());
  interrupted_.reset();
  reading_->tensor = {};
  return {};
}

void VersionReader::drop_stream_get() noexcept {
  p2p::StreamGet& get = stream_get_;
  const std::lock_guard lock(get.mutex);
  if (get.graphs) get.graphs->end_all();
  if (!get.is_open.load(std::memory_order_relaxed)) return;
  const Status closed =
      failure(Code::closed, "get", "this end was closed before the version came", "");
  if (get.will_begin()) fail_get_behind(closed);
  get.behind.reset();
  if (!get.is_over) fail_stream_get(closed);
  if (std::exchange(get.is_reading, false)) {
    get.reading->get.gpu_flushes = nullptr;  // nothing will see it
    get.reading->tensor = get.into;
    get.reading->memory = get.block;
    local_.strays.keep(std::move(get.reading), id_);
  }
  get.copy.reset();
  get.into = {};
  get.is_under_way = false;
  get.tell_open();
}

void VersionReader::drop_pending() noexcept {
  drop_stream_get();
  drop_mapped();
  if (interrupted_) {
    interrupted_.reset();
    reading_->get.gpu_flushes = nullptr;  // nothing will see it
    local_.strays.keep(std::move(reading_), id_);
  }
  RemoteEnd::drop_pending();
}

}  // namespace weft::detail
