#include "runtime/world/check_settings.hpp"

#include "base/log_file.hpp"
#include "base/os/host_identity.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/rank_settings.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/collective/choice.hpp"
#include "runtime/collective/numa_nodes.hpp"
#include "runtime/subscribe/subscriber_address.hpp"

namespace weft {

void check_join_settings(const Config& config) {
  p2p::cuda::check_gpu_setting(config.text(Setting::gpu));
  if (const std::string& address = config.text(Setting::subscribe_addr); !address.empty())
    (void)subscribe::parse_subscriber_address(address);
}

void check_settings(const Config& config) {
  check_join_settings(config);
  check_log_file(config.text(Setting::log_file), os::host_identity().name);
  if (const std::string& chosen = config.text(Setting::bootstrap);
      chosen == "auto" || chosen == "token")
    check_token_settings(config);
  if (const std::string& iface = config.text(Setting::iface); iface != "auto")
    (void)p2p::choose_ip_addresses(p2p::interfaces(), iface);
  (void)p2p::record_dir_of(config);
  (void)detail::parse_rules(config.text(Setting::coll));
  (void)detail::read_costs(config.text(Setting::coll_costs));
  (void)detail::numa_node(config.text(Setting::numa), 0);
}

}  // namespace weft
