// The abilities of a fake NIC, and its faults.
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "p2p/transport/verbs/api/verbs.hpp"

namespace weft::p2p::verbs::fake {

/// A call of Verbs that can be refused, or counted.
enum class VerbsCall : std::uint8_t {
  device_list,
  open_device,
  query_device,
  query_port,
  query_gid,
  alloc_pd,
  reg_mr,
  create_comp_channel,
  create_cq,
  req_notify_cq,
  create_qp,
  modify_qp,
  post_send,
  post_recv,
  count  ///< how many there are
};

/// The `nth` call (from 1) of its kind on the NIC fails with this errno.
struct Refusal {
  VerbsCall call = VerbsCall::reg_mr;
  std::uint64_t nth = 1;
  int error = ENOMEM;
};

/// The `nth` work request (from 1) posted to the NIC's send queues, or to that of one queue pair,
/// is not carried out and ends so.
struct Failure {
  std::uint64_t nth = 1;
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
  int queue_pair = -1;  ///< counted from 0 in the order of their making on the NIC; -1: any
};

/// Faults by chance (per work request, unless said otherwise, by the network's seed) and
/// on purpose. Without anything said, the NIC is perfect and does its work at once.
struct FaultPlan {
  // Behaviour that every NIC may show.
  double delayed = 0;     ///< it begins up to `longest` later than it could
  double late = 0;        ///< its completion comes up to `longest` after its data
  double scattered = 0;   ///< its bytes land in pieces, the last one first; not if data_in_order
  double straggling = 0;  ///< a flushed write: its bytes come up to `longest` later, if the peer's
                          ///< queue pair still takes them
  double spurious = 0;    ///< when a completion queue is armed: it has an event at once
  double full = 0;        ///< per post_send while a completion is due: ENOMEM

  // Behaviour that no NIC may show: code that relies on the order must break.
  double overtaken = 0;  ///< a write without a notification lands after what follows it
  bool silent = false;   ///< completions raise no event: those that sleep until one comes are late

  double failed = 0;  ///< it ends with `failed_with`
  ibv_wc_status failed_with = IBV_WC_RETRY_EXC_ERR;

  std::chrono::nanoseconds longest = std::chrono::microseconds(200);
  std::vector<Failure> failures = {};
  std::vector<Refusal> refusals = {};
};

/// GPU memory, which no processor reaches: what a machine's NICs can do with it. Calls come with
/// the network's lock.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  /// Whether the range is a GPU's.
  virtual bool has(std::uint64_t address, std::size_t bytes) = 0;
  /// Whether the descriptor stands for the memory at that address.
  virtual bool is_dma_buf(int fd, std::uint64_t offset, std::uint64_t address) = 0;
  // Require has().
  virtual void write(std::uint64_t to, const std::byte* from, std::size_t bytes) = 0;
  virtual void read(std::byte* to, std::uint64_t from, std::size_t bytes) = 0;
};

struct GidSpec {
  std::array<std::uint8_t, 16> raw{};
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};

struct PortSpec {
  bool up = true;
  bool ethernet = true;  ///< RoCE or iWARP; else InfiniBand
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint8_t width = 2;          ///< 4 lanes
  std::uint8_t speed = 32;         ///< 25 Gbit/s each
  std::vector<GidSpec> gids = {};  ///< empty: made up, as a usual port has them
};

struct NicSpec {
  std::string name = "fake0";
  std::vector<PortSpec> ports = {PortSpec{}};
  bool iwarp = false;          ///< no immediates
  bool data_in_order = false;  ///< what data_in_order() says, and what is true
  std::uint32_t max_message = 1U << 30U;
  std::uint32_t max_inline = 220;
  int max_sges = 16;
  int max_depth = 16384;          ///< of a send or receive queue
  int max_completions = 1 << 20;  ///< of a completion queue
  int max_queue_pairs = 4096;
  int max_completion_queues = 4096;
  int max_regions = 65536;
  int max_reads = 16;
  bool dma_buf = true;  ///< its driver registers GPU memory by a descriptor
  bool peermem = true;  ///< and by its address
  std::uint64_t max_region_bytes = 1ULL << 40U;
  std::uint64_t max_registered = std::numeric_limits<std::uint64_t>::max();  ///< bytes, in all
  FaultPlan faults = {};
};

/// Requests that a NIC has got so far.
struct NicCounts {
  std::array<std::uint64_t, static_cast<std::size_t>(VerbsCall::count)> calls{};  ///< by Call
  std::uint64_t writes = 0;  ///< work requests, of each kind
  std::uint64_t writes_with_immediate = 0;
  std::uint64_t sends = 0;
  std::uint64_t reads = 0;
  std::uint64_t receives = 0;
  std::uint64_t inlined = 0;
  std::uint64_t signaled = 0;
  std::uint64_t bytes = 0;        ///< carried
  std::uint64_t completions = 0;  ///< put into completion queues
  std::uint64_t events = 0;       ///< of completion channels

  NicCounts& operator+=(const NicCounts& other) noexcept {
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] += other.calls[i];
    writes += other.writes;
    writes_with_immediate += other.writes_with_immediate;
    sends += other.sends;
    reads += other.reads;
    receives += other.receives;
    inlined += other.inlined;
    signaled += other.signaled;
    bytes += other.bytes;
    completions += other.completions;
    events += other.events;
    return *this;
  }
  std::uint64_t of(VerbsCall call) const noexcept { return calls[static_cast<std::size_t>(call)]; }
};

}  // namespace weft::p2p::verbs::fake
