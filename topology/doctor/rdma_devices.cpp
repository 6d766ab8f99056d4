#include "topology/doctor/rdma_devices.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "topology/discover/steps.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::doctor {
namespace {

using topology::Files;

constexpr const char* kRdma = "/sys/class/infiniband";
constexpr const char* kVerbs = "/sys/class/infiniband_verbs";

/// "4: ACTIVE" as "ACTIVE".
std::string after_colon(const std::string& text) {
  const auto colon = text.find(": ");
  return colon == text.npos ? text : text.substr(colon + 2);
}

/// "100 Gb/sec (4X EDR)" as 100.
double gbps_of(const std::string& rate) {
  return topology::parse_fraction(std::string_view(rate).substr(0, rate.find(' '))).value_or(0);
}

/// "100 Gb/sec (4X EDR)" as 4.
int lanes_of(const std::string& rate) {
  const auto open = rate.find('(');
  const auto end = rate.find('X', std::min(open, rate.size()));
  if (end == rate.npos) return 0;
  return static_cast<int>(
      topology::parse_whole(std::string_view(rate).substr(open + 1, end - open - 1)).value_or(0));
}

/// The entries of a folder whose names are numbers, ascending.
std::vector<long> numbers_in(const Files& files, const std::string& folder) {
  std::vector<long> numbers;
  for (const auto& name : files.list(folder))
    if (const auto number = topology::parse_whole(name)) numbers.push_back(*number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void read_gids(const Files& files, const std::string& folder, RdmaPort& port) {
  const auto indexes = numbers_in(files, folder + "/gids");
  std::size_t read = 0;
  for (const long index : indexes) {
    const auto text = files.read(fmt::format("{}/gids/{}", folder, index));
    Gid gid;
    if (!text || ::inet_pton(AF_INET6, text->c_str(), gid.bytes.data()) != 1) continue;
    ++read;
    if (std::all_of(gid.bytes.begin(), gid.bytes.end(), [](auto b) { return b == 0; })) continue;
    gid.index = static_cast<int>(index);
    gid.type = files.read(fmt::format("{}/gid_attrs/types/{}", folder, index)).value_or("");
    gid.interface = files.read(fmt::format("{}/gid_attrs/ndevs/{}", folder, index)).value_or("");
    port.gids.push_back(std::move(gid));
  }
  port.hides_gids = !indexes.empty() && read == 0;
}

RdmaPort read_port(const Files& files, const std::string& device, long number) {
  const auto folder = fmt::format("{}/{}/ports/{}", kRdma, device, number);
  RdmaPort port{device, static_cast<int>(number)};
  port.state = after_colon(files.read(folder + "/state").value_or(""));
  port.physical = after_colon(files.read(folder + "/phys_state").value_or(""));
  port.link_layer = files.read(folder + "/link_layer").value_or("");
  const auto rate = files.read(folder + "/rate").value_or("");
  port.gbps = gbps_of(rate);
  port.lanes = lanes_of(rate);
  read_gids(files, folder, port);
  return port;
}

}  // namespace

std::string RdmaPort::name() const { return fmt::format("{}:{}", device, number); }

bool Gid::is_ipv4() const noexcept {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto b) { return b == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

bool Gid::is_link_local() const noexcept {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string Gid::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4())
    ::inet_ntop(AF_INET, bytes.data() + 12, text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
  return text.data();
}

std::vector<RdmaDevice> rdma_devices(const Files& files, const topology::Model& model) {
  std::vector<RdmaDevice> devices;
  for (const auto& name : files.list(kRdma)) {
    const auto folder = fmt::format("{}/{}", kRdma, name);
    RdmaDevice device{name};
    if (const auto driver = files.link(folder + "/device/driver"))
      device.driver = driver->substr(driver->rfind('/') + 1);
    // A software device may be attached to a PCI function, but has no address of its own.
    const auto address = topology::pci_in(files.link(folder).value_or(""));
    if (address) device.pci = topology::find_pci(model, *address);
    for (const auto& node : files.list(kVerbs))
      if (files.read(fmt::format("{}/{}/ibdev", kVerbs, node)) == name) device.uverbs = node;
    for (const long number : numbers_in(files, folder + "/ports"))
      device.ports.push_back(read_port(files, name, number));
    devices.push_back(std::move(device));
  }
  return devices;
}

GidRule choose_gid(const RdmaPort& port, std::optional<int> wanted) {
  if (wanted) {
    for (const Gid& gid : port.gids)
      if (gid.index == *wanted) return {gid, fmt::format("WEFT_IB_GID={}", *wanted)};
    return {std::nullopt, fmt::format("there is no GID {}, which WEFT_IB_GID asks for", *wanted)};
  }
  if (!port.is_ethernet()) {
    if (!port.gids.empty() && port.gids.front().index == 0)
      return {port.gids.front(), "the first, as for any InfiniBand port"};
    return {std::nullopt, "there is no GID 0"};
  }
  GidRule rule;
  const auto consider = [&](bool ipv4) {
    for (const Gid& gid : port.gids) {
      if (gid.type != "RoCE v2" || gid.is_link_local() || gid.is_ipv4() != ipv4) continue;
      if (rule.chosen)
        rule.as_good.push_back(gid.index);
      else
        rule.chosen = gid;
    }
  };
  consider(true);
  rule.why = "the first RoCE v2 GID of an IPv4 address";
  if (rule.chosen) return rule;
  consider(false);
  rule.why = rule.chosen ? "the first RoCE v2 GID of a global IPv6 address"
                         : "no RoCE v2 GID has an address that routers pass on";
  return rule;
}

}  // namespace weft::doctor
