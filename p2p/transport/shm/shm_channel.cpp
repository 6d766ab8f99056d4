#include "p2p/transport/shm/shm_channel.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>

#include "base/fail.hpp"
#include "base/kernels/copy.hpp"
#include "base/stop_point.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/shm/shm_messages.hpp"

namespace weft::p2p {
namespace {

// Too small for the choice of a kernel to matter.
constexpr std::size_t kDirectBytes = 64;

constexpr std::size_t kStreamRunBytes = 64u << 10;

constexpr std::size_t kGetStreamBytes = 16u << 20;

// Bytes of a waiting put that are copied at a time: some milliseconds.
constexpr std::size_t kPieceBytes = 16u << 20;

// For a descriptor that had no room.
constexpr auto kAskAgain = std::chrono::milliseconds(100);

// More chunks than a rank has; a hostile one may name any number.
constexpr std::size_t kMostLacking = 4096;

constexpr std::uint32_t kFirstControlChunk = static_cast<std::uint32_t>(ArenaSort::control) << 24;

std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

std::byte* pointer(RemoteMemory memory) noexcept {
  return reinterpret_cast<std::byte*>(memory.address);  // NOLINT: an address is what it holds
}

std::atomic<std::uint64_t>& word_at(RemoteMemory memory) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(pointer(memory));
}

}  // namespace

ShmChannel::ShmChannel(LocalRank& local, Link& link, std::shared_ptr<os::Mapping> control,
                       std::uint64_t bell_offset, os::Fd bell_event, bool ring_needs_fence)
    : Channel(FabricKind::shm, local.stats->path(link.rank).counters),
      ring_needs_fence_(ring_needs_fence),
      bell_(reinterpret_cast<Doorbell*>(control->data() + bell_offset)),
      bell_event_(std::move(bell_event)),
      local_(local),
      link_(link) {
  capabilities_.copies = true;
  shared_.insert(local.bell_block().chunk);  // the connect message carried it
  add_chunk(kFirstControlChunk, std::move(control));
}

void ShmChannel::add_chunk(std::uint32_t chunk, std::shared_ptr<os::Mapping> mapping) {
  counters().registrations.add(1);
  const std::lock_guard lock(mutex_);
  chunks_.try_emplace(chunk, std::move(mapping));  // a chunk is never another
  lacking_.erase(chunk);
}

void ShmChannel::lacks_chunk(std::uint32_t chunk, std::uint64_t bytes, os::Fd descriptor,
                             Status why) {
  const std::lock_guard lock(mutex_);
  if (lacking_.size() >= kMostLacking || chunks_.contains(chunk)) return;
  lacking_[chunk] = {.bytes = bytes,
                     .descriptor = std::move(descriptor),
                     .why = std::move(why),
                     .ask_again = Deadline::after(kAskAgain)};
}

void ShmChannel::try_again(std::uint32_t chunk, Lacking& lacking) noexcept {
  try {
    if (lacking.descriptor) {
      chunks_.try_emplace(chunk,
                          local_.mapper->map(lacking.descriptor, lacking.bytes, access_to(chunk)));
      lacking_.erase(chunk);
    } else if (lacking.ask_again.passed()) {
      lacking.ask_again = Deadline::after(kAskAgain);
      local_.progress.post([this, chunk] { link_.send(ChunkAgainMessage{.chunk = chunk}); });
    }
  } catch (const std::exception&) {
    // It is still as it was.
  }
}

void ShmChannel::share_again(std::uint32_t chunk) {
  // A peer that asks on and on, and takes nothing, gets it once.
  if (sort_of_chunk(chunk) == ArenaSort::adopted || !link_.has_sent_all()) return;
  if (shared_.erase(chunk) != 0) (void)export_region(chunk);
}

void ShmChannel::send(std::span<const std::byte> message) {
  counters().control_messages.add(1);
  link_.send(message);
}

