#include "benchmarks/limits/bare_collective.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/kernels/combine.hpp"
#include "base/kernels/copy.hpp"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEFT_BENCH_VECTORISED __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WEFT_BENCH_VECTORISED
#endif

namespace weft::bench {
namespace {

constexpr std::size_t kPage = 2 << 20;

std::size_t rounded(std::size_t bytes, std::size_t to) noexcept {
  return (bytes + to - 1) / to * to;
}

WEFT_BENCH_VECTORISED
void add_into_both(float* to, float* too, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    to[i] = sum;
    too[i] = sum;
  }
}

WEFT_BENCH_VECTORISED
void add(float* to, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

float* floats(std::byte* data) noexcept { return reinterpret_cast<float*>(data); }
const float* floats(const std::byte* data) noexcept { return reinterpret_cast<const float*>(data); }

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool streamed) {
  streamed ? kernels::copy_streamed(to, from, bytes) : kernels::copy_cached(to, from, bytes);
}

/// Small tensors: every rank gets every input in one hop.
void run_small(std::string_view name, BareTensors& t, std::size_t elements) {
  const CollectiveShape shape = shape_of(name, elements, t.size());
  const std::size_t part = elements / static_cast<std::size_t>(t.size());
  std::byte* out = t.out(t.rank());
  t.give(t.in(t.rank()), shape.in * sizeof(float));
  for (int r = 0; r < t.size(); ++r) t.await_given(r);
  for (int r = 0; r < t.size(); ++r) {
    const auto at = static_cast<std::size_t>(r) * part;
    const auto own = static_cast<std::size_t>(t.rank()) * part;
    if (name == kAllGather)
      std::memcpy(floats(out) + at, t.given(r), part * sizeof(float));
    else if (name == kAllToAll)
      std::memcpy(floats(out) + at, floats(t.given(r)) + own, part * sizeof(float));
    else if (name == kReduceScatter && r > 0)
      add(floats(out), r == 1 ? floats(t.given(0)) + own : floats(out), floats(t.given(r)) + own,
          part);
    else if (name == kAllReduce && r > 0)
      add(floats(out), r == 1 ? floats(t.given(0)) : floats(out), floats(t.given(r)), elements);
  }
}

/// Reduces a rank's share of all_reduce into every rank's result.
void reduce_share(BareTensors& t, std::size_t elements, bool streamed) {
  const std::size_t share = rounded(elements / static_cast<std::size_t>(t.size()), 16);
  const std::size_t first = std::min(elements, share * static_cast<std::size_t>(t.rank()));
  const std::size_t count =
      t.rank() + 1 == t.size() ? elements - first : std::min(share, elements - first);
  const auto in = [&](int r) { return floats(t.in(r)) + first; };
  const auto out = [&](int r) { return floats(t.out(r)) + first; };
  if (t.size() == 2) {
    const auto sum = kernels::combine_streamed_for(DType::f32, kernels::Combination::sum);
    if (!streamed || sum == nullptr)
      return add_into_both(out(t.rank()), out(1 - t.rank()), in(0), in(1), count);
    sum(t.out(t.rank()) + first * sizeof(float), t.out(1 - t.rank()) + first * sizeof(float),
        t.in(0) + first * sizeof(float), t.in(1) + first * sizeof(float), count);
    return kernels::stream_fence();
  }
  constexpr std::size_t kBlock = 2048;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t some = std::min(kBlock, count - at);
    float* own = out(t.rank()) + at;
    add(own, in(0) + at, in(1) + at, some);
    for (int r = 2; r < t.size(); ++r) add(own, own, in(r) + at, some);
    for (int r = 0; r < t.size(); ++r)
      if (r != t.rank()) std::memcpy(out(r) + at, own, some * sizeof(float));
  }
}

}  // namespace

