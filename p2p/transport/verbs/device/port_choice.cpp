#include "p2p/transport/verbs/device/port_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/fail.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

std::uint32_t lanes(std::uint8_t width) noexcept {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

/// Speed of one lane, in megabits per second of data.
std::uint32_t lane_rate(std::uint8_t speed) noexcept {
  switch (speed) {
    case 1:
      return 2'500;  // SDR
    case 2:
      return 5'000;  // DDR
    case 4:          // QDR
    case 8:          // FDR10
      return 10'000;
    case 16:
      return 14'000;  // FDR
    case 32:
      return 25'000;  // EDR
    case 64:
      return 50'000;  // HDR
    case 128:
      return 100'000;  // NDR
    default:
      return 0;
  }
}

std::string rate_text(const Port& port) {
  const std::uint32_t rate = rate_of(port.attributes);
  return rate == 0 ? "unknown rate" : fmt::format("{:g} Gb/s", rate / 1000.0);
}

const char* kind_text(const Port& port) noexcept {
  if (port.transport == IBV_TRANSPORT_IWARP) return "iWARP";
  return port.link_layer() == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

const char* state_text(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_ACTIVE:
      return "up";
    case IBV_PORT_INIT:
      return "not set up by a subnet manager yet";
    case IBV_PORT_ARMED:
      return "armed, but not active yet";
    case IBV_PORT_ACTIVE_DEFER:
      return "losing its link";
    default:
      return "down";
  }
}

/// "mlx5_2" before "mlx5_10".
auto by_name(const Port& port) {
  const auto digits = port.device.find_last_not_of("0123456789") + 1;
  const auto number = parse_integer(std::string_view(port.device).substr(digits));
  return std::tuple(std::string_view(port.device).substr(0, digits), number.value_or(-1),
                    port.number);
}

bool is_placed(const Port& port, const topology::RankPlacement& placement) {
  return port.device == placement.nic && (placement.port == 0 || port.number == placement.port);
}

std::string why_not_placed(const Port& port, const topology::RankPlacement& placement) {
  for (const auto& [nic, reason] : placement.others)
    if (nic == port.device) return reason;
  return port.device == placement.nic ? "other ranks take this port" : "topology does not show it";
}

}  // namespace

std::string fault_of(const Port& port, const VerbsOptions& options) {
  if (!port.problem.empty()) return port.problem;
  if (port.transport != IBV_TRANSPORT_IB && port.transport != IBV_TRANSPORT_IWARP)
    return "speaks neither InfiniBand, RoCE nor iWARP, so has no RC queue pairs (as EFA)";
  if (port.attributes.state != IBV_PORT_ACTIVE)
    return fmt::format("is {}", state_text(port.attributes.state));
  if (port.transport == IBV_TRANSPORT_IWARP && !options.connection_manager)
    return "is iWARP, which only the connection manager connects (WEFT_CONNECT=cm)";
  return {};
}

GidChoice gid_of(const Port& port, const VerbsOptions& options) {
  // An iWARP port has one GID, which names it as an InfiniBand port's does.
  constexpr std::uint8_t kAsInfiniBand = IBV_LINK_LAYER_INFINIBAND;
  return choose_gid(port.gids,
                    port.transport == IBV_TRANSPORT_IWARP ? kAsInfiniBand : port.link_layer(),
                    options.gid_index);
}

bool is_better(const Port& a, const Port& b) {
  const std::uint32_t rate_a = rate_of(a.attributes);
  const std::uint32_t rate_b = rate_of(b.attributes);
  if (rate_a != rate_b) return rate_a > rate_b;
  return by_name(a) < by_name(b);
}

bool is_named(const Port& port, std::string_view nic) {
  return nic.empty() || nic == port.device || nic == port.name();
}

void refuse_name(std::span<const Port> ports, const std::string& nic) {
  std::string there;
  for (const Port& port : ports) there += (there.empty() ? "" : ", ") + port.name();
  throw_error(Code::bad_config, "join",
              fmt::format("WEFT_NIC=\"{}\": no such RDMA port is here; there {}", nic,
                          there.empty() ? "is none at all" : "are " + there),
              "name one of them, or unset WEFT_NIC to take the best");
}

std::string Port::name() const { return fmt::format("{}:{}", device, number); }

std::uint8_t Port::link_layer() const noexcept {
  // Devices from before there was RoCE don't say.
  return attributes.link_layer == IBV_LINK_LAYER_UNSPECIFIED
             ? static_cast<std::uint8_t>(IBV_LINK_LAYER_INFINIBAND)
             : attributes.link_layer;
}

std::uint32_t rate_of(const ibv_port_attr& attributes) noexcept {
  return lanes(attributes.active_width) * lane_rate(attributes.active_speed);
}

int bytes_of(ibv_mtu mtu) noexcept { return 128 << static_cast<int>(mtu); }

std::string text(const Port& port) {
  return fmt::format("{}, {}, {}, MTU {}", state_text(port.attributes.state), kind_text(port),
                     rate_text(port), bytes_of(port.attributes.active_mtu));
}

PortChoice choose_port(std::span<const Port> ports, const VerbsOptions& options,
                       const topology::RankPlacement& placement) {
  PortChoice choice;
  if (!options.nic.empty() && std::none_of(ports.begin(), ports.end(), [&](const Port& port) {
        return is_named(port, options.nic);
      }))
    refuse_name(ports, options.nic);
  std::vector<std::size_t> usable;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    if (!is_named(port, options.nic)) {
      choice.passed.push_back(fmt::format("{} is not WEFT_NIC={}", port.name(), options.nic));
      continue;
    }
    std::string reason = fault_of(port, options);
    if (reason.empty()) {
      GidChoice gid = gid_of(port, options);
      if (gid.entry)
        usable.push_back(i);
      else
        reason = std::move(gid.why);
      choice.by_setting |= !gid.entry && options.gid_index >= 0;
    }
    if (!reason.empty()) choice.passed.push_back(fmt::format("{} {}", port.name(), reason));
  }
  const bool by_topology = options.nic.empty() && !placement.nic.empty();
  const auto best =
      std::min_element(usable.begin(), usable.end(), [&](std::size_t a, std::size_t b) {
        const bool placed_a = by_topology && is_placed(ports[a], placement);
        const bool placed_b = by_topology && is_placed(ports[b], placement);
        return placed_a != placed_b ? placed_a : is_better(ports[a], ports[b]);
      });
  if (best == usable.end()) return choice;
  choice.chosen = *best;
  choice.by_setting = false;
  const bool placed = by_topology && is_placed(ports[*best], placement);
  if (placed)
    choice.why = placement.reason;
  else
    choice.why = options.nic.empty() ? "the fastest" : "WEFT_NIC=" + options.nic;
  choice.gid = gid_of(ports[*best], options);
  const std::uint32_t rate = rate_of(ports[*best].attributes);
  for (const std::size_t i : usable)
    if (i != *best)
      choice.passed.push_back(
          placed
              ? fmt::format("{}: {}", ports[i].name(), why_not_placed(ports[i], placement))
              : fmt::format("{} is {}", ports[i].name(),
                            rate_of(ports[i].attributes) < rate ? "slower: " + rate_text(ports[i])
                                                                : "as fast, but later by name"));
  return choice;
}

}  // namespace weft::p2p::verbs
