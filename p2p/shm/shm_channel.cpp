#include "p2p/shm/shm_channel.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/kernels/copy.hpp"
#include "p2p/barrier.hpp"

namespace weft::p2p {
namespace {

// Too small for the choice of a kernel to matter.
constexpr std::size_t kDirectBytes = 64;

std::byte* pointer(RemoteMemory memory) noexcept {
  return reinterpret_cast<std::byte*>(memory.address);  // NOLINT: an address is what it holds
}

std::atomic<std::uint64_t>& word_at(RemoteMemory memory) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(pointer(memory));
}

}  // namespace

ShmChannel::ShmChannel(std::size_t stream_bytes, std::uint32_t control_chunk,
                       std::shared_ptr<os::Mapping> control, std::uint64_t bell_offset,
                       os::Fd bell_event)
    : stream_bytes_(stream_bytes),
      bell_(reinterpret_cast<Doorbell*>(control->data() + bell_offset)),
      bell_event_(std::move(bell_event)) {
  add_chunk(control_chunk, std::move(control));
}

void ShmChannel::add_chunk(std::uint32_t chunk, std::shared_ptr<os::Mapping> mapping) {
  chunks_[chunk] = std::move(mapping);
}

Result<RemoteMemory> ShmChannel::resolve(const MemoryRef& ref) noexcept {
  const auto found = chunks_.find(ref.chunk);
  if (found == chunks_.end() || ref.offset > found->second->bytes() ||
      ref.bytes > found->second->bytes() - ref.offset)
    return Status(ErrorDetail{.code = Code::system,
                              .operation = "resolve",
                              .message = fmt::format("the peer named {} bytes at {} of its chunk "
                                                     "{:#x}, which are not mapped here",
                                                     ref.bytes, ref.offset, ref.chunk)});
  return RemoteMemory{reinterpret_cast<std::uint64_t>(found->second->data() + ref.offset), 0};
}

Status ShmChannel::put(const PutWork& work) noexcept {
  if (work.bytes <= kDirectBytes)
    std::memcpy(pointer(work.payload), work.source, work.bytes);
  else
    kernels::copy(pointer(work.payload), work.source, work.bytes, stream_bytes_);
  word_at(work.sequence_word).store(work.sequence, std::memory_order_release);
  notify();
  return {};
}

Status ShmChannel::get(std::byte* to, RemoteMemory from, std::size_t bytes) noexcept {
  kernels::copy(to, pointer(from), bytes, stream_bytes_);
  return {};
}

void ShmChannel::write_word(RemoteMemory word, std::uint64_t value) noexcept {
  word_at(word).store(value, std::memory_order_release);
  notify();
}

void ShmChannel::notify() noexcept {
  full_barrier();
  if (!bell_->wanted()) return;
  if (!bell_->ring()) return;
  const std::uint64_t one = 1;
  (void)!::write(bell_event_.get(), &one, sizeof one);
}

std::byte* ShmChannel::direct(RemoteMemory memory) noexcept { return pointer(memory); }

FabricVerdict shm_reaches(const RankAddress& self, const RankAddress& peer) {
  if (self.host_id != peer.host_id)
    return {"shm", false,
            fmt::format("host {} and host {} are different machines or namespaces",
                        self.host.data(), peer.host.data())};
  if (self.uid != peer.uid)
    return {"shm", false,
            fmt::format("user {} here, user {} there: memory is shared within one user only",
                        self.uid, peer.uid)};
  return {"shm", true, "same host: one boot, one network and pid namespace"};
}

}  // namespace weft::p2p
