// The ways that tensors move in the benchmarks: through weft's slots, and through bare memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/harness/stream.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Tensors of u8 in the rank's arena, one per tensor of a hand-over.
std::vector<Tensor> allocate_tensors(World& world, const Stream& stream);

/// Puts its sources into a slot of rank 1.
class Put final : public StreamSender {
 public:
  Put(World& world, const SlotSpec& spec, std::vector<Tensor> sources);
  std::byte* source(std::size_t i) override { return sources_[i].data(); }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  RemoteSlot remote_;
  std::vector<Tensor> sources_;
};

/// Waits for tensors put into its slot.
class Taken final : public StreamReceiver {
 public:
  Taken(Slot slot, const Stream& stream) : slot_(std::move(slot)), arrivals_(stream.tensors) {}
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;
  void release(std::size_t i) override { arrivals_[i].release(); }

 private:
  Slot slot_;
  std::vector<Arrival> arrivals_;
};

/// Publishes each tensor of a hand-over in a slot of its own.
class Published final : public StreamSender {
 public:
  Published(World& world, const Stream& stream);
  std::byte* source(std::size_t i) override;
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  std::vector<PublishedSlot> slots_;
};

/// Gets the tensors published by rank 0 into tensors of its own.
class Got final : public StreamReceiver {
 public:
  Got(World& world, const Stream& stream, std::vector<Tensor> into);
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  std::vector<PublishedReader> remotes_;
  std::vector<Tensor> into_;
};

/// Views the tensors published by rank 0 in place.
class Viewed final : public StreamReceiver {
 public:
  Viewed(World& world, const Stream& stream);
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;
  void release(std::size_t i) override { views_[i].release(); }

 private:
  std::vector<PublishedReader> remotes_;
  std::vector<Arrival> views_;
};

/// Shared memory for a stream's bare copies. Each way has memory of its own: streamed stores evict
/// theirs from the cache, which would slow the next way down.
inline std::size_t copy_out_bytes(const Stream& stream) {
  return std::size(kCopies) * stream.tensors * stream.size;
}

/// Limit: copies its sources into the variant's part of the shared memory and raises a flag. The
/// partner is a BareSeen of that variant.
class BareCopyOut final : public StreamSender {
 public:
  BareCopyOut(const SharedMemory& bare, std::vector<Tensor> sources, std::uint32_t variant)
      : bare_(bare), sources_(std::move(sources)), variant_(variant) {}
  std::byte* source(std::size_t i) override { return sources_[i].data(); }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  std::vector<Tensor> sources_;
  std::uint32_t variant_;
};

/// Limit: raises a flag for data that was written directly into the shared memory.
class BareTold final : public StreamSender {
 public:
  BareTold(const SharedMemory& bare, const Stream& stream) : bare_(bare), size_(stream.size) {}
  std::byte* source(std::size_t i) override { return bare_.data() + i * size_; }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  std::size_t size_;
};

/// Limit: waits for the flag. The tensor lies in the variant's part of the shared memory.
class BareSeen final : public StreamReceiver {
 public:
  BareSeen(const SharedMemory& bare, const Stream& stream, std::uint32_t variant = kLimit)
      : bare_(bare), size_(stream.size), first_((variant - kLimit) * stream.tensors) {}
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  std::size_t size_;
  std::size_t first_;
};

/// Limit: waits for the flag and copies the data out of the shared memory.
class BareCopyIn final : public StreamReceiver {
 public:
  BareCopyIn(const SharedMemory& bare, const Stream& stream, std::vector<Tensor> into,
             std::uint32_t variant)
      : seen_(bare, stream), into_(std::move(into)), variant_(variant) {}
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  BareSeen seen_;
  std::vector<Tensor> into_;
  std::uint32_t variant_;
};

}  // namespace weft::bench
