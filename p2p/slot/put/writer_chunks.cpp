// Puts chunk by chunk, so that the way of one overlaps the copies of others.
#include "base/fail.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft::detail {
namespace {

/// So that the thread that moves waiting puts does other things in between.
constexpr std::size_t kMostCopiedAtOnce = std::size_t{16} << 20;

}  // namespace

bool PutWriter::goes_in_chunks(const Moving& moving) noexcept {
  // A put that begins at once has no ticket, as no put in chunks has one.
  if (moving.ticket != 0 && chunks_->put.ticket == moving.ticket) return true;
  // The chunks are those of a whole tensor, and put_front() has shorter ones.
  if (moving.parts.size() == 1 && moving.parts.front().bytes() != bytes_) return false;
  // The owner may have begun to copy chunks that are to be overwritten, and must hear of it.
  if (chunks_->owner_looks && chunks_->is_torn) return true;
  if (p2p::any_on_gpu(moving.parts)) return !reached_by_nic(moving.parts);
  if (!chunks_->owner_looks) return false;
  const Tensor& tensor = moving.parts.front();
  return moving.parts.size() == 1 && tensor.dense() && reachable(tensor);
}

bool PutWriter::waits_for_torn_chunks() noexcept {
  if (!chunks_ || !chunks_->is_torn || in_flight_.empty()) [[likely]]
    return false;
  in_flight_.poll(*owner_.channel);
  return !in_flight_.empty();
}

std::shared_ptr<const p2p::OwnedBlock> PutWriter::chunk_stage(std::uint64_t ticket) {
  auto stage = chunks_->free_stage();
  if (!stage) {
    chunks_->stages.reserve(chunks_->stages.size() + 1);
    stage = std::make_shared<const p2p::OwnedBlock>(make_stage(ticket, bytes_));
    chunks_->stages.push_back(stage);
  }
  return stage;
}

Status PutWriter::chunks_from_gpu(const Moving& moving, std::size_t& there) noexcept {
  there = 0;
  if (Status status = begin_staging(moving.ticket, moving.parts, moving.after); !status.ok())
    return status;
  if (!gpu_sources_->has_begun(moving.ticket)) return {};
  stage_ahead(moving.ticket + 1);
  const auto outcome = gpu_sources_->poll_chunks(moving.ticket, there);
  if (!outcome || outcome->ok()) return {};
  gpu_sources_->drop(moving.ticket);
  return put_failure(*outcome);
}

Status PutWriter::begin_chunks(const Moving& moving) noexcept {
  const Tensor& tensor = moving.parts.front();
  p2p::ChunkedPuts::Put put{.ticket = moving.ticket, .source = tensor.data()};
  try {
    if (p2p::any_on_gpu(moving.parts)) {
      put.block = gpu_sources_->chunks(moving.ticket);
    } else if (moving.parts.size() != 1 || !tensor.dense() || !reachable(tensor)) {
      put.block = chunk_stage(moving.ticket);
      std::byte* to = put.block->data();
      for (const Tensor& part : moving.parts) {
        p2p::pack(part, to);
        to += part.bytes();
      }
      counters_.bytes_copied.add(bytes_);
    }
  } catch (...) {
    return put_failure(caught_status());
  }
  if (put.block) put.source = put.block->data();
  chunks_->put = std::move(put);
  return {};
}

void PutWriter::count_chunks(const Moving& moving) noexcept {
  if (std::exchange(chunks_->put.is_counted, true)) return;
  p2p::GpuCounters& counters = row_.gpu_counters();
  bool any = false;
  for (const Tensor& part : moving.parts) {
    if (!part.memory().is_gpu() || part.bytes() == 0) continue;
    counters.device_copies.add(1);
    any = true;
  }
  if (any) counters.staged_bytes.add(bytes_);
}

Status PutWriter::put_next_chunk(const Moving& moving, const p2p::PutWork& whole,
                                 std::size_t& copied) noexcept {
  p2p::ChunkedPuts::Put& put = chunks_->put;
  const p2p::StagedChunks& cut = chunks_->cut;
  if (in_flight_.full()) {
    in_flight_.poll(*owner_.channel);
    is_staging_ = in_flight_.full();
    if (is_staging_) return {};
  }
  const std::size_t word = cut.word(target_.index, put.next);
  p2p::PutWork work;
  work.source = put.source + cut.offset(put.next);
  if (!put.block) work.tensor = &moving.parts.front();
  work.bytes = cut.bytes_of(put.next);
  work.payload = at(whole.payload, cut.offset(put.next));
  work.sequence_word = at(chunks_->words, word * sizeof(std::uint64_t));
  work.sequence = chunks_->values[word] + 1;
  work.notification_id = chunks_->notification_id + static_cast<std::uint32_t>(word);
  work.delivered = true;
  work.queue_pair = target_.queue_pair;
  work.stream = id_;
  work.depth = spec_.depth;
  work.by_and_by = true;
  work.done = put.done;
  Status status = owner_.channel->put(work);
  if (!status.ok()) {
    is_staging_ = status.code() == Code::exhausted;
    put.done = work.done;
    return is_staging_ ? Status{} : status;
  }
  put.done = 0;
  ++put.next;
  ++chunks_->values[word];
  counters_.work_requests.add(work.requests);
  counters_.bytes_copied.add(work.copied);
  if (work.posted == 0) {
    copied += work.bytes;
    return {};
  }
  p2p::InFlightPut& under_way = in_flight_.begin(moving.ticket, work.posted, false);
  under_way.block = put.block;
  if (!put.block) under_way.tensor = moving.parts.front();
  return {};
}

Status PutWriter::put_in_chunks(const Moving& moving, p2p::PutWork& work) noexcept {
  p2p::ChunkedPuts::Put& put = chunks_->put;
  const p2p::StagedChunks& cut = chunks_->cut;
  std::size_t there = cut.count;
  if (p2p::any_on_gpu(moving.parts)) {
    const Status status = chunks_from_gpu(moving, there);
    is_staging_ = status.ok() && there == 0;
    if (!status.ok() || is_staging_) return status;
  }
  if (put.ticket != moving.ticket)
    if (Status status = begin_chunks(moving); !status.ok()) return status;
  if (there == cut.count) count_chunks(moving);
  const std::size_t last = cut.count - 1;
  std::size_t copied = 0;
  while (put.next < std::min(there, last)) {
    is_staging_ = copied >= kMostCopiedAtOnce;
    if (is_staging_) return {};
    if (const Status status = put_next_chunk(moving, work, copied); !status.ok() || is_staging_)
      return status;
  }
  // The owner may take the tensor once it sees its word: nothing may come later.
  in_flight_.poll(*owner_.channel);
  is_staging_ = there < cut.count || in_flight_.has(moving.ticket);
  if (is_staging_) return {};
  if (const Status failed = in_flight_.failure_of(moving.ticket); !failed.ok())
    return in_flight_failure(failed);
  work.source = put.source + cut.offset(last);
  if (!put.block) work.tensor = &moving.parts.front();
  work.bytes = cut.bytes_of(last);
  work.payload = at(work.payload, cut.offset(last));
  if (work.with_tail.address != 0) work.with_tail = at(work.with_tail, cut.offset(last));
  return {};
}

}  // namespace weft::detail