bool ShmChannel::export_device_chunk(std::uint32_t chunk) {
  if (shared_.contains(chunk)) return true;
  const auto exported = local_.gpus == nullptr ? std::nullopt : local_.gpus->exported(chunk);
  if (!exported) return false;
  shared_.insert(chunk);
  if (const auto told = local_.gpus->chunk(chunk)) local_.gpus->quarantine.tell(link_.rank, *told);
  const int fd = local_.gpus->descriptor_of(chunk);
  local_.recorder.control(stats::Event::chunk_shared, link_.rank, 0, chunk);
  counters().control_messages.add(1);
  link_.send(DeviceChunkMessage{.chunk = chunk, .exported = *exported}, std::span(&fd, 1));
  return true;
}

bool ShmChannel::export_region(std::uint32_t chunk) {
  if (sort_of_chunk(chunk) == ArenaSort::device) return export_device_chunk(chunk);
  if (!shared_.insert(chunk).second) return true;
  if (sort_of_chunk(chunk) == ArenaSort::adopted) {
    share_adopted(chunk);
    return true;
  }
  const Arena& arena = *local_.arena_of(chunk);
  const int fd = arena.chunk_fd(chunk).get();
  local_.recorder.control(stats::Event::chunk_shared, link_.rank, 0, chunk);
  counters().control_messages.add(1);
  link_.send(ChunkMessage{.chunk = chunk, .bytes = arena.chunk_bytes(chunk)}, std::span(&fd, 1));
  return true;
}

Result<RemoteMemory> ShmChannel::resolve(const MemoryRef& ref) noexcept {
  if (sort_of_chunk(ref.chunk) == ArenaSort::adopted) return resolve_adopted(ref);
  const std::lock_guard lock(mutex_);
  auto found = chunks_.find(ref.chunk);
  if (const auto lacking = lacking_.find(ref.chunk); lacking != lacking_.end()) {
    const Status why = lacking->second.why;
    try_again(ref.chunk, lacking->second);
    found = chunks_.find(ref.chunk);
    if (found == chunks_.end()) return why;
  }
  if (found == chunks_.end())
    return refuse(Code::unreachable, [&] {
      return ErrorDetail{.operation = "resolve",
                         .message = fmt::format("rank {} named its chunk {:#x}, which is not "
                                                "known here yet",
                                                link_.rank, ref.chunk),
                         .peer = link_.rank};
    });
  if (ref.offset > found->second->bytes() || ref.bytes > found->second->bytes() - ref.offset)
    return refuse(Code::system, [&] {
      return ErrorDetail{.operation = "resolve",
                         .message = fmt::format("rank {} named {} bytes at {} of its chunk "
                                                "{:#x}, which are not mapped here",
                                                link_.rank, ref.bytes, ref.offset, ref.chunk),
                         .peer = link_.rank};
    });
  return RemoteMemory{reinterpret_cast<std::uint64_t>(found->second->data() + ref.offset), 0};
}

std::shared_ptr<os::Mapping> ShmChannel::mapping_of(std::uint32_t chunk) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() ? nullptr : found->second;
}

void ShmChannel::notify() noexcept {
  if (ring_needs_fence_)
    full_barrier();
  else
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the sleeper brings the barrier
  if (bell_->wanted()) [[unlikely]]
    ring();
}

void ShmChannel::ring() noexcept {
  if (!bell_->ring()) return;
  const std::uint64_t one = 1;
  (void)!::write(bell_event_.get(), &one, sizeof one);
}

Status ShmChannel::put(PutWork& work) noexcept {
  if (work.payload.key != 0) [[unlikely]]
    return put_across(work);
  if (!work.parts.empty()) [[unlikely]]
    gather(work);
  else if (work.bytes == sizeof(std::uint64_t))
    std::memcpy(pointer(work.payload), work.source, sizeof(std::uint64_t));
  else if (work.bytes <= kDirectBytes)
    std::memcpy(pointer(work.payload), work.source, work.bytes);
  else if (!copy(work)) [[unlikely]]
    return Status(ErrorDetail{.code = Code::exhausted});
  word_at(work.sequence_word).store(work.sequence, std::memory_order_release);
  notify();
  return {};
}

