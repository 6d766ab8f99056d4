#include "benchmarks/driver/catalogue.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/group_training.hpp"
#include "benchmarks/workloads/models.hpp"
#include "benchmarks/workloads/row_batches.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kKi = 1 << 10;
constexpr std::size_t kMi = 1 << 20;
constexpr std::size_t kGi = 1 << 30;

// Sources, the slot's buffers and the limit's memory for each of its two ways.
std::size_t several_put(std::size_t size, int) { return size * 4 * depth_for(size); }
// The published tensor (weft's and the limit's), and for each reader one target for each of the
// three ways to read.
std::size_t published_and_got(std::size_t size, int ranks) {
  return size * (2 + 3 * static_cast<std::size_t>(ranks - 1));
}
std::size_t several_published(std::size_t size, int ranks) {
  return depth_for(size) * published_and_got(size, ranks);
}
// The published tensor and the limit's; or source, fixed buffer and the memory that the owner
// allocates.
std::size_t thrice(std::size_t size, int) { return size * 3; }
// Source and target of each of four rows, and the limit's.
std::size_t all_ends(std::size_t size, int) { return size * 10; }
// Sources, results and the limit's memory, for one tensor and for eight.
std::size_t eight_exchanged(std::size_t size, int) { return size * 36; }
// Gradient, parameters (worker's and shard's) and the limit's two, with one to spare.
std::size_t six_times(std::size_t size, int) { return size * 6; }
// The memory of six_times() for each of two kinds, the first of which is freed before the second
// starts; and copies.
std::size_t eight_times(std::size_t size, int) { return size * 8; }
// Sources, staging, the slots' buffers and the limit's copy; a huge tensor's run has one way, of
// which copying takes source, staging and one buffer, and a GiB for the limit.
std::size_t of_four_ways(std::size_t size, int) {
  return size > kHuge ? size * 3 + kGi : size * 10;
}
// On each of two ranks: gradients, parameters (the worker's, and its half of the shards'), and the
// limit's memory. Of graphs: gradients twice where they are viewed, parameters, and what is
// received.
std::size_t ten_times(std::size_t size, int) { return size * 10; }
// Gradient and parameters of each worker, the servers' and the limit's.
std::size_t group_trained(std::size_t size, int ranks) {
  return size * 4 * static_cast<std::size_t>(ranks);
}
// Weft's rows with their index, which grows by copying, and the limit's.
std::size_t ten_million_rows(std::size_t, int) { return kTableRows * kRowBytes * 3; }
// Each rank's two tensors and the limit's memory.
std::size_t several_sent(std::size_t size, int ranks) {
  return size * 3 * static_cast<std::size_t>(ranks);
}
// Each rank's window, and the limit's.
std::size_t windows(std::size_t size, int ranks) {
  return kWindow * (2 * size + 64) * static_cast<std::size_t>(ranks);
}
// The slots that are kept open, besides source and limit.
std::size_t many(std::size_t size, int) { return size * 80; }

// Sixteen sources, buffers, published runs twice, their targets, and the limit's ends.
std::size_t sixteen_ways(std::size_t size, int) { return size * 16 * 7; }

const std::vector<std::size_t> kBandwidthSizes{64 * kKi, 256 * kKi, kMi,      4 * kMi,
                                               16 * kMi, 64 * kMi,  256 * kMi};

std::vector<std::size_t> sizes_of_models() {
  std::vector<std::size_t> sizes;
  for (const Model& model : models()) sizes.push_back(model.bytes());
  return sizes;
}

// Input and result of each rank: weft's, the limit's, and those of bf16.
std::size_t of_all_ranks(std::size_t size, int ranks) {
  return size * 5 * static_cast<std::size_t>(ranks);
}

Description collective(std::string_view name, std::string_view what) {
  const bool moves = name != kBarrier;
  return {.name = name,
          .what = what,
          .sizes = moves ? std::vector<std::size_t>{8, kKi, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi,
                                                    kMi, 4 * kMi, 16 * kMi, 64 * kMi}
                         : std::vector<std::size_t>{8},
          .quick_sizes = moves ? std::vector<std::size_t>{8, 4 * kKi, 64 * kKi, kMi, 16 * kMi}
                               : std::vector<std::size_t>{8},
          .most = kGi,
          .multiple_of = 8,
          .memory = of_all_ranks,
          .peers = {"openmpi", "mpich", "gloo"},
          .moves_bytes = moves,
          .is_collective = true,
          .between_hosts = true};
}

