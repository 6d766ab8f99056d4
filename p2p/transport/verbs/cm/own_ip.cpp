#include "p2p/transport/verbs/cm/own_ip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/os/system_error.hpp"
#include "p2p/transport/verbs/device/gid_choice.hpp"

namespace weft::p2p::verbs {
namespace {

/// Calls that wait to be looked at. In a large job all higher ranks call at once.
constexpr int kBacklog = 1024;

std::vector<IpAddress> candidates(const VerbsAddress& address) {
  std::vector<IpAddress> ips;
  const bool is_roce = address.link_layer == IBV_LINK_LAYER_ETHERNET && address.iwarp == 0;
  if ((is_roce && !is_link_local(address.gid)) || verbs::is_ipv4(address.gid))
    ips.push_back(address.gid);
  for (const InterfaceAddress& one : interface_addresses())
    if (!one.loopback && !is_link_local(one.ip)) ips.push_back(one.ip);
  return ips;
}

/// Empty: the id now names the device's port, and listens.
std::string try_at(ConnectionManager& manager, const Device& device, rdma_cm_id* id,
                   const IpAddress& ip) {
  const SocketAddress address = socket_address(ip, 0);
  if (const int error = manager.bind(id, address.get())) return os::words(error);
  if (id->verbs == nullptr) return "no RDMA device's";
  const std::string name =
      fmt::format("{}:{}", device.verbs().device_name(id->verbs->device), id->port_num);
  if (name != device.name()) return name + "'s";
  if (const int error = manager.listen(id, kBacklog))
    return fmt::format("rdma_listen: {}", os::words(error));
  return {};
}

}  // namespace

Listener listen_at_own_ip(ConnectionManager& manager, rdma_event_channel* events,
                          const Device& device) {
  std::string tried;
  for (const IpAddress& ip : candidates(device.address())) {
    ConnectionId id(manager, manager.create_id(events, nullptr));
    if (!id) os::throw_system_error("rdma_create_id", device.name());
    const std::string why_not = try_at(manager, device, id.get(), ip);
    if (why_not.empty()) return {ip, manager.port(id.get()), std::move(id)};
    tried += fmt::format("{}{} is {}", tried.empty() ? "" : ", ", text(ip), why_not);
  }
  throw Error(ErrorDetail{
      .code = Code::unreachable,
      .operation = "join",
      .message = fmt::format("WEFT_CONNECT=cm: no address of this host is {}'s ({})", device.name(),
                             tried.empty() ? "there is none" : tried),
      .hint = "give the network interface of the port an IP address (on InfiniBand, by IPoIB)"});
}

}  // namespace weft::p2p::verbs