void ShmChannel::gather(const PutWork& work) const noexcept {
  const std::size_t stream_bytes = kernels::default_stream_bytes();
  std::byte* to = pointer(work.payload);
  for (const Tensor& part : work.parts)
    for_each_run(part, [&](const std::byte* from, std::size_t bytes) {
      // A short run past the cache costs a fence each time.
      if (work.bytes >= stream_bytes && bytes >= kStreamRunBytes)
        kernels::copy_streamed(to, from, bytes);
      else
        std::memcpy(to, from, bytes);
      to += bytes;
    });
}

namespace {

/// Copies in pieces, where a test wants to stop inside.
void copy_with_stops(const char* loop, std::byte* to, const std::byte* from,
                     std::size_t bytes) noexcept {
  constexpr std::size_t kPiece = 256u << 10;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    pass_stop_point(loop, at / kPiece);
    kernels::copy_cached(to + at, from + at, std::min(kPiece, bytes - at));
  }
}

}  // namespace

bool ShmChannel::copy(PutWork& work) noexcept {
  if (has_stop_point()) [[unlikely]] {
    copy_with_stops("put", pointer(work.payload), work.source, work.bytes);
    return true;
  }
  if (work.by_and_by && work.bytes > kPieceBytes) [[unlikely]]
    return copy_next_piece(work);
  std::byte* to = pointer(work.payload);
  if (work.bytes < kernels::default_stream_bytes()) {
    kernels::copy_cached(to, work.source, work.bytes);
    return true;
  }
  const CopyChoices::Choice choice = copy_choices_.of(work.stream, work.depth);
  const std::uint64_t start = choice.wants_time ? ticks() : 0;
  if (choice.streams)
    kernels::copy_streamed(to, work.source, work.bytes);
  else
    kernels::copy_cached(to, work.source, work.bytes);
  copy_choices_.done(work.stream, work.depth, choice.wants_time ? ticks() - start : 0);
  return true;
}

bool ShmChannel::copy_next_piece(PutWork& work) noexcept {
  std::byte* const to = pointer(work.payload) + work.done;
  const std::byte* const from = work.source + work.done;
  const std::size_t bytes = std::min(work.bytes - work.done, kPieceBytes);
  if (copy_choices_.of(work.stream, work.depth).streams)
    kernels::copy_streamed(to, from, bytes);
  else
    kernels::copy_cached(to, from, bytes);
  work.done += bytes;
  return work.done == work.bytes;
}

void ShmChannel::get(Get& get) noexcept {
  get.engine = nullptr;
  get.end = copy(get.pieces);
}

Status ShmChannel::copy(std::span<const GetWork> pieces) noexcept {
  for (const GetWork& piece : pieces) {
    if (piece.from.key != 0) [[unlikely]] {
      const Status status = get_across(piece);
      if (!status.ok()) return status;
      continue;
    }
    // The caller is about to read the tensor: it may stay in the cache if it fits.
    if (has_stop_point()) [[unlikely]]
      copy_with_stops("get", piece.to, pointer(piece.from), piece.bytes);
    else
      kernels::copy(piece.to, pointer(piece.from), piece.bytes, kGetStreamBytes);
    load_barrier();
  }
  return {};
}

void ShmChannel::put_word(RemoteMemory word, std::uint64_t value, Notify) noexcept {
  word_at(word).store(value, std::memory_order_release);
  notify();
}

std::byte* ShmChannel::map(RemoteMemory memory) noexcept {
  return memory.key == 0 ? pointer(memory) : nullptr;
}

}  // namespace weft::p2p
