// Reading published versions: where they lie, or into the reader's own memory.
#include <fmt/format.h>

#include <algorithm>

#include "p2p/slot/remote_slot_state.hpp"

namespace weft::detail {

using p2p::SlotLine;
using p2p::WaitEnd;

bool RemoteSlotState::ready() const noexcept {
  const auto* line = reinterpret_cast<const SlotLine*>(owner_.channel->direct(lines_));
  return line->sequence.load(std::memory_order_seq_cst) > seen_;
}

Result<std::uint64_t> RemoteSlotState::newer_version(const char* operation,
                                                     Deadline deadline) noexcept {
  if (spec_.writer != Writer::owner)
    return failure(Code::bad_argument, operation, "this slot is written by a peer", "put into it");
  if (!ready()) {
    flush_let_go();
    const WaitEnd end =
        local_.waiter.wait([this] { return ready(); }, [this] { return broken(); }, deadline);
    if (end == WaitEnd::broken) {
      ErrorDetail detail = usable().detail();
      detail.operation = operation;
      return Status(std::move(detail));
    }
    if (end == WaitEnd::timeout) {
      ErrorDetail detail = failure(Code::timeout, operation,
                                   fmt::format("rank {} (host {}) has published nothing newer",
                                               owner_.rank, owner_.host()),
                                   "is the owner at the same step? a longer deadline: WEFT_TIMEOUT")
                               .detail();
      detail.sequence_expected = seen_ + 1;
      detail.sequence_seen = seen_;
      return Status(std::move(detail));
    }
  }
  if (held_.size() == held_.capacity())
    return failure(Code::exhausted, operation,
                   fmt::format("{} versions are viewed at once", held_.size()),
                   "let arrivals go before viewing more");
  if (!gate_.enter()) return usable();
  const auto* line = reinterpret_cast<const SlotLine*>(owner_.channel->direct(lines_));
  const std::uint64_t version = line->sequence.load(std::memory_order_acquire);
  seen_ = version;
  held_.push_back(version);
  count_let_go();
  if (held_.front() - 1 > reported_ && credits_)
    report_let_go(report_after());  // versions passed over are let go too
  counters_.transfers.add(1);
  counters_.work_requests.add(1);
  return version;
}

Result<Arrival> RemoteSlotState::view(Deadline deadline) noexcept {
  const auto version = newer_version("view", deadline);
  if (!version.ok()) return version.status();
  Arrival arrival;
  arrival.tensor_ = &views_[(*version - 1) % spec_.depth];
  arrival.sequence_ = *version;
  arrival.remote_ = this;
  return arrival;
}

Status RemoteSlotState::get(const Tensor& into, Deadline deadline) noexcept {
  if (into.dtype() != spec_.dtype || !(into.shape() == spec_.shape))
    return failure(Code::mismatch, "get",
                   fmt::format("the tensor is {}, the slot holds {}{}", into.text(),
                               weft::name(spec_.dtype), spec_.shape.text()),
                   "get into a tensor of the slot's dtype and shape");
  const SlotRun whole{0, spec_.shape.elements(), into.data()};
  return get(std::span(&whole, 1), deadline);
}

Status RemoteSlotState::get(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  for (const SlotRun& run : runs)
    if (run.first < 0 || run.count < 0 || run.first > spec_.shape.elements() ||
        run.count > spec_.shape.elements() - run.first)
      return failure(Code::bad_argument, "get",
                     fmt::format("elements {} to {} of a slot of {}", run.first,
                                 run.first + run.count, spec_.shape.elements()),
                     "runs must lie within the slot");
  const auto version = newer_version("get", deadline);
  if (!version.ok()) return version.status();
  const std::size_t element = size_of(spec_.dtype);
  const std::uint64_t buffer = (*version - 1) % spec_.depth * stride_;
  Status status;
  for (const SlotRun& run : runs) {
    const std::size_t bytes = static_cast<std::size_t>(run.count) * element;
    const auto offset = buffer + static_cast<std::size_t>(run.first) * element;
    if (status.ok()) status = owner_.channel->get(run.to, at(buffers_, offset), bytes);
    counters_.bytes_moved.add(bytes);
  }
  let_go(*version);
  return status;
}

void RemoteSlotState::let_go(std::uint64_t version) noexcept {
  std::erase(held_, version);
  count_let_go();
  if (credits_) report_let_go(report_after());
  gate_.leave();
}

void RemoteSlotState::count_let_go() noexcept {
  let_go_all_.store(held_.empty() ? seen_ : held_.front() - 1, std::memory_order_seq_cst);
}

void RemoteSlotState::let_go_wanted() noexcept {
  if (attach_state() != Attach::granted || gate_.is_shut()) return;
  // As with credits: the last to write must have seen the last value.
  std::uint64_t all = 0;
  do {
    all = let_go_all_.load(std::memory_order_seq_cst);
    owner_.channel->write_word(let_go_word_, all);
    let_gos_on_demand_.fetch_add(1, std::memory_order_relaxed);
  } while (let_go_all_.load(std::memory_order_seq_cst) != all);
}

void RemoteSlotState::report_let_go(std::uint64_t threshold) noexcept {
  const std::uint64_t all = let_go_all_.load(std::memory_order_relaxed);
  if (all < reported_ + threshold) return;
  owner_.channel->write_word(let_go_word_, all);
  counters_.credit_writes.add(1);
  reported_ = all;
}

void RemoteSlotState::flush_let_go() noexcept {
  if (!credits_ || spec_.writer != Writer::owner || reported_ + spec_.depth > seen_) return;
  // The owner needs this reader's word before it can fill the next version.
  if (!gate_.enter()) return;
  report_let_go(1);
  gate_.leave();
}

}  // namespace weft::detail
