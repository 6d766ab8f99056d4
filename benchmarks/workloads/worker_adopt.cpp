// Tensors put from and into adopted memory of the application, against the kernel's copy between
// processes.
#include <cstdlib>
#include <cstring>
#include <new>

#include "benchmarks/harness/stream.hpp"
#include "benchmarks/limits/kernel_copy.hpp"
#include "benchmarks/workloads/ways.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

/// The memory that a row moves between: the world's arena, or adopted memory.
struct Ends {
  std::string_view kind;
  bool adopted_source;
  bool adopted_target;
  Placement placement;
};
constexpr Ends kEnds[] = {
    {"from", true, false, Placement::fixed},     // the sender copies into shared memory
    {"into", false, true, Placement::fixed},     // process_vm_writev
    {"both", true, true, Placement::fixed},      // process_vm_writev
    {"lent", true, false, Placement::dynamic}};  // process_vm_readv

constexpr std::size_t kPage = 4096;
using Ways = std::span<const std::uint32_t>;

bool uses_kernel(const Ends& ends) {
  return ends.adopted_target || ends.placement == Placement::dynamic;
}

SlotSpec spec_for(const Stream& stream, const Ends& ends) {
  return {.name = stream.name,
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(stream.size)},
          .placement = ends.placement};
}

/// Ordinary memory of this process; all its pages exist.
Tensor adopt_memory(World& world, const Stream& stream) {
  const std::size_t bytes = (stream.size + kPage - 1) / kPage * kPage;
  const std::shared_ptr<void> memory(std::aligned_alloc(kPage, bytes), std::free);
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, bytes);
  return world.adopt(memory, DType::u8, Shape{static_cast<std::int64_t>(stream.size)});
}

Tensor memory_for(World& world, const Stream& stream, bool adopted) {
  return adopted ? adopt_memory(world, stream) : allocate_tensors(world, stream).front();
}

OutgoingWays outgoing_ways(World& world, const SharedMemory& bare, const Stream& stream,
                           const Ends& ends) {
  const Tensor source = memory_for(world, stream, ends.adopted_source);
  OutgoingWays ways;
  ways.push_back(std::make_unique<Put>(world, spec_for(stream, ends), std::vector{source}));
  if (ends.placement == Placement::dynamic) {
    ways.push_back(std::make_unique<KernelCopyTold>(bare, source));
  } else if (ends.adopted_target) {
    ways.push_back(std::make_unique<KernelCopyOut>(bare, source));
  } else {
    for (const std::uint32_t variant : kCopies)
      ways.push_back(std::make_unique<BareCopyOut>(bare, std::vector{source}, variant));
  }
  return ways;
}

IncomingWays incoming_ways(World& world, const SharedMemory& bare, const Stream& stream,
                           const Ends& ends) {
  const SlotSpec spec = spec_for(stream, ends);
  const Tensor target =
      uses_kernel(ends) ? memory_for(world, stream, ends.adopted_target) : Tensor();
  IncomingWays ways;
  ways.push_back(std::make_unique<Taken>(
      ends.adopted_target ? world.expose(spec, target) : world.expose(spec), stream));
  if (ends.placement == Placement::dynamic) {
    ways.push_back(std::make_unique<KernelCopyIn>(bare, target));
  } else if (ends.adopted_target) {
    ways.push_back(std::make_unique<KernelCopySeen>(bare, target));
  } else {
    for (const std::uint32_t variant : kCopies)
      ways.push_back(std::make_unique<BareSeen>(bare, stream, variant));
  }
  return ways;
}

}  // namespace

std::vector<RunRow> measure_adopt(World& world, const RunOptions& options) {
  return for_each_size(options, [&](const Stream& all) {
    std::vector<RunRow> rows;
    for (const Ends& ends : kEnds) {
      Stream stream = all;
      stream.name += "." + std::string(ends.kind);
      const bool copies_out = world.rank() == 0 && !uses_kernel(ends);
      const SharedMemory bare(world, options, "bench." + stream.name,
                              copies_out ? copy_out_bytes(stream) : 0);
      const Kind kinds[] = {{std::string(ends.kind), false}};
      const auto more = run_stream(
          world, bare, stream, kinds, [&] { return outgoing_ways(world, bare, stream, ends); },
          [&] { return incoming_ways(world, bare, stream, ends); },
          against_limit(stream, uses_kernel(ends) ? Ways(kNoCopy) : Ways(kCopies), options));
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  });
}

}  // namespace weft::bench