const std::vector<Description>& all() {
  static const std::vector<Description> benchmarks {
    {.name = kLatency,
     .what = "8 bytes put there and back; limit: a flag there and back",
     .sizes = {8},
     .quick_sizes = {8},
     .most = 8,
     .multiple_of = 8,
     .memory = thrice,
     .peers = {"openmpi", "mpich"}},
        {.name = kPutBandwidth,
         .what = "tensors put into a slot; limit: the best bare copy into shared memory",
         .sizes = {8, kKi, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi, kMi, 4 * kMi, 16 * kMi, 64 * kMi,
                   256 * kMi},
         .quick_sizes = {8, 64 * kKi, kMi, 16 * kMi},
         .most = kGi,
         .memory = several_put,
         .peers = {"openmpi", "mpich"}},
        {.name = kGetBandwidth,
         .what = "tensors got from published slots; limit: the best bare copy out of shared memory",
         .sizes = kBandwidthSizes,
         .quick_sizes = {64 * kKi, kMi, 16 * kMi},
         .most = kGi,
         .memory = several_published},
        {.name = kView,
         .what = "a tensor published and viewed where it lies; limit: two flag hops",
         .sizes = {8, 64 * kMi},
         .quick_sizes = {8, 64 * kMi},
         .most = kGi,
         .memory = thrice,
         .moves_bytes = false},
        {.name = kDynamic,
         .what =
             "a tensor through a dynamic slot; limit: 1.15 times the fixed slot, and a flag hop",
         .sizes = {64 * kKi, 256 * kKi, kMi, 4 * kMi, 16 * kMi, 64 * kMi},
         .quick_sizes = {64 * kKi, kMi, 16 * kMi},
         .most = kGi,
         .memory = thrice},
        {.name = kPublish,
         .what = "a tensor published, got by 1 to 7 readers; limit: their bare copies at one time",
         .sizes = {64 * kKi, kMi, 16 * kMi, 64 * kMi},
         .quick_sizes = {kMi},
         .most = kGi,
         .memory = published_and_got,
         .has_readers = true},
        {.name = kAttach,
         .what = "a slot exposed, attached to, first put; limit: as many messages on a Unix socket",
         .sizes = {8, 64 * kKi},
         .quick_sizes = {8, 64 * kKi},
         .most = kMi,
         .memory = many,
         .moves_bytes = false},
        {.name = kAdopt,
         .what =
             "a tensor put from and into the user's memory; limit: the bare copy that reaches it",
         .sizes = {64 * kKi, kMi, 16 * kMi, 64 * kMi},
         .quick_sizes = {64 * kKi, kMi},
         .most = kGi,
         .memory = all_ends},
        {.name = kRendezvous,
         .what = "a tensor asked for by key; limit: two flag hops and the bare copy",
         .sizes = {8, kKi, 64 * kKi, kMi, 4 * kMi},
         .quick_sizes = {8, 64 * kKi, kMi},
         .most = 64 * kMi,
         .memory = eight_exchanged},
        {.name = kPushPull,
         .what = "a gradient pushed, new parameters read; limit: a bare loop between two flags",
         .sizes = {64 * kMi},
         .quick_sizes = {64 * kMi},
         .most = kGi,
         .multiple_of = sizeof(float),
         .memory = six_times,
         .budget_factor = 5,
         .peers = {"openmpi", "mpich"}},
        {.name = kPsDense,
         .what =
             "a gradient pushed, the parameters pulled or viewed; limit: a bare loop and a copy",
         .sizes = {kKi, 64 * kKi, kMi, 16 * kMi, 64 * kMi},
         .quick_sizes = {kKi, kMi, 16 * kMi},
         .most = kGi,
         .multiple_of = sizeof(float),
         .memory = eight_times,
         .budget_factor = 2,
         .peers = {"zeromq", "grpc"},
         .between_hosts = true},
        {.name = kPsGroup,
         .what = "a step of 4 workers with 2 servers; limit: the loads and stores on two ranks",
         .sizes = {kMi, 16 * kMi, 64 * kMi},
         .quick_sizes = {kMi, 16 * kMi},
         .most = 256 * kMi,
         .multiple_of = 2 * sizeof(float),
         .memory = group_trained,
         .budget_factor = 5,
         .peers = {"zeromq"},
         .ranks = {kGroupRanks}},
        {.name = kPsReplay,
         .what = "steps of the paper's models, by their bytes, on two ranks; limit: a bare loop",
         .sizes = sizes_of_models(),
         .quick_sizes = {models().front().bytes()},
         .most = models().back().bytes(),
         .multiple_of = sizeof(float),
         .memory = ten_times,
         .budget_factor = 5,
         .peers = {"zeromq", "grpc"}},
        {.name = kPsSparse,
         .what = "a batch of 10 M rows of 16 f32 pushed, another looked up; limit: a bare array",
         .sizes = {4 * kKi, 64 * kKi, kMi},
         .quick_sizes = {64 * kKi},
         .most = kMi,
         .multiple_of = kRowBytes,
         .memory = ten_million_rows,
         .budget_factor = 5,
         .peers = {"grpc"},
         .between_hosts = true},
        {.name = kGraphReplay,
         .what =
             "the same steps as dataflow graphs, by each way of their edges; limit: a bare loop",
         .sizes = sizes_of_models(),
         .quick_sizes = {models().front().bytes()},
         .most = models().back().bytes(),
         .multiple_of = sizeof(float),
         .memory = ten_times,
         .budget_factor = 5,
         .peers = {"grpc"}},
        {.name = kTransfer,
         .what =
             "a tensor to a receiver that looks for its largest element; limit: one core's work",
         .sizes = {kKi, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi, kMi, 4 * kMi, 16 * kMi, 64 * kMi,
                   256 * kMi, kGi, 4 * kGi + 9},
         .quick_sizes = {kKi, 64 * kKi, kMi, 16 * kMi},
         .most = 8 * kGi,
         .least = sizeof(float),
         .memory = of_four_ways,
         .budget_factor = 2,
         .peers = {"grpc"},
         .between_hosts = true,
         .kinds_apart = {kKindsOfTransfer.begin(), kKindsOfTransfer.end()}},
        {.name = kSendRecv,
         .what = "a message there and back; limit: a flag and a copy out of shared memory",
         .sizes = {8, 64, kKi, 4 * kKi, 8 * kKi, 64 * kKi, kMi, 4 * kMi},
         .quick_sizes = {8, kKi, 8 * kKi, kMi},
         .most = 64 * kMi,
         .memory = several_sent,
         .peers = {"openmpi", "mpich"}},
        {.name = kMessageRate,
         .what = "64 messages one way, an empty one back; limit: 64 flags with their payloads",
         .sizes = {8, 64, kKi},
         .quick_sizes = {64},
         .most = 4 * kKi,
         .memory = windows,
         .peers = {"openmpi", "mpich"}},
        collective(kAllReduce, "f32 summed into every rank; limit: the loads and stores by hand"),
        collective(kBroadcast, "rank 0's f32 to every rank; limit: their bare copies"),
        collective(kAllGather, "every rank's part to every rank; limit: their bare copies"),
        collective(kReduceScatter, "f32 summed, a part to each rank; limit: the sums by hand"),
        collective(kAllToAll, "a part from each rank to each; limit: their bare copies"),
        collective(kBarrier, "returns once all ranks have entered; limit: two flags"),
        {.name = kChecks,
         .what = "collectives that must not be slower than others, and times without steps",
         .sizes = {8, 4 * kKi, 256 * kKi, 4 * kMi},
         .quick_sizes = {8, 256 * kKi},
         .most = 64 * kMi,
         .multiple_of = sizeof(float),
         .memory = of_all_ranks,
         .moves_bytes = false,
         .is_collective = true,
         .ranks = {2, 8},
         .sizes_in_one_run = true},
        {.name = kGpu,
         .what =
             "tensors copied within a GPU, from it and to it, and put; limit: bare driver calls",
         .sizes = {8, 4 * kKi, 64 * kKi, kMi, 16 * kMi, 256 * kMi},
         .quick_sizes = {8, 64 * kKi, kMi},
         .most = kGi,
         .memory = six_times},
        {.name = kWire,
         .what = "8 bytes put there and back, tensors put, between hosts; limit: a bare TCP stream",
         .sizes = {8, 64 * kKi, kMi, 16 * kMi},
         .quick_sizes = {8, 64 * kKi, kMi},
         .most = 16 * kMi,
         .memory = sixteen_ways,
         .budget_factor = 2,
         .peers = {"openmpi", "iperf3"},
         .between_hosts = true},
#if defined(WEFT_HAS_VERBS)
        {.name = kRdma,
         .what =
             "8 bytes put there and back, tensors put and got, by RDMA; limit: bare queue pairs",
         .sizes = {8, 64 * kKi, kMi},
         .quick_sizes = {8, 64 * kKi, kMi},
         .most = 16 * kMi,
         .multiple_of = 8,
         .memory = sixteen_ways,
         .budget_factor = 2,
         .peers = {"perftest"},
         .has_perftest = true,
         .between_hosts = true},
#endif
  };
  return benchmarks;
}

}  // namespace

std::span<const Description> catalogue() { return all(); }

const Description& description_of(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Description& benchmark : all()) {
    if (benchmark.name == name) return benchmark;
    names.push_back(benchmark.name);
  }
  throw BadOption(
      fmt::format("no benchmark is called '{}'; there are {}", name, fmt::join(names, ", ")));
}

void check_sizes(const Description& benchmark, std::span<const std::size_t> sizes) {
  for (const std::size_t size : sizes) {
    if (size < benchmark.least || size > benchmark.most)
      throw BadOption(fmt::format("--sizes: {} takes {} to {} bytes, not {}", benchmark.name,
                                  benchmark.least, benchmark.most, size));
    if (size % benchmark.multiple_of != 0)
      throw BadOption(fmt::format("--sizes: {} takes multiples of {} bytes, not {}", benchmark.name,
                                  benchmark.multiple_of, size));
  }
}

std::string help_text() {
  std::string text;
  for (const Description& benchmark : all())
    text += fmt::format("  {:<12}{}\n", benchmark.name, benchmark.what);
  return text;
}

}  // namespace weft::bench
