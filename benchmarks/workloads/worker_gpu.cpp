// Tensors on GPUs: copied within one, from and to host memory, and put into a slot on the other
// rank's, against bare copies.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/limits/bare_gpu.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "runtime/world/world_state.hpp"
#include "weft/message.hpp"

namespace weft::bench {
namespace {

using p2p::cuda::IpcHandle;

constexpr std::uint64_t kGpuStamp =
    1;  // of all tensors: a GPU's copy takes as long whatever it copies
constexpr std::uint64_t kHandleTag = 7;
/// Rows of the stand-in driver say nothing about a GPU, and are named so.
constexpr std::string_view kStandIn = "Stand-in";

enum class GpuRow : std::uint8_t { within, to_gpu, to_host, mapped, staged };
constexpr std::array<std::pair<GpuRow, std::string_view>, 5> kGpuRows{
    {{GpuRow::within, "within a GPU"},
     {GpuRow::to_gpu, "host to GPU"},
     {GpuRow::to_host, "GPU to host"},
     {GpuRow::mapped, "mapped put"},
     {GpuRow::staged, "staged put"}}};

Shape bytes_shape(std::size_t size) { return Shape{static_cast<std::int64_t>(size)}; }

SlotSpec gpu_spec(std::size_t size, GpuRow row, Memory memory) {
  return {.name = fmt::format("gpu.{}.{}", size, static_cast<int>(row)),
          .dtype = DType::u8,
          .shape = bytes_shape(size),
          // Within a host a dynamic slot's tensors are staged at both ends.
          .placement = row == GpuRow::staged ? Placement::dynamic : Placement::fixed,
          .memory = memory};
}

Tensor filled_tensor(World& world, std::size_t size, std::uint64_t stamp) {
  Tensor host = world.allocate(DType::u8, bytes_shape(size));
  fill(host.data(), size, stamp);
  return host;
}

void require_filled(World& world, const Tensor& tensor) {
  std::vector<std::byte> host(tensor.bytes());
  world.copy(tensor, Tensor::wrap(host.data(), DType::u8, tensor.shape()));
  require_data(holds(host.data(), host.size(), kGpuStamp), host.size(), kGpuStamp);
}

/// So that a GPU copies it by itself, as it does what was sent before.
void pin_host(World& world, const Tensor& host) {
  auto& state = WorldAccess::state(world);
  const auto at = state.local.data->locate(host.data(), host.bytes());
  state.gpus.pin(state.gpus.in_use("bench").front(), state.local.data, at.value().chunk);
}

/// How the puts of a slot go, as this end reports it.
EdgeReport gpu_edge(const World& world, const std::string& slot) {
  for (const EdgeReport& edge : world.report().edges)
    if (edge.slot == slot) return edge;
  throw std::runtime_error("the report has no edge for " + slot);
}

class GpuLeader {
 public:
  GpuLeader(World& world, std::size_t size)
      : world_(world),
        size_(size),
        from_(world.allocate(DType::u8, bytes_shape(size), Memory::gpu())),
        to_(world.allocate(DType::u8, bytes_shape(size), Memory::gpu())),
        host_(filled_tensor(world, size, kGpuStamp)),
        back_(world.allocate(DType::u8, bytes_shape(size))),
        mapped_(world.attach(1, gpu_spec(size, GpuRow::mapped, {}))),
        staged_(world.attach(1, gpu_spec(size, GpuRow::staged, {}))),
        bare_(from_.memory().ordinal()),
        bare_from_(bare_.allocate(size)),
        bare_to_(bare_.allocate(size)),
        bare_host_(bare_.pin(size)) {
    world_.copy(host_, from_);
    pin_host(world_, host_);
    pin_host(world_, back_);
    Messages messages(world_);
    const Tensor handle = world_.allocate(DType::u8, {sizeof(IpcHandle)});
    messages.recv(1, Tag(kHandleTag), handle).value();
    IpcHandle theirs{};
    std::memcpy(&theirs, handle.data(), sizeof theirs);
    bare_peer_ = bare_.open(theirs);
  }

  std::string kind(std::string_view name) const {
    return bare_.name().starts_with(kStandIn) ? fmt::format("{} (stand-in)", name)
                                              : std::string(name);
  }

  /// Microseconds per operation.
  double run(GpuRow row, Block block) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i)
      block.variant == kWeft ? by_weft(row) : by_hand(row);
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    return spent.count() / block.operations;
  }

