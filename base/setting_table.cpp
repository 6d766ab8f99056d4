#include <array>
#include <limits>

#include "base/config.hpp"

namespace weft {
namespace {

constexpr std::string_view kTime = "a time above 0, such as 20s, 500ms, 1.5s, 2m or 1h";
constexpr std::string_view kFlag = "1 | 0 | on | off";
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kSecond = 1'000'000'000;

constexpr SettingSpec expert(SettingSpec spec) {
  spec.expert = true;
  return spec;
}

constexpr std::array<SettingSpec, static_cast<std::size_t>(Setting::count_)> kTable{{
    {Setting::timeout, "WEFT_TIMEOUT", SettingType::time, "60s", kTime,
     "limit of every wait that has no deadline of its own"},
    {Setting::init_timeout, "WEFT_INIT_TIMEOUT", SettingType::time, "60s", kTime,
     "limit of joining; then an error names a rank that has not arrived"},
    {Setting::log, "WEFT_LOG", SettingType::log_levels, "warn",
     "level[:subsystem][,...] of levels trace, debug, info, warn, error, off and subsystems boot, "
     "arena, path, slot, progress, ps, tool",
     "the lowest level that is logged, for all subsystems or for one"},
    {Setting::log_file, "WEFT_LOG_FILE", SettingType::text, "",
     "a path in an existing folder; %h stands for the host, %p the process, %r the rank, %% for %",
     "the file that log lines are appended to; empty: stderr"},
    {Setting::bootstrap, "WEFT_BOOTSTRAP", SettingType::choice, "auto",
     "auto | pmix | token | alone",
     "how ranks find each other; auto: pmix under a launcher, token if WEFT_RANK, WEFT_SIZE and "
     "WEFT_ADDR are set, else "
     "alone"},
    {Setting::rank, "WEFT_RANK", SettingType::integer, "auto", "a number from 0 on, or auto",
     "this process's rank, in a job without a launcher", true, 0, kMostRanks - 1},
    {Setting::size, "WEFT_SIZE", SettingType::integer, "auto", "a number of ranks, or auto",
     "the number of ranks, in a job without a launcher", true, 1, kMostRanks},
    {Setting::addr, "WEFT_ADDR", SettingType::text, "",
     "host:port or [IPv6]:port, such as 10.0.0.1:29400",
     "where rank 0 accepts the other ranks, in a job without a launcher"},
    {Setting::token_file, "WEFT_TOKEN_FILE", SettingType::text, "",
     "a file of mode 0600 with 32 random characters or more",
     "the file with the token by which ranks authenticate, in a job without a launcher"},
    {Setting::fabric, "WEFT_FABRIC", SettingType::choice, "auto", "auto | shm | verbs | tcp",
     "the fabric to all peers; auto: for each peer the best that reaches it"},
    {Setting::require, "WEFT_REQUIRE", SettingType::choice, "none", "none | rdma | gdr",
     "the least capable path to accept; a lesser one is an error, not a fallback"},
    expert({Setting::arena_chunk, "WEFT_ARENA_CHUNK", SettingType::size, "16m",
            "a size from 2m on, such as 16m", "arenas grow by steps that double from 2m up to this",
            false, 2 * kMiB}),
    expert({Setting::arena_max, "WEFT_ARENA_MAX", SettingType::size, "0", "a size such as 4g, or 0",
            "the largest size of a rank's data arena; 0: limited by the machine only", false, 0}),
    expert({Setting::spin, "WEFT_SPIN", SettingType::time, "auto",
            "a time such as 50us, 0s, or auto",
            "how long a wait polls before it yields; auto: by the ranks and processors of the host",
            true, 0}),
    expert({Setting::cross_memory, "WEFT_CROSS_MEMORY", SettingType::choice, "auto", "auto | off",
            "auto: the kernel copies adopted memory between ranks where it permits that; off: "
            "stage it"}),
    {Setting::check, "WEFT_CHECK", SettingType::choice, "none", "none | flow",
     "flow: run synchronous slots with credits and report an overrun"},
    {Setting::record, "WEFT_RECORD", SettingType::choice, "control", "off | control | all",
     "which events a rank keeps in the ring that tools read; all: every transfer and node too"},
    {Setting::record_dir, "WEFT_RECORD_DIR", SettingType::text, "", "an existing folder, or empty",
     "folder of the recordings made when a rank fails or gets SIGTERM; empty: none are made"},
    expert(
        {Setting::coll, "WEFT_COLL", SettingType::text, "",
         "operation[@from..to]=algorithm[,...], such as "
         "all_reduce@64k..1m=ring,broadcast=doubling; algorithms: direct, allgather_then_reduce, "
         "ring, halving, doubling, two_level, auto",
         "the algorithm of collectives between hosts, by bytes of the tensor; empty: the fastest"}),
    {Setting::coll_costs, "WEFT_COLL_COSTS", SettingType::text, "",
     "a file that weft-tune has written",
     "costs of links and processors, from which the fastest algorithm is computed"},
    expert({Setting::numa, "WEFT_NUMA", SettingType::text, "auto",
            "auto, off, or a node for each rank of the host in turn, such as 0,0,1,1",
            "the NUMA node of each rank: collectives move tensors between nodes only once; "
            "auto: from the processors that the rank is bound to"}),
    {Setting::gpu, "WEFT_GPU", SettingType::text, "auto",
     "a GPU's number among those that the process sees, its UUID such as GPU-5c89..., or auto",
     "this rank's GPU, which Memory::gpu() means; auto: the ranks of a host take the GPUs in turn"},
    {Setting::nic, "WEFT_NIC", SettingType::text, "",
     "an RDMA device such as mlx5_0, one port of it, such as mlx5_0:2, or several, comma-separated",
     "the port to all peers, and further ones for large tensors; empty: the nearest, shared evenly "
     "among ranks"},
    {Setting::ib_gid, "WEFT_IB_GID", SettingType::integer, "auto",
     "an index in the port's GID table, 0 to 255, or auto",
     "the GID that a RoCE port sends from; auto: RoCE v2, IPv4 before global IPv6", true, 0, 255},
    expert({Setting::qps_per_peer, "WEFT_QPS_PER_PEER", SettingType::integer, "1",
            "a number from 1 to 8", "queue pairs to each peer", false, 1, 8}),
    expert({Setting::cqs, "WEFT_CQS", SettingType::integer, "0", "a number from 0 to 8",
            "completion queues with a polling thread each; 0: waiting threads poll", false, 0, 8}),
    expert({Setting::queue_depth, "WEFT_QUEUE_DEPTH", SettingType::integer, "1024",
            "a number from 16 to 32768", "outstanding work requests per queue pair", false, 16,
            32768}),
    expert(
        {Setting::notify, "WEFT_NOTIFY", SettingType::choice, "auto",
         "auto | tail | imm | counted | send",
         "how the owner of a slot learns of an RDMA put; auto: chosen by the device's guarantees"}),
    expert({Setting::ib_timeout, "WEFT_IB_TIMEOUT", SettingType::integer, "14",
            "a number from 1 to 31", "n: the NIC resends after 4.096 us * 2^n without an answer",
            false, 1, 31}),
    expert({Setting::ib_sl, "WEFT_IB_SL", SettingType::integer, "0", "a number from 0 to 15",
            "the service level of RDMA traffic", false, 0, 15}),
    expert({Setting::ib_traffic_class, "WEFT_IB_TRAFFIC_CLASS", SettingType::integer, "0",
            "a number from 0 to 255",
            "the traffic class in the headers of RDMA packets (RoCE v2: 4 * DSCP + ECN)", false, 0,
            255}),
    expert({Setting::ib_pkey, "WEFT_IB_PKEY", SettingType::integer, "0", "an index from 0 to 65535",
            "the partition, by its index in the port's P_Key table", false, 0, 65535}),
    expert({Setting::ib_mtu, "WEFT_IB_MTU", SettingType::choice, "active",
            "active | 256 | 512 | 1024 | 2048 | 4096",
            "bytes of payload per RDMA packet; active: the port's setting"}),
    expert({Setting::ib_max_message, "WEFT_IB_MAX_MESSAGE", SettingType::size, "auto",
            "a size from 256, such as 64k, or auto",
            "largest RDMA work request; larger transfers take several; auto: the device's limit",
            true, 256}),
    expert({Setting::connect, "WEFT_CONNECT", SettingType::choice, "tcp", "tcp | cm",
            "how queue pairs are connected: by messages over TCP, or by the RDMA "
            "connection manager, which iWARP needs"}),
    expert({Setting::mesh_eager, "WEFT_MESH_EAGER", SettingType::integer, "128",
            "a number of ranks, or 0",
            "jobs of at most this many ranks connect all pairs when they join; larger jobs connect "
            "a pair on first use",
            false, 0}),
    expert({Setting::topo_file, "WEFT_TOPO_FILE", SettingType::text, "",
            "a file of hwloc (XML), NCCL (topology XML) or weft-topo --json",
            "a description of this machine's topology, if its own is hidden; empty: discover it"}),
    expert({Setting::gpu_nic, "WEFT_GPU_NIC", SettingType::text, "",
            "pairs such as GPU0=mlx5_0,GPU1=mlx5_3, or PCI addresses in their place",
            "the NIC of each GPU named; empty: the nearest, shared evenly"}),
    expert({Setting::gdr_level, "WEFT_GDR_LEVEL", SettingType::choice, "PXB",
            "LOC | PIX | PXB | P2C | PHB | NODE | SYS | poster | never",
            "the largest distance at which a NIC accesses GPU memory directly; poster: same host "
            "bridge"}),
    expert({Setting::gpu_flush, "WEFT_GPU_FLUSH", SettingType::choice, "auto",
            "auto | none | driver | read",
            "how a NIC's writes into a GPU's memory are made visible there; auto: as the driver "
            "says"}),
    expert({Setting::gpu_staging, "WEFT_GPU_STAGING", SettingType::size, "1m",
            "a size from 4k on, such as 256k",
            "tensors on GPUs that go through host memory do so in chunks of this size, at most 64 "
            "of them, so that a chunk's copy overlaps the way of the one before",
            false, 4096}),
    {Setting::iface, "WEFT_IFACE", SettingType::text, "auto",
     "an interface such as eth0, an address, a prefix such as 10.1.0.0/16, up to 4 of these, "
     "comma-separated, or auto",
     "the addresses for ranks of other hosts, rails in the order named; auto: every interface of a "
     "network"},
    {Setting::dead_after, "WEFT_DEAD_AFTER", SettingType::time, "10s",
     "a time from 1s on, such as 10s, or off",
     "a rank that is stopped, or silent on another host, for this long is declared dead; off: "
     "never",
     true, kSecond, std::numeric_limits<std::int64_t>::max(), "off"},
    expert(
        {Setting::sigterm, "WEFT_SIGTERM", SettingType::boolean, "1", kFlag,
         "1: announce SIGTERM, and a SIGINT that the program does not handle, to the other ranks "
         "before it ends this one; 0: leave both alone"}),
    {Setting::rails, "WEFT_RAILS", SettingType::integer, "auto", "a number from 1 to 8, or auto",
     "the most RDMA ports of a rank, or TCP connections for data to each peer, over different "
     "networks if there are several; auto: the RDMA ports that are equally near, or one connection "
     "for each network that both ends are on, at most 4",
     true, 1, 8},
    expert({Setting::tcp_congestion, "WEFT_TCP_CONGESTION", SettingType::text, "auto",
            "a congestion control such as cubic, system, or auto",
            "the congestion control of TCP connections; auto: the system's, or another that it "
            "allows in place of bbr; system: the system's"}),
    {Setting::checksum, "WEFT_CHECKSUM", SettingType::boolean, "0", kFlag,
     "1: tensors sent by TCP have checksums"},
    {Setting::encrypt, "WEFT_ENCRYPT", SettingType::boolean, "0", kFlag,
     "1: everything sent by TCP is encrypted"},
    {Setting::subscribe_addr, "WEFT_SUBSCRIBE_ADDR", SettingType::text, "",
     "host:port or [IPv6]:port, or the path of a file, with a slash in it",
     "where a publisher accepts subscribers, and where subscribers connect; a file: the "
     "publisher takes a free "
     "port and writes its address there"},
    {Setting::subscribe_token_file, "WEFT_SUBSCRIBE_TOKEN_FILE", SettingType::text, "",
     "a file of mode 0600 with 32 random characters or more",
     "the file with the token by which subscribers authenticate, not the job's token"},
    {Setting::ps_servers, "WEFT_PS_SERVERS", SettingType::text, "all",
     "all, host, or a number of ranks, such as 2",
     "the servers of a parameter server if the program does not choose; all: every rank, "
     "which also works; a number: this many highest ranks; host: one rank per host; these only "
     "serve"},
    {Setting::ps_replicas, "WEFT_PS_REPLICAS", SettingType::integer, "1", "a number from 1 to 8",
     "servers that hold each shard of a parameter server, if the program does not choose", false, 1,
     8},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].setting != static_cast<Setting>(i)) return false;
  return true;
}
static_assert(is_in_order(), "the table has every setting, in the order of Setting");

constexpr std::array kFormerNames{
    FormerName{"WEFT_LADDER", Setting::notify, "0.3"},
    FormerName{"WEFT_GUEST_ADDR", Setting::subscribe_addr, "0.3"},
    FormerName{"WEFT_GUEST_TOKEN_FILE", Setting::subscribe_token_file, "0.3"},
    FormerName{"WEFT_HUGE_PAGES",
               {},
               "0.3",
               "/sys/kernel/mm/transparent_hugepage/shmem_enabled says whether arenas get huge "
               "pages"},
    FormerName{"WEFT_ZERO_COPY", {}, "0.3", "a put of a tensor from Tensor::wrap is staged"},
    FormerName{"WEFT_STREAM_BYTES", {}, "0.3", "each slot measures whether to bypass the cache"},
    FormerName{"WEFT_IB_RETRY",
               {},
               "0.3",
               "NICs resend 7 times, and WEFT_IB_TIMEOUT sets the time between two resends"},
};

}  // namespace

std::span<const SettingSpec> setting_table() noexcept { return kTable; }
std::span<const FormerName> former_names() noexcept { return kFormerNames; }

}  // namespace weft
