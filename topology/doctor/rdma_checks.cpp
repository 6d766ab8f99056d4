// Checks of RDMA devices: driver, library, access rights, ports, addresses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "topology/doctor/checks.hpp"

namespace weft::doctor {
namespace {

const char* const kNoDevice = "no RDMA device is here";

/// Applies `look` to every active port; returns one finding if there is none.
template <typename Look>
Findings for_active_ports(const Scene& scene, Look look) {
  Findings findings;
  for (const RdmaDevice& device : scene.rdma)
    for (const RdmaPort& port : device.ports)
      if (port.is_active()) findings.push_back(look(device, port));
  if (findings.empty())
    findings.push_back({.says = scene.rdma.empty() ? kNoDevice : "no RDMA port is active"});
  return findings;
}

/// True if an RDMA driver could drive the function: InfiniBand controllers, and NVIDIA's Ethernet
/// NICs, all of which support RoCE.
bool could_rdma(const topology::PciNode& node) {
  const auto base = node.device_class >> 8;
  return base == 0x0207 || (base == 0x0200 && node.vendor == 0x15b3);
}

std::string table_text(const RdmaPort& port) {
  std::vector<std::string> entries;
  for (const Gid& gid : port.gids)
    entries.push_back(fmt::format("{} {} {}{}{}", gid.index, gid.text(), gid.type,
                                  gid.interface.empty() ? "" : " ", gid.interface));
  return entries.empty() ? "empty" : fmt::format("{}", fmt::join(entries, "; "));
}

/// Payload bytes of a RoCE v2 packet for an Ethernet MTU of `mtu` bytes: the kernel reserves 96
/// bytes for headers and rounds down to a power of two.
int packet_bytes(int mtu) {
  for (int bytes = 4096; bytes >= 256; bytes /= 2)
    if (mtu - 96 >= bytes) return bytes;
  return 0;
}

std::string interface_of(const RdmaPort& port, const Host& host) {
  const auto rule = choose_gid(port, host.gid_index);
  if (rule.chosen) return rule.chosen->interface;
  return port.gids.empty() ? "" : port.gids.front().interface;
}

}  // namespace

Findings check_rdma_driver(const Scene& scene) {
  Findings findings;
  for (std::size_t i = 0; i < scene.model.pci.size(); ++i) {
    const int pci = static_cast<int>(i);
    const std::string_view why = topology::why_not_driven(scene.node(pci).identity());
    if (why.empty()) continue;
    findings.push_back({.verdict = Verdict::warn,
                        .subject = scene.address(pci),
                        .says = fmt::format("{}: a job reaches other hosts by TCP", why),
                        .fix = "none for this NIC; an InfiniBand or RoCE NIC is driven by verbs"});
  }
  const auto nics = scene.nics();
  for (std::size_t i = 0; i < scene.model.pci.size(); ++i) {
    const int pci = static_cast<int>(i);
    if (!could_rdma(scene.node(pci)) || std::find(nics.begin(), nics.end(), pci) != nics.end())
      continue;
    const bool infiniband = (scene.node(pci).device_class >> 8) == 0x0207;
    findings.push_back(
        {.verdict = infiniband ? Verdict::fail : Verdict::warn,
         .subject = scene.address(pci),
         .says = infiniband ? "an InfiniBand controller without an RDMA device"
                            : "a NIC that can do RDMA, without an RDMA device",
         .fix = "modprobe mlx5_ib (its own driver for another vendor); in a container, the device "
                "may be in another namespace: `rdma system` on the host"});
  }
  if (!findings.empty()) return findings;
  if (scene.rdma.empty()) return {{.says = kNoDevice}};
  std::vector<std::string> names;
  for (const RdmaDevice& device : scene.rdma)
    names.push_back(device.driver.empty() ? device.name + " (software)"
                                          : fmt::format("{} ({})", device.name, device.driver));
  return {{.verdict = Verdict::ok, .says = fmt::format("{}", fmt::join(names, ", "))}};
}

Findings check_rdma_library(const Scene& scene) {
  if (scene.rdma.empty()) return {{.says = kNoDevice}};
  const auto library = scene.host.library("libibverbs.so.1");
  if (!library.loaded)
    return {{.verdict = Verdict::fail,
             .says = fmt::format("libibverbs can't be loaded: {}", library.detail),
             .fix = "apt-get install libibverbs1 ibverbs-providers"}};
  const auto providers = scene.files.list("/etc/libibverbs.d");
  if (providers.empty())
    return {{.verdict = Verdict::warn,
             .says = "libibverbs is here, but /etc/libibverbs.d names no provider: it may not know "
                     "the device",
             .fix = "apt-get install ibverbs-providers"}};
  return {{.verdict = Verdict::ok,
           .says = fmt::format("libibverbs loads; {} providers", providers.size())}};
}

Findings check_rdma_rights(const Scene& scene) {
  if (scene.rdma.empty()) return {{.says = kNoDevice}};
  Findings findings;
  for (const RdmaDevice& device : scene.rdma) {
    const auto add = [&](Verdict verdict, std::string says, std::string fix) {
      findings.push_back({.verdict = verdict,
                          .subject = device.name,
                          .says = std::move(says),
                          .fix = std::move(fix)});
    };
    if (device.uverbs.empty()) {
      add(Verdict::fail, "the kernel offers no device file for it", "modprobe ib_uverbs");
      continue;
    }
    const auto file = "/dev/infiniband/" + device.uverbs;
    const int error = scene.host.try_open(file);
    if (error == 0)
      add(Verdict::ok, file + " can be opened", "");
    else if (error == ENOENT)
      add(Verdict::fail, file + " is not here", "--device=/dev/infiniband for the container");
    else
      add(Verdict::fail, fmt::format("{}: {}", file, std::strerror(error)),
          "a udev rule with MODE=\"0666\" (package rdma-core has it), or the file's group for the "
          "user; --device=/dev/infiniband for a container");
  }
  if (scene.host.try_open("/dev/infiniband/rdma_cm") != 0)
    findings.push_back({.verdict = Verdict::warn,
                        .subject = "rdma_cm",
                        .says = "/dev/infiniband/rdma_cm can't be opened: WEFT_CONNECT=cm, which "
                                "iWARP needs, is not possible",
                        .fix = "modprobe rdma_ucm; --device=/dev/infiniband for a container"});
  return findings;
}

Findings check_ports(const Scene& scene) {
  if (scene.rdma.empty()) return {{.says = kNoDevice}};
  bool any_active = false;
  for (const RdmaDevice& device : scene.rdma)
    for (const RdmaPort& port : device.ports) any_active |= port.is_active();
  Findings findings;
  for (const RdmaDevice& device : scene.rdma) {
    for (const RdmaPort& port : device.ports) {
      Finding finding{.subject = port.name()};
      finding.says =
          fmt::format("{}, {}, {}, {:g} Gb/s", port.state.empty() ? "unknown" : port.state,
                      port.physical, port.link_layer, port.gbps);
      if (port.is_active()) {
        finding.verdict = Verdict::ok;
      } else if (port.state == "INIT" || port.state == "ARMED") {
        finding.verdict = Verdict::fail;
        finding.says += ": the link is up, but no subnet manager has set the port up";
        finding.fix = "start a subnet manager (opensm, or the switch's)";
      } else {
        finding.verdict = any_active ? Verdict::warn : Verdict::fail;
        finding.fix = port.physical == "Disabled"
                          ? "ip link set its interface up (RoCE); ibportstate enable (InfiniBand)"
                          : "plug in or replace the cable; look at the switch's port";
      }
      findings.push_back(std::move(finding));
    }
    if (device.ports.empty())
      findings.push_back({.verdict = Verdict::warn,
                          .subject = device.name,
                          .says = "has no port",
                          .fix = "check the driver's messages: dmesg"});
  }
  return findings;
}

Findings check_gids(const Scene& scene) {
  return for_active_ports(scene, [&](const RdmaDevice&, const RdmaPort& port) -> Finding {
    if (port.hides_gids)
      return {
          .verdict = Verdict::fail,
          .subject = port.name(),
          .says = "the GIDs can't be read: the port's interface is in another network namespace",
          .fix = "--network=host for the container, or move the interface into it"};
    const auto rule = choose_gid(port, scene.host.gid_index);
    const auto table = table_text(port);
    if (!rule.chosen)
      return {.verdict = Verdict::fail,
              .subject = port.name(),
              .says = fmt::format("{}; table: {}", rule.why, table),
              .fix = scene.host.gid_index ? "set WEFT_IB_GID to an index of the table, or unset it"
                                          : "give the port's interface an IP address"};
    const auto chosen =
        fmt::format("index {} ({}), {}", rule.chosen->index, rule.chosen->text(), rule.why);
    if (!rule.as_good.empty())
      return {
          .verdict = Verdict::warn,
          .subject = port.name(),
          .says = fmt::format("{}; {} would do as well; table: {}", chosen,
                              fmt::join(rule.as_good, ", "), table),
          .fix =
              "set WEFT_IB_GID if the hosts reach each other over another network than this one"};
    return {.verdict = Verdict::ok,
            .subject = port.name(),
            .says = fmt::format("{}; table: {}", chosen, table)};
  });
}

Findings check_mtu(const Scene& scene) {
  return for_active_ports(scene, [&](const RdmaDevice&, const RdmaPort& port) -> Finding {
    if (!port.is_ethernet())
      return {.subject = port.name(),
              .says = "the subnet manager sets InfiniBand's MTU; ibv_devinfo shows it"};
    const auto interface = interface_of(port, scene.host);
    const auto mtu = interface.empty()
                         ? std::nullopt
                         : scene.files.read_number(fmt::format("/sys/class/net/{}/mtu", interface));
    if (!mtu)
      return {.subject = port.name(), .says = "the port's network interface is not visible here"};
    const int bytes = packet_bytes(static_cast<int>(*mtu));
    Finding finding{.verdict = bytes >= 4096   ? Verdict::ok
                               : bytes >= 1024 ? Verdict::warn
                                               : Verdict::fail,
                    .subject = port.name()};
    finding.says =
        fmt::format("{} has MTU {}: packets carry {} bytes of 4096", interface, *mtu, bytes);
    if (finding.verdict != Verdict::ok)
      finding.fix = fmt::format("ip link set {} mtu 9000, on every host and switch of the network",
                                interface);
    return finding;
  });
}

}  // namespace weft::doctor
