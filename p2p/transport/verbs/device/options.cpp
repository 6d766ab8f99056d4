#include "p2p/transport/verbs/device/options.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace weft::p2p::verbs {
namespace {

constexpr std::array<std::string_view, 5> kNotifyModes{"auto", "tail", "imm", "counted", "send"};
constexpr std::size_t kControlChunk = 2U << 20U;

template <typename Number>
Number number(const Config& config, Setting setting) {
  return static_cast<Number>(config.integer(setting).value());
}

NotifyMode notify_mode_of(std::string_view text) {
  for (std::size_t i = 0; i < kNotifyModes.size(); ++i)
    if (kNotifyModes[i] == text) return static_cast<NotifyMode>(i);
  return NotifyMode::automatic;
}

/// "active", or bytes.
int mtu_of(std::string_view text) {
  int bytes = 0;
  std::from_chars(text.begin(), text.end(), bytes);
  return bytes;
}

}  // namespace

std::string_view name(NotifyMode notify_mode) noexcept {
  return kNotifyModes[static_cast<std::size_t>(notify_mode)];
}

VerbsOptions VerbsOptions::read(const Config& config) {
  VerbsOptions options;
  options.nic = config.text(Setting::nic);
  options.rails = static_cast<int>(config.integer(Setting::rails).value_or(0));
  options.gid_index = static_cast<int>(config.integer(Setting::ib_gid).value_or(-1));
  options.queue_pairs = number<int>(config, Setting::qps_per_peer);
  options.completion_queues = number<int>(config, Setting::cqs);
  options.depth = number<std::uint32_t>(config, Setting::queue_depth);
  options.notify_mode = notify_mode_of(config.text(Setting::notify));
  options.timeout = number<std::uint8_t>(config, Setting::ib_timeout);
  options.service_level = number<std::uint8_t>(config, Setting::ib_sl);
  options.traffic_class = number<std::uint8_t>(config, Setting::ib_traffic_class);
  options.pkey_index = number<std::uint16_t>(config, Setting::ib_pkey);
  options.mtu = mtu_of(config.text(Setting::ib_mtu));
  options.max_message = config.size(Setting::ib_max_message).value_or(0);
  options.connection_manager = config.text(Setting::connect) == "cm";
  options.eager_ranks = number<int>(config, Setting::mesh_eager);
  options.gpudirect = config.text(Setting::gdr_level) != "never";
  options.gpu_flush = config.text(Setting::gpu_flush);
  options.arena_bytes = kControlChunk + config.size(Setting::arena_chunk).value();
  return options;
}

std::string VerbsOptions::text() const {
  return fmt::format(
      "WEFT_NIC={} WEFT_RAILS={} WEFT_IB_GID={} WEFT_QPS_PER_PEER={} WEFT_CQS={} "
      "WEFT_QUEUE_DEPTH={} "
      "WEFT_NOTIFY={} WEFT_IB_TIMEOUT={} WEFT_IB_SL={} WEFT_IB_TRAFFIC_CLASS={} "
      "WEFT_IB_PKEY={} WEFT_IB_MTU={} WEFT_IB_MAX_MESSAGE={} WEFT_CONNECT={} WEFT_MESH_EAGER={}",
      nic, rails == 0 ? "auto" : std::to_string(rails),
      gid_index < 0 ? "auto" : std::to_string(gid_index), queue_pairs, completion_queues, depth,
      name(notify_mode), timeout, service_level, traffic_class, pkey_index,
      mtu == 0 ? "active" : std::to_string(mtu),
      max_message == 0 ? "auto" : std::to_string(max_message), connection_manager ? "cm" : "tcp",
      eager_ranks);
}

}  // namespace weft::p2p::verbs
