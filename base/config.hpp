// The WEFT_* configuration: one table of every setting, read strictly.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class Setting : std::uint8_t {
  timeout,       ///< WEFT_TIMEOUT         time   60s   limit of waits without their own deadline
  init_timeout,  ///< WEFT_INIT_TIMEOUT    time   60s   joining: fence and mesh
  log,           ///< WEFT_LOG             log    warn  level[:subsystem][,...]
  log_file,      ///< WEFT_LOG_FILE        text   ""    path; %h host, %p pid, %r rank
  bootstrap,     ///< WEFT_BOOTSTRAP       choice auto  auto | pmix | token | alone
  rank,          ///< WEFT_RANK            integer auto this rank, in a job without a launcher
  size,          ///< WEFT_SIZE            integer auto number of ranks, in such a job
  addr,          ///< WEFT_ADDR            text   ""    host:port where rank 0 accepts the others
  token_file,    ///< WEFT_TOKEN_FILE      text   ""    file with the token of the ranks
  fabric,        ///< WEFT_FABRIC          choice auto  auto | shm | verbs | tcp
  require,       ///< WEFT_REQUIRE         choice none  none | rdma | gdr
  arena_chunk,   ///< WEFT_ARENA_CHUNK     size   16m   largest growth step of arenas (from 2m)
  arena_max,     ///< WEFT_ARENA_MAX       size   0     limit of a rank's data arena; 0: none
  spin,          ///< WEFT_SPIN            time|auto    how long a wait polls before it yields
  cross_memory,  ///< WEFT_CROSS_MEMORY    choice auto  auto | off: adopted memory by kernel copy
  check,         ///< WEFT_CHECK           choice none  none | flow
  record,        ///< WEFT_RECORD          choice control  off | control | all
  record_dir,    ///< WEFT_RECORD_DIR      text   ""    folder for recordings; empty: none
  coll,          ///< WEFT_COLL            text   ""    operation[@from..to]=algorithm[,...]
  coll_costs,    ///< WEFT_COLL_COSTS      text   ""    cost file written by weft-tune
  numa,          ///< WEFT_NUMA            text   auto  off, or a node for each rank of a host
  gpu,           ///< WEFT_GPU             text   auto  this rank's GPU: number or UUID

  // The fabric verbs.
  nic,               ///< WEFT_NIC              text    ""      device[:port][,...]; empty: the best
  ib_gid,            ///< WEFT_IB_GID           integer|auto    index in the port's GID table
  qps_per_peer,      ///< WEFT_QPS_PER_PEER     integer 1       queue pairs
  cqs,               ///< WEFT_CQS              integer 0       completion queues with a thread each
  queue_depth,       ///< WEFT_QUEUE_DEPTH      integer 1024    work requests per queue pair
  notify,            ///< WEFT_NOTIFY           choice  auto    auto | tail | imm | counted | send
  ib_timeout,        ///< WEFT_IB_TIMEOUT       integer 14      resend after 4.096 us * 2^n
  ib_sl,             ///< WEFT_IB_SL            integer 0       service level
  ib_traffic_class,  ///< WEFT_IB_TRAFFIC_CLASS integer 0       of the IP header: DSCP and ECN
  ib_pkey,           ///< WEFT_IB_PKEY          integer 0       index in the port's P_Key table
  ib_mtu,            ///< WEFT_IB_MTU           choice  active  active | 256 .. 4096
  ib_max_message,    ///< WEFT_IB_MAX_MESSAGE   size|auto       largest work request
  connect,           ///< WEFT_CONNECT          choice  tcp     tcp | cm: how queue pairs meet
  mesh_eager,        ///< WEFT_MESH_EAGER       integer 128     largest job that connects all pairs

  // The choice of a NIC for each rank.
  topo_file,  ///< WEFT_TOPO_FILE        text   ""    a description of this machine
  gpu_nic,    ///< WEFT_GPU_NIC          text   ""    GPU=NIC[,...]
  gdr_level,  ///< WEFT_GDR_LEVEL        choice PXB   GPUDirect up to this path class
  gpu_flush,  ///< WEFT_GPU_FLUSH        choice auto  auto | none | driver | read

  // Tensors on GPUs that go through host memory.
  gpu_staging,  ///< WEFT_GPU_STAGING    size   1m    of a tensor's chunks

  // Between hosts.
  iface,       ///< WEFT_IFACE           text   auto  addresses for ranks of other hosts
  dead_after,  ///< WEFT_DEAD_AFTER      time   10s   silent or stopped for this long: dead; off
  sigterm,     ///< WEFT_SIGTERM         bool   1     announce SIGTERM to the others
  rails,       ///< WEFT_RAILS           integer|auto  ports, or connections for data, to each peer
  tcp_congestion,  ///< WEFT_TCP_CONGESTION  text   auto  congestion control between hosts
  checksum,        ///< WEFT_CHECKSUM        bool   0     tensors sent by TCP have checksums
  encrypt,         ///< WEFT_ENCRYPT         bool   0     everything sent by TCP is encrypted

  // Subscribers: readers outside the job.
  subscribe_addr,  ///< WEFT_SUBSCRIBE_ADDR       text  ""  where publishers accept subscribers
  subscribe_token_file,  ///< WEFT_SUBSCRIBE_TOKEN_FILE text  ""  file with the token of subscribers

  ps_servers,   ///< WEFT_PS_SERVERS      text   all   all | host | number: a parameter server's
                ///< servers
  ps_replicas,  ///< WEFT_PS_REPLICAS    integer 1    replicas of each shard

  count_  // not a setting
};

