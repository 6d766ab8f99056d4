// The part of a path that moves memory which its users adopted: copied by the kernel.
#include "base/fail.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/transport/shm/shm_channel.hpp"

#include <fmt/format.h>

namespace weft::p2p {
namespace {

Status given_back(std::uint32_t chunk) noexcept {
  return refuse(Code::closed, [&] {
    return ErrorDetail{.code = Code::closed,
                       .operation = "adopted",
                       .message = fmt::format(
                           "the peer has given the adopted memory {:#x} back to its user", chunk),
                       .hint = "the owner must keep the tensor until it was used"};
  });
}

}  // namespace

bool ShmChannel::find_reach(pid_t process, int pidfd, std::uint64_t probe, bool allowed) {
  same_process_ = process == ::getpid();
  const CrossMemory memory(process, pidfd);
  std::uint64_t word = 0;
  if (!allowed || !memory.read(reinterpret_cast<std::byte*>(&word), probe, sizeof word).ok() ||
      word != kProbe)
    return false;
  reaches_.emplace(memory);
  return true;
}

void ShmChannel::share_adopted(std::uint32_t chunk) {
  const auto region = local_.adopted->region(chunk);
  if (!region) return;
  export_region(region->alive.chunk);
  counters().control_messages.add(1);
  link_.send(AdoptedMessage{.chunk = chunk,
                            .address = reinterpret_cast<std::uint64_t>(region->data),
                            .bytes = region->bytes,
                            .alive_offset = region->alive.offset,
                            .alive_chunk = region->alive.chunk});
}

void ShmChannel::unshare(std::uint32_t chunk) {
  if (shared_.erase(chunk) == 0) return;
  counters().control_messages.add(1);
  link_.send(ForgetMessage{.chunk = chunk});
}

void ShmChannel::add_adopted(const AdoptedMessage& region) {
  const auto alive = resolve({region.alive_chunk, region.alive_offset, sizeof(std::uint64_t)});
  if (sort_of_chunk(region.chunk) != ArenaSort::adopted || !alive.ok() ||
      sort_of_chunk(region.alive_chunk) != ArenaSort::control ||
      region.alive_offset % sizeof(std::uint64_t) != 0)
    return;
  counters().registrations.add(1);
  const std::lock_guard lock(mutex_);
  adopted_[region.chunk] = {region.address, region.bytes,
                            reinterpret_cast<const std::atomic<std::uint64_t>*>(map(*alive))};
}

void ShmChannel::forget_adopted(std::uint32_t chunk) noexcept {
  const std::lock_guard lock(mutex_);
  adopted_.erase(chunk);
}

std::optional<ShmChannel::Adopted> ShmChannel::adopted(std::uint32_t chunk) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = adopted_.find(chunk);
  if (found == adopted_.end()) return std::nullopt;
  return found->second;
}

Result<RemoteMemory> ShmChannel::resolve_adopted(const MemoryRef& ref) noexcept {
  const auto region = adopted(ref.chunk);
  if (!region)
    return refuse(Code::unreachable, [&] {
      return ErrorDetail{
          .code = Code::unreachable,
          .operation = "resolve",
          .message = fmt::format("the peer named its adopted memory {:#x}, which is not known here "
                                 "yet",
                                 ref.chunk)};
    });
  if (ref.offset > region->bytes || ref.bytes > region->bytes - ref.offset || !reaches_)
    return refuse(Code::system, [&] {
      return ErrorDetail{
          .code = Code::system,
          .operation = "resolve",
          .message = fmt::format("the peer named {} bytes at {} of its adopted memory {:#x}, which "
                                 "can't be reached",
                                 ref.bytes, ref.offset, ref.chunk)};
    });
  return RemoteMemory{region->address + ref.offset, same_process_ ? 0 : ref.chunk};
}

Status ShmChannel::put_across(const PutWork& work) noexcept {
  const auto region = adopted(work.payload.key);
  if (!region || !reaches_) return given_back(work.payload.key);
  const Status status = work.parts.empty()
                            ? reaches_->write(work.payload.address, work.source, work.bytes)
                            : reaches_->write(work.payload.address, work.parts);
  if (!status.ok()) return status;
  put_word(work.sequence_word, work.sequence, Notify::always);
  return {};
}

Status ShmChannel::get_across(const GetWork& piece) noexcept {
  const RemoteMemory from = piece.from;
  const auto region = adopted(from.key);
  if (!region || !reaches_) return given_back(from.key);
  const Status status = reaches_->read(piece.to, from.address, piece.bytes);
  if (!status.ok()) return status;
  // It was whole if it was still the user's loan when the last byte had been read.
  full_barrier();
  if (region->alive->load(std::memory_order_acquire) != AdoptedRegion::alive_value(from.key))
    return given_back(from.key);
  return {};
}

}  // namespace weft::p2p
