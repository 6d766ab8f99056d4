#include "p2p/transport/verbs/device/port_list.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <memory>

#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

std::string open_problem(int error) {
  std::string text = fmt::format("can't be opened: {}", os::words(error));
  if (error == EACCES || error == EPERM) text += " (may this user write /dev/infiniband/uverbs*?)";
  if (error == ENOENT || error == ENODEV) text += " (is /dev/infiniband in this container?)";
  return text;
}

Port ask(Verbs& verbs, ibv_context* context, Port port) {
  if (const int error = verbs.query_port(context, port.number, &port.attributes)) {
    port.problem = fmt::format("can't be asked: {}", os::words(error));
    return port;
  }
  if (port.attributes.state == IBV_PORT_ACTIVE)
    port.gids = list_gids(verbs, context, port.number, port.attributes.gid_tbl_len);
  return port;
}

}  // namespace

std::vector<ibv_gid_entry> list_gids(Verbs& verbs, ibv_context* context, std::uint8_t port,
                                     int table_length) {
  std::vector<ibv_gid_entry> gids;
  for (int index = 0; index < table_length; ++index) {
    ibv_gid_entry entry{};
    if (verbs.query_gid(context, port, static_cast<std::uint32_t>(index), &entry) == 0)
      gids.push_back(entry);
  }
  return gids;
}

Context open_again(Verbs& verbs, const std::string& device) {
  int count = 0;
  const auto free_list = [&verbs](ibv_device** devices) { verbs.free_device_list(devices); };
  const std::unique_ptr<ibv_device*, decltype(free_list)> devices(verbs.device_list(&count),
                                                                  free_list);
  for (int i = 0; devices != nullptr && i < count; ++i)
    if (device == verbs.device_name(devices.get()[i]))
      return {verbs, verbs.open_device(devices.get()[i])};
  return {};
}

PortList list_ports(Verbs& verbs) {
  PortList list;
  int count = 0;
  const auto free_list = [&verbs](ibv_device** devices) { verbs.free_device_list(devices); };
  const std::unique_ptr<ibv_device*, decltype(free_list)> devices(verbs.device_list(&count),
                                                                  free_list);
  if (devices == nullptr)
    throw Error(ErrorDetail{
        .code = Code::unreachable,
        .operation = "join",
        .message = fmt::format("RDMA devices can't be listed: {}", os::words(errno)),
        .hint = "load the kernel module ib_uverbs, and bring /dev/infiniband into the container"});
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    ibv_device* device = devices.get()[i];
    Port port;
    port.device = verbs.device_name(device);
    port.device_index = i;
    port.transport = device->transport_type;
    list.devices.emplace_back(verbs, verbs.open_device(device));
    if (!list.devices.back()) {
      port.problem = open_problem(errno);
      list.ports.push_back(std::move(port));
      continue;
    }
    ibv_context* context = list.devices.back().get();
    ibv_device_attr attributes{};
    if (const int error = verbs.query_device(context, &attributes)) {
      port.problem = fmt::format("can't be asked: {}", os::words(error));
      list.ports.push_back(std::move(port));
      continue;
    }
    for (std::uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
      port.number = number;
      list.ports.push_back(ask(verbs, context, port));
    }
  }
  return list;
}

}  // namespace weft::p2p::verbs