enum class SettingType : std::uint8_t { time, size, integer, boolean, choice, text, log_levels };

struct SettingSpec {
  Setting setting;
  std::string_view variable;  ///< "WEFT_TIMEOUT"
  SettingType type;
  std::string_view fallback;  ///< the default, as a user would write it
  std::string_view accepts;   ///< the accepted values, in words: "auto | shm", "a time such as 20s"
  std::string_view meaning;
  bool accepts_auto = false;  ///< true: `no_value` is accepted too
  std::int64_t least = 1;     ///< limits of a time (ns), size (bytes) or integer
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string_view no_value = "auto";  ///< the word that accepts_auto allows
  bool expert = false;                 ///< true: few users need it, so it is listed apart
};

/// Every setting, in the order of `Setting`.
std::span<const SettingSpec> setting_table() noexcept;

/// A former name of a setting, or the name of a removed one. Accepted, with a warning, before
/// release `until`; a removed setting has no effect, whatever its value.
struct FormerName {
  std::string_view variable;       ///< the former name
  std::optional<Setting> setting;  ///< the setting that has a new name; none: it was removed
  std::string_view until;          ///< the first release that does not know the name
  std::string_view instead = {};   ///< of a removed setting: what replaces it
};
std::span<const FormerName> former_names() noexcept;

/// The values in force. Immutable once read; may be copied and read by several threads.
class Config {
 public:
  /// Every setting at its default.
  Config();
  /// Reads `environment` ("NAME=value" entries; null: this process's). Throws Error(bad_config) for
  /// an invalid value; the text has variable, value and the accepted values. Unknown WEFT_ names
  /// become warnings(), each with the nearest known name.
  static Config read(const char* const* environment = nullptr);

  /// Requires a setting of type time. nullopt for `no_value` ("auto", "off").
  std::optional<std::chrono::nanoseconds> time(Setting setting) const;
  /// Requires a setting of type size; bytes. nullopt for "auto".
  std::optional<std::size_t> size(Setting setting) const;
  /// Requires a setting of type integer. nullopt for `no_value`.
  std::optional<std::int64_t> integer(Setting setting) const;
  bool flag(Setting setting) const;
  const std::string& text(Setting setting) const;
  /// "default" or "environment".
  std::string_view source(Setting setting) const;
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  /// A copy with one value replaced, as if the environment had held it (tests, tools).
  Config with(Setting setting, std::string_view value) const;

 private:
  struct Value {
    std::string text;
    bool from_environment = false;
    bool is_auto = false;
    std::int64_t number = 0;  // ns, bytes, the integer, or 0/1
  };
  static Value read_value(const SettingSpec& spec, std::string_view text);
  void read_former(const FormerName& name, std::string_view text);

  std::vector<Value> values_;
  std::vector<std::string> warnings_;
};

/// Parses "20s", "500ms", "3us", "100ns", "1.5s", "2m" (minutes), "1h". nullopt if `text` is not a
/// time, or if a deadline that far from now would overflow.
std::optional<std::chrono::nanoseconds> parse_time(std::string_view text);
/// Parses "4096", "64k", "4m", "2g", "1t" (powers of 1024; optional trailing "b" or "ib", any
/// case). nullopt if `text` is not a size or overflows 63 bits.
std::optional<std::size_t> parse_size(std::string_view text);
/// Parses decimal digits only. nullopt if `text` has anything else or overflows 63 bits.
std::optional<std::int64_t> parse_integer(std::string_view text);

}  // namespace weft