BareTensors::BareTensors(World& world, const SharedMemory& meeting, std::size_t in_bytes,
                         std::size_t out_bytes)
    : rank_(world.rank()),
      size_(world.size()),
      in_bytes_(rounded(in_bytes, 64)),
      stride_(rounded(sizeof(Head) + in_bytes_ + rounded(out_bytes, 64), kPage)),
      idle_(meeting.idle()) {
  const std::size_t bytes = stride_ * static_cast<std::size_t>(size_);
  FlagLine& place = meeting.flags().place;
  int fd = -1;
  if (rank_ == 0) {
    fd = ::memfd_create("bench", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("no memory for the limit");
    place.payload[0] = static_cast<std::uint64_t>(::getpid());
    place.payload[1] = static_cast<std::uint64_t>(fd);
    raise_to(place, place.sequence.load() + 1);
    await_all(meeting.partners(), &FlagArea::place, place.sequence.load(), idle_);
  } else {
    const FlagLine& theirs = meeting.their_flags().place;
    const std::uint64_t next = place.sequence.load() + 1;
    await(theirs, next, idle_);
    const std::string path =
        "/proc/" + std::to_string(theirs.payload[0]) + "/fd/" + std::to_string(theirs.payload[1]);
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    raise_to(place, next);
    if (fd < 0) throw std::runtime_error("can't open " + path);
  }
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) throw std::runtime_error("can't map the limit's memory");
  memory_ = static_cast<std::byte*>(mapped);
  ::madvise(memory_, bytes, MADV_HUGEPAGE);
  std::memset(in(rank_), 0, stride_ - sizeof(Head));
}

BareTensors::~BareTensors() { ::munmap(memory_, stride_ * static_cast<std::size_t>(size_)); }

void BareTensors::pass(FlagLine Head::*line) noexcept {
  const std::uint64_t number = ++passed_[line == &Head::entered ? 0 : 1];
  raise_to(head(rank_).*line, number);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) await(head(r).*line, number, idle_);
}

void BareTensors::give(const std::byte* data, std::size_t bytes) noexcept {
  Entry& entry = head(rank_).entries[++given_ % 2];
  std::memcpy(entry.payload, data, bytes);
  entry.sequence.store(given_, std::memory_order_release);
}

const std::byte* BareTensors::given(int rank) const noexcept {
  return head(rank).entries[given_ % 2].payload;
}

void BareTensors::await_given(int rank) noexcept {
  const Entry& entry = head(rank).entries[given_ % 2];
  for (unsigned polls = 0; entry.sequence.load(std::memory_order_acquire) < given_;)
    if (++polls % idle_.polls == 0) idle_.act();
}

void run_bare(std::string_view name, BareTensors& t, std::size_t elements, bool streamed) {
  if (name == kBarrier) return t.enter();
  const CollectiveShape shape = shape_of(name, elements, t.size());
  // Entries alternate between two: without answers from all ranks, a broadcast's root would run
  // ahead.
  if (name != kBroadcast && shape.in * sizeof(float) + 8 <= BareTensors::kPayload)
    return run_small(name, t, elements);
  t.enter();
  const std::size_t part = elements / static_cast<std::size_t>(t.size());
  const auto own = static_cast<std::size_t>(t.rank()) * part;
  std::byte* out = t.out(t.rank());
  if (name == kBroadcast) {
    if (t.rank() != 0) copy(out, t.in(0), elements * sizeof(float), streamed);
  } else if (name == kAllReduce) {
    reduce_share(t, elements, streamed);
  } else if (name == kReduceScatter) {
    add(floats(out), floats(t.in(0)) + own, floats(t.in(1 % t.size())) + own, part);
    for (int r = 2; r < t.size(); ++r) add(floats(out), floats(out), floats(t.in(r)) + own, part);
  } else {
    for (int i = 0; i < t.size(); ++i) {
      const int r = (t.rank() + i) % t.size();
      const std::byte* from = t.in(r) + (name == kAllToAll ? own * sizeof(float) : 0);
      copy(out + static_cast<std::size_t>(r) * part * sizeof(float), from, part * sizeof(float),
           streamed);
    }
  }
  t.leave();
}

}  // namespace weft::bench