  /// The way of the row's puts, once they were made.
  EdgeReport way_of(GpuRow row) const { return gpu_edge(world_, gpu_spec(size_, row, {}).name); }
  /// So that a row whose copies do nothing is found out.
  void spoil() {
    const Tensor other = filled_tensor(world_, size_, kGpuStamp + 1);
    world_.copy(other, to_);
    fill(back_.data(), size_, kGpuStamp + 1);
  }
  void check(GpuRow row) {
    if (row == GpuRow::within || row == GpuRow::to_gpu) require_filled(world_, to_);
    if (row == GpuRow::to_host) require_filled(world_, back_);
  }

 private:
  void by_weft(GpuRow row) {
    switch (row) {
      case GpuRow::within:
        return world_.copy(from_, to_);
      case GpuRow::to_gpu:
        return world_.copy(host_, to_);
      case GpuRow::to_host:
        return world_.copy(from_, back_);
      case GpuRow::mapped:
        return mapped_.put(from_).wait().or_throw();
      case GpuRow::staged:
        return staged_.put(from_).wait().or_throw();
    }
  }
  void by_hand(GpuRow row) {
    switch (row) {
      case GpuRow::within:
        return bare_.copy(bare_to_, bare_from_, size_);
      case GpuRow::to_gpu:
        return bare_.copy(bare_to_, bare_host_, size_);
      case GpuRow::to_host:
        return bare_.copy(bare_host_, bare_from_, size_);
      case GpuRow::mapped:
        return bare_.copy(bare_peer_, bare_from_, size_);
      case GpuRow::staged:
        bare_.copy(bare_host_, bare_from_, size_);
        return bare_.copy(bare_to_, bare_host_, size_);
    }
  }

  World& world_;
  const std::size_t size_;
  Tensor from_, to_, host_, back_;
  RemoteSlot mapped_, staged_;
  BareGpu bare_;
  BareGpu::Address bare_from_, bare_to_, bare_host_;
  BareGpu::Address bare_peer_ = 0;
};

class GpuFollower {
 public:
  GpuFollower(World& world, std::size_t size, bool check)
      : world_(world),
        check_(check),
        mapped_(world.expose(gpu_spec(size, GpuRow::mapped, Memory::gpu()))),
        staged_(world.expose(gpu_spec(size, GpuRow::staged, Memory::gpu()))),
        bare_(world.allocate(DType::u8, {1}, Memory::gpu()).memory().ordinal()) {
    const IpcHandle own = bare_.share(bare_.allocate(size));
    Messages messages(world_);
    const Tensor handle = world_.allocate(DType::u8, {sizeof own});
    std::memcpy(handle.data(), &own, sizeof own);
    messages.send(0, kHandleTag, handle).or_throw();
  }

  void run(GpuRow row, Block block) {
    if (block.variant != kWeft || (row != GpuRow::mapped && row != GpuRow::staged)) return;
    Slot& slot = row == GpuRow::mapped ? mapped_ : staged_;
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      const Arrival arrival = slot.wait().value();
      if (check_ && arrivals_++ % kCheckEvery == 0) require_filled(world_, arrival.tensor());
    }
  }

 private:
  World& world_;
  const bool check_;
  std::uint64_t arrivals_ = 0;
  Slot mapped_, staged_;
  BareGpu bare_;
};

std::vector<RunRow> lead_on_gpu(World& world, const SharedMemory& bare, std::size_t size,
                                const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  GpuLeader leader(world, size);
  std::vector<RunRow> rows;
  for (const auto& [row, name] : kGpuRows) {
    if (options.check) leader.spoil();
    const RunBlock run = [&leader, row = row](Block block) { return leader.run(row, block); };
    RunRow measured = measure_against_limit(conductor, kNoCopy, {.budget = options.budget}, size,
                                            leader.kind(name), run);
    if (options.check) leader.check(row);
    if (row == GpuRow::mapped || row == GpuRow::staged) {
      const EdgeReport edge = leader.way_of(row);
      const bool as_named = (edge.way == "mapped") == (row == GpuRow::mapped);
      if (!as_named) {
        fmt::print(stderr, "left out: {} bytes, {}: the way is {}: {}\n", size, name, edge.way,
                   edge.reason);
        continue;
      }
    }
    rows.push_back(std::move(measured));
  }
  return rows;
}

void follow_on_gpu(World& world, const SharedMemory& bare, std::size_t size,
                   const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  GpuFollower follower(world, size, options.check);
  for (const auto& [row, name] : kGpuRows)
    conductor.follow([&follower, row = row](Block block) {
      follower.run(row, block);
      return 0.0;
    });
}

}  // namespace

std::vector<RunRow> measure_gpu(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const SharedMemory bare(world, options, "bench.gpu." + std::to_string(size), 0);
    if (world.rank() != 0) {
      follow_on_gpu(world, bare, size, options);
      continue;
    }
    const auto more = lead_on_gpu(world, bare, size, options);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace weft::bench
