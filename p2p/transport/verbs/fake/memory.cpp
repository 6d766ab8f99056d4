#include "p2p/transport/verbs/fake/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace weft::p2p::verbs::fake {
namespace {

bool covers(const FakeMr& region, std::uint64_t address, std::uint64_t length, int access) {
  const auto begin = reinterpret_cast<std::uint64_t>(region.addr);
  return (region.access & access) == access && address >= begin && length <= region.length &&
         address - begin <= region.length - length;
}

// Memory may be overwritten during a READ: the reader proves by a word before and one after it
// that it was not. ThreadSanitizer can't know of that.
template <typename Word>
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) Word load_unproved(
    std::uint64_t from) noexcept {
  return *reinterpret_cast<const volatile Word*>(from);
}

template <typename Word>
void read_one(std::uint64_t to, std::uint64_t from) noexcept {
  Word value{};
  if (from % sizeof(Word) == 0)
    value = load_unproved<Word>(from);
  else
    std::memcpy(&value, reinterpret_cast<const void*>(from), sizeof value);
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(to)).store(value, std::memory_order_release);
}

void read_words(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept {
  const std::uint64_t end = to + bytes;
  for (; to < end && to % 8 != 0; ++to, ++from) read_one<std::uint8_t>(to, from);
  for (; end - to >= 8; to += 8, from += 8) read_one<std::uint64_t>(to, from);
  for (; to < end; ++to, ++from) read_one<std::uint8_t>(to, from);
}

template <typename Word>
void copy_one(std::uint64_t to, std::uint64_t from) noexcept {
  auto& target = *reinterpret_cast<Word*>(to);
  Word value{};
  // An unaligned range is no word that a thread sets while it is lent.
  if (from % sizeof(Word) == 0)
    value = std::atomic_ref<Word>(*reinterpret_cast<Word*>(from)).load(std::memory_order_acquire);
  else
    std::memcpy(&value, reinterpret_cast<const void*>(from), sizeof value);
  std::atomic_ref<Word>(target).store(value, std::memory_order_release);
}

// By `copy`, or by way of host memory where a GPU's is at either end.
template <typename Copy>
void copy_by(GpuMemory* gpus, std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
             const Copy& copy) {
  const bool reads_gpu = gpus != nullptr && gpus->has(from, bytes);
  const bool writes_gpu = gpus != nullptr && gpus->has(to, bytes);
  if (!reads_gpu && !writes_gpu) return copy(to, from, bytes);
  std::vector<std::byte> between(bytes);
  const auto place = reinterpret_cast<std::uint64_t>(between.data());
  if (reads_gpu)
    gpus->read(between.data(), from, bytes);
  else
    copy(place, from, bytes);
  if (writes_gpu)
    gpus->write(to, between.data(), bytes);
  else
    copy(to, place, bytes);
}

// Calls part(address, offset, length) for each stretch of the pieces within [begin, end).
template <typename Part>
void each_stretch(const std::vector<FakeSge>& pieces, std::uint64_t begin, std::uint64_t end,
                  const Part& part) {
  std::uint64_t offset = 0;
  for (const FakeSge& piece : pieces) {
    const std::uint64_t first = std::max(begin, offset);
    const std::uint64_t last = std::min(end, offset + piece.length);
    if (first < last) part(piece.address + (first - offset), first, last - first);
    offset += piece.length;
  }
}

}  // namespace

bool may_use(const FakeNic& nic, const ibv_pd* domain, const FakeSge& piece, int access) {
  if (piece.length == 0) return true;
  const auto found = nic.regions.find(piece.lkey);
  return found != nic.regions.end() && found->second->pd == domain &&
         covers(*found->second, piece.address, piece.length, access);
}

bool peer_may_use(const FakeQp& qp, std::uint64_t address, std::uint64_t length, std::uint32_t key,
                  int access) {
  if ((static_cast<int>(qp.attributes.qp_access_flags) & access) != access) return false;
  if (length == 0) return true;
  const auto found = qp.nic->remote_keys.find(key);
  return found != qp.nic->remote_keys.end() && found->second->pd == qp.pd &&
         covers(*found->second, address, length, access);
}

void copy_words(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept {
  const std::uint64_t end = to + bytes;
  for (; to < end && to % 8 != 0; ++to, ++from) copy_one<std::uint8_t>(to, from);
  for (; end - to >= 8; to += 8, from += 8) copy_one<std::uint64_t>(to, from);
  for (; to < end; ++to, ++from) copy_one<std::uint8_t>(to, from);
}

void copy_between(GpuMemory* gpus, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  copy_by(gpus, to, from, bytes, copy_words);
}

void copy_payload(GpuMemory* gpus, const Send& send, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t remote = send.request.wr.rdma.remote_addr;
  if (!send.inlined.empty()) {
    copy_between(gpus, remote + begin, reinterpret_cast<std::uint64_t>(send.inlined.data()) + begin,
                 end - begin);
    return;
  }
  const bool reads = send.request.opcode == IBV_WR_RDMA_READ;
  each_stretch(send.pieces, begin, end,
               [&](std::uint64_t address, std::uint64_t offset, std::uint64_t length) {
                 if (reads)
                   copy_by(gpus, address, remote + offset, length, read_words);
                 else
                   copy_between(gpus, remote + offset, address, length);
               });
}

void copy_to_receive(const Send& send, const Receive& receive) noexcept {
  const auto place = [&](std::uint64_t from, std::uint64_t begin, std::uint64_t length) {
    each_stretch(receive.pieces, begin, begin + length,
                 [&](std::uint64_t to, std::uint64_t offset, std::uint64_t bytes) {
                   copy_words(to, from + (offset - begin), bytes);
                 });
  };
  if (!send.inlined.empty())
    place(reinterpret_cast<std::uint64_t>(send.inlined.data()), 0, send.length);
  else
    each_stretch(send.pieces, 0, send.length, place);
}

}  // namespace weft::p2p::verbs::fake
