// The ways that tensors take in the benchmarks: through weft's slots, and through bare memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/harness/stream.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Tensors of u8 in the rank's arena, one for each of a hand-over's.
std::vector<Tensor> allocate_tensors(World& world, const Stream& stream);

/// Puts its sources into a slot of rank 1's.
class Put final : public StreamSender {
 public:
  Put(World& world, const SlotSpec& spec, std::vector<Tensor> sources);
  std::byte* source(std::size_t i) override { return sources_[i].data(); }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  RemoteSlot remote_;
  std::vector<Tensor> sources_;
};

/// Waits for what is put into its slot.
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

/// Gets what rank 0 publishes into tensors of its own.
class Got final : public StreamReceiver {
 public:
  Got(World& world, const Stream& stream, std::vector<Tensor> into);
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  std::vector<PublishedReader> remotes_;
  std::vector<Tensor> into_;
};

/// Views what rank 0 publishes where it lies.
class Viewed final : public StreamReceiver {
 public:
  Viewed(World& world, const Stream& stream);
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;
  void release(std::size_t i) override { views_[i].release(); }

 private:
  std::vector<PublishedReader> remotes_;
  std::vector<Arrival> views_;
};

/// What a stream's bare copies into shared memory need of it. Each way has room of its own:
/// streamed stores put theirs out of the cache, and who came next would pay for that.
inline std::size_t copy_out_bytes(const Stream& stream) {
  return std::size(kCopies) * stream.tensors * stream.size;
}

/// Limit: copies its sources into the variant's room in the shared memory and raises a flag. Its
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

/// Limit: tells by a flag of what was written into the shared memory itself.
class BareTold final : public StreamSender {
 public:
  BareTold(const SharedMemory& bare, const Stream& stream) : bare_(bare), size_(stream.size) {}
  std::byte* source(std::size_t i) override { return bare_.data() + i * size_; }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  std::size_t size_;
};

/// Limit: sees the flag. The tensor lies in the shared memory, in the variant's room.
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

/// Limit: sees the flag and copies out of the shared memory.
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
