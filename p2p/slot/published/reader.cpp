#include "p2p/slot/published/reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/given_deadline.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/progress/fences.hpp"

namespace weft::detail {

using p2p::Newest;
using p2p::PublishedWords;
using p2p::WaitEnd;

namespace {

constexpr std::size_t kMaxHeld = 64;

}  // namespace

void VersionReader::take_grant(const p2p::AttachedMessage& message, const p2p::Contract& declared,
                               const p2p::GrantedMemory& memory) {
  spec_ = declared.published_spec();
  bytes_ = p2p::payload_bytes(spec_);
  credits_ = spec_.flow == Flow::credits || local_.check_flow;
  lines_ = memory.lines;
  buffers_ = memory.buffers;
  stride_ = message.stride;
  newest_at_attach_ = message.newest;
  seen_ = message.sequence;
  held_.reserve(kMaxHeld);
  std::byte* words = owner_.channel->map(lines_);
  if (words == nullptr) return;
  published_words_ = PublishedWords(words);
  reader_words_ = p2p::ReaderWords(owner_.channel->map(memory.reader_words));
  for (std::size_t i = 0; i < spec_.depth; ++i)
    views_.push_back(
        Tensor::wrap(owner_.channel->map(at(buffers_, i * stride_)), spec_.dtype, spec_.shape));
}

Newest VersionReader::newest() const noexcept {
  const Newest newest =
      published_words_
          ? Newest::of(published_words_.newest().load(std::memory_order_seq_cst))
          : Newest::of(std::max(credit_word().load(std::memory_order_seq_cst), newest_at_attach_));
  return newest.buffer < spec_.depth ? newest : Newest{};  // what another rank wrote is not trusted
}

bool VersionReader::ready() const noexcept {
  // The owner's memory belongs to others once the gate is shut.
  const auto lock = lock_stream_get();
  if (!gate_.enter()) return false;
  const Newest newest = this->newest();
  const bool is_there = newest.version > seen_ && is_whole(newest);
  gate_.leave();
  return is_there;
}

void VersionReader::see_again() noexcept {
  const auto lock = lock_stream_get();
  if (!gate_.enter()) return;
  const Newest newest = this->newest();
  gate_.leave();
  if (newest.version > 0) seen_ = std::min(seen_, newest.version - 1);
}

bool VersionReader::pin(Newest version) noexcept {
  auto& pins = reader_words_.pins(version.buffer);
  pins.store(static_cast<std::uint8_t>(pins.load(std::memory_order_relaxed) + 1),
             std::memory_order_relaxed);
  // The owner sees the pin, or this rank sees that the buffer is being filled.
  p2p::full_barrier();
  if (published_words_.version(version.buffer).load(std::memory_order_acquire) == version.version)
    return true;
  unpin(version.buffer);
  return false;
}

void VersionReader::unpin(std::uint64_t buffer) noexcept {
  auto& pins = reader_words_.pins(buffer);
  pins.store(static_cast<std::uint8_t>(pins.load(std::memory_order_relaxed) - 1),
             std::memory_order_release);
  owner_.channel->notify();
}

Result<Newest> VersionReader::hold(const char* operation, std::span<const SlotRun> runs,
                                   Deadline deadline) noexcept {
  if (held_.size() == kMaxHeld)
    return failure(Code::exhausted, operation,
                   formatted("{} versions are viewed at once", held_.size()),
                   "let arrivals go before viewing more");
  if (interrupted_) [[unlikely]] {
    if (resume(runs)) return held_.back().version;
    if (Status status = end_interrupted(operation, deadline); !status) return status;
  }
  return hold_newest(operation, deadline);
}

Result<Newest> VersionReader::hold_newest(const char* operation, Deadline until) noexcept {
  for (;;) {
    if (!ready()) {
      const auto is_ready = [this] {
        if (ready()) return true;
        if (pins()) reader_words_.keep_near();
        return false;
      };
      const WaitEnd end = local_.waiter.wait(
          is_ready, [this] { return broken(); }, until,
          [this] { return about(stats::Operation::view, seen_ + 1); });
      if (end != WaitEnd::ready) return no_newer_version(operation, end);
    }
    if (!gate_.enter()) return usable(operation);
    const Newest version = newest();
    if (version.version > seen_ && (!pins() || pin(version))) {
      held_.push_back({version, {}, {}});
      return version;
    }
    gate_.leave();
  }
}

p2p::Awaited VersionReader::awaited() const {
  return {.slot = spec_.name,
          .peer = owner_.rank,
          .host = owner_.host(),
          .sequence = seen_ + 1,
          .lack = fmt::format("rank {} (host {}) has published nothing newer{}", owner_.rank,
                              owner_.host(), mesh_.suspicion(owner_.rank))};
}

Status VersionReader::no_newer_version(const char* operation, WaitEnd end) const noexcept {
  if (end == WaitEnd::broken) {
    return altered(usable(operation), [&](ErrorDetail& detail) {
      detail.sequence_expected = seen_ + 1;
      detail.sequence_seen = seen_;
    });
  }
  local_.recorder.control(stats::Event::timeout, owner_.rank, id_, seen_ + 1);
  return altered(failure(Code::timeout, operation, text_or_empty([this] { return awaited().lack; }),
                         "is the owner at the same step? a longer deadline: WEFT_TIMEOUT"),
                 [&](ErrorDetail& detail) {
                   detail.sequence_expected = seen_ + 1;
                   detail.sequence_seen = seen_;
                 });
}

void VersionReader::count_reading(Newest version, std::uint64_t bytes) noexcept {
  seen_ = version.version;
  counters_.transfers.add(1);
  counters_.work_requests.add(1);
  counters_.bytes_moved.add(bytes);
  local_.recorder.data(stats::Event::viewed, owner_.rank, id_, seen_);
}

bool VersionReader::is_within(const SlotRun& run) const noexcept {
  const std::int64_t elements = spec_.shape.elements();
  return run.first >= 0 && run.count >= 0 && run.first <= elements &&
         run.count <= elements - run.first;
}

Status VersionReader::outside(const char* operation, const SlotRun& run) const noexcept {
  return failure(Code::bad_argument, operation,
                 formatted("{} elements from {} on, of a slot of {}", run.count, run.first,
                           spec_.shape.elements()),
                 "runs must lie within the slot");
}

Result<Arrival> VersionReader::view(Deadline deadline) noexcept {
  const SlotRun whole{0, spec_.shape.elements(), nullptr};
  return view_runs(std::span(&whole, 1), spec_.shape, deadline);
}

Result<Arrival> VersionReader::view(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  std::int64_t elements = 0;
  std::int64_t end = 0;
  for (const SlotRun& run : runs) {
    if (!is_within(run)) return outside("view", run);
    if (run.first < end)
      return failure(
          Code::bad_argument, "view",
          formatted("a run begins at element {}, the one before it ends at {}", run.first, end),
          "list the runs in the slot's order");
    if (run.to != nullptr)
      return failure(Code::bad_argument, "view", "a run of a view has a target",
                     "leave SlotRun::to null, or call get()");
    elements += run.count;
    end = run.first + run.count;
  }
  return view_runs(runs, Shape{elements}, deadline);
}

Result<Arrival> VersionReader::view_runs(std::span<const SlotRun> runs, const Shape& shape,
                                         Deadline deadline) noexcept {
  const ThreadsTurn turn(*this);
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (Status status = end_stream_get("view", until); !status.ok()) [[unlikely]]
    return status;
  drop_mapped();
  const auto version = hold("view", runs, until);
  if (!version.ok()) return hinted_for(deadline, version.status());
  Held& held = held_.back();
  const Tensor* tensor = nullptr;
  if (published_words_) {
    tensor = &views_[version->buffer];
    count_reading(*version, 0);
  } else {
    const Status status = fetch(held, runs, shape, until);
    if (!status.ok()) return hinted_for(deadline, status);
    tensor = held.tensor.get();
  }
  arrivals_.handed_out();
  return SlotAccess::viewed(*this, *tensor, held.version.version);
}

Status VersionReader::wrong_target(const Tensor& into) const noexcept {
  return failure(Code::mismatch, "get", text_or_empty([&] {
                   return fmt::format("the tensor is {}, the slot holds {}{}", into.text(),
                                      weft::name(spec_.dtype), spec_.shape.text());
                 }),
                 "get into a tensor of the slot's dtype and shape");
}

Status VersionReader::check_target(const Tensor& into) const noexcept {
  if (lacks_memory(into))
    return failure(Code::bad_argument, "get",
                   text_or_empty([&] { return no_host_memory("the tensor", into); }),
                   give_host_memory(into));
  if (into.dtype() != spec_.dtype || !(into.shape() == spec_.shape)) return wrong_target(into);
  return {};
}

Status VersionReader::get(const Tensor& into, Deadline deadline) noexcept {
  if (Status status = check_target(into); !status.ok()) return status;
  if (into.memory().is_gpu() && into.bytes() != 0) return get_to_gpu(into, deadline);
  if (into.storage() == nullptr) [[unlikely]]
    if (Status status = check_wrapped_target(into); !status.ok()) return status;
  if (into.dense()) {
    const SlotRun whole{0, spec_.shape.elements(), into.data()};
    return get_runs(std::span(&whole, 1), &into, deadline);
  }
  try {
    std::vector<SlotRun> runs;
    std::int64_t first = 0;
    for_each_run(into, [&](std::byte* to, std::size_t bytes) {
      runs.push_back({first, static_cast<std::int64_t>(bytes / size_of(spec_.dtype)), to});
      first += runs.back().count;
    });
    return get_runs(runs, &into, deadline);
  } catch (const std::bad_alloc&) {
    return failure(Code::exhausted, "get", "no memory for the runs of a strided tensor", "");
  }
}

Status VersionReader::get(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  return get_runs(runs, nullptr, deadline);
}

Status VersionReader::get_runs(std::span<const SlotRun> runs, const Tensor* into,
                               Deadline deadline) noexcept {
  for (const SlotRun& run : runs) {
    if (!is_within(run)) return outside("get", run);
    if (run.to == nullptr && run.count != 0)
      return failure(Code::bad_argument, "get",
                     formatted("a run of {} elements has no memory to go to", run.count),
                     "set SlotRun::to");
  }
  const ThreadsTurn turn(*this);
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (Status status = end_stream_get("get", until); !status.ok()) [[unlikely]]
    return status;
  drop_mapped();
  const auto version = hold("get", runs, until);
  if (!version.ok()) return hinted_for(deadline, version.status());
  const Status status = read(held_.back(), runs, into, until);
  drop_held(held_.size() - 1);
  return hinted_for(deadline, status);
}

void VersionReader::also_needs(std::span<const int> ranks, Needed needed) {
  const auto lock = lock_stream_get();
  RemoteEnd::also_needs(ranks, needed);
}

void VersionReader::release(std::uint64_t version) noexcept {
  const auto lock = lock_stream_get();
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (held_[i].version.version == version) return drop_held(i);
}

void VersionReader::drop_held(std::size_t index) noexcept {
  const Newest version = held_[index].version;
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  if (pins()) unpin(version.buffer);
  tell_released();
  gate_.leave();
}

void VersionReader::tell_released() noexcept {
  if (!credits_ || !reader_words_ || spec_.flow == Flow::credits) return;
  std::uint64_t all = seen_;
  for (const Held& held : held_) all = std::min(all, held.version.version - 1);
  reader_words_.released().store(all, std::memory_order_release);
}

}  // namespace weft::detail
