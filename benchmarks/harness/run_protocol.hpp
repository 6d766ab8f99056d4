// The protocol between the driver and a run: the same for weft and for the peers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bench {

/// Names of all benchmarks.
inline constexpr std::string_view kLatency = "latency";
inline constexpr std::string_view kPutBandwidth = "put-bw";
inline constexpr std::string_view kGetBandwidth = "get-bw";
inline constexpr std::string_view kView = "view";
inline constexpr std::string_view kDynamic = "dynamic";
inline constexpr std::string_view kPublish = "publish";
inline constexpr std::string_view kAttach = "attach";
inline constexpr std::string_view kAdopt = "adopt";
inline constexpr std::string_view kRendezvous = "rendezvous";
inline constexpr std::string_view kPushPull = "pushpull";
inline constexpr std::string_view kPsDense = "ps_dense";
inline constexpr std::string_view kPsGroup = "ps_group";
inline constexpr std::string_view kPsReplay = "ps_replay";
inline constexpr std::string_view kPsSparse = "ps_sparse";
inline constexpr std::string_view kGraphReplay = "graph_replay";
inline constexpr std::string_view kTransfer = "fig7";
inline constexpr std::string_view kSendRecv = "send_recv";
inline constexpr std::string_view kMessageRate = "message_rate";
inline constexpr std::string_view kRdma = "rdma";
inline constexpr std::string_view kWire = "wire";
inline constexpr std::string_view kAllReduce = "all_reduce";
inline constexpr std::string_view kBroadcast = "broadcast";
inline constexpr std::string_view kAllGather = "all_gather";
inline constexpr std::string_view kReduceScatter = "reduce_scatter";
inline constexpr std::string_view kAllToAll = "all_to_all";
inline constexpr std::string_view kBarrier = "barrier";
inline constexpr std::string_view kGpu = "gpu";
inline constexpr std::string_view kChecks = "checks";

/// Kinds of row: true if the receiver reads every cache line before the clock stops.
inline constexpr std::string_view kTouched = "touched";
inline constexpr std::string_view kUntouched = "untouched";

/// Figures of a check's row: the factor by which its time may exceed the reference's, and the
/// relative uncertainty of the median ratio of neighbouring blocks.
inline constexpr std::string_view kAllowed = "allowed";
inline constexpr std::string_view kSpread = "spread";

/// A figure of a collective's row: microseconds of the same call without a plan.
inline constexpr std::string_view kOnceFigure = "once_us";

/// Tensors per hand-over in put-bw and get-bw, and buffers of put-bw's slot; the limit and the
/// peers use the same number.
constexpr std::size_t depth_for(std::size_t size) noexcept { return size <= (1 << 20) ? 4 : 2; }

/// A message of protobuf has fewer bytes, its other fields included.
inline constexpr std::size_t kMostMessage = (std::size_t{1} << 31) - 1024;

/// Messages of message_rate under way at once.
inline constexpr std::size_t kWindow = 64;

/// With -c, one operation in kCheckEvery has every byte checked after the clock is stopped.
inline constexpr std::uint64_t kCheckEvery = 8;

struct RunOptions {
  std::string benchmark;
  std::vector<std::size_t> sizes;         ///< bytes of one tensor
  std::chrono::milliseconds budget{100};  ///< time to measure a row
  int ranks = 2;                          ///< ranks of the job
  bool crowded = false;                   ///< ranks outnumber processors
  bool check = false;
  std::string kind{};  ///< the one kind of row to measure; empty: all
};

/// One measured row: microseconds per operation by name ("weft", "limit", "sendrecv", "put") and
/// ratios taken within the run. Figures are further values: "hop_us", "bytes_copied".
struct RunRow {
  std::size_t size = 0;
  std::string kind;
  std::map<std::string, double> values{};
  std::map<std::string, double> figures{};
};

/// The options as command-line words of a run; parse_run() reads them.
std::vector<std::string> arguments(const RunOptions& options);

/// Parses a run's command line. Prints to stderr and exits on a bad one.
RunOptions parse_run(int argc, char** argv);

/// The rows as one line of JSON.
std::string to_line(const std::vector<RunRow>& rows);

/// The rows in a run's output: its last JSON line. Throws std::runtime_error if there is none.
std::vector<RunRow> rows_in(const std::string& output);

}  // namespace weft::bench
