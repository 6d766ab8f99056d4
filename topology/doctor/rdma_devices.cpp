#include "topology/doctor/rdma_devices.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "topology/doctor/file_tree.hpp"

namespace weft::doctor {
namespace fs = std::filesystem;
namespace {

/// "4: ACTIVE" as "ACTIVE".
std::string after_colon(const std::string& text) {
  const auto colon = text.find(": ");
  return colon == text.npos ? text : text.substr(colon + 2);
}

/// "100 Gb/sec (4X EDR)": 4.
int lanes_of(const std::string& rate) {
  const auto open = rate.find('(');
  if (open == rate.npos || rate.find('X', open) == rate.npos) return 0;
  return static_cast<int>(leading_number(std::string_view(rate).substr(open + 1)).value_or(0));
}

void read_gids(const fs::path& dir, RdmaPort& port) {
  const auto indexes = list_folder(dir / "gids");
  std::size_t read = 0;
  for (const auto& index : indexes) {
    const auto text = read_line(dir / "gids" / index);
    Gid gid;
    if (!text || ::inet_pton(AF_INET6, text->c_str(), gid.bytes.data()) != 1) continue;
    ++read;
    if (std::all_of(gid.bytes.begin(), gid.bytes.end(), [](auto b) { return b == 0; })) continue;
    gid.index = static_cast<int>(leading_number(index).value_or(0));
    gid.type = read_line(dir / "gid_attrs/types" / index).value_or("");
    gid.interface = read_line(dir / "gid_attrs/ndevs" / index).value_or("");
    port.gids.push_back(std::move(gid));
  }
  port.hides_gids = !indexes.empty() && read == 0;
}

RdmaPort read_port(const std::string& device, const std::string& number, const fs::path& dir) {
  RdmaPort port{device, static_cast<int>(leading_number(number).value_or(0))};
  port.state = after_colon(read_line(dir / "state").value_or(""));
  port.physical = after_colon(read_line(dir / "phys_state").value_or(""));
  port.link_layer = read_line(dir / "link_layer").value_or("");
  const auto rate = read_line(dir / "rate").value_or("");
  port.gbps = leading_number(rate).value_or(0);
  port.lanes = lanes_of(rate);
  read_gids(dir, port);
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

std::vector<RdmaDevice> rdma_devices(const fs::path& root) {
  std::vector<RdmaDevice> devices;
  const auto folder = below(root, "/sys/class/infiniband");
  const auto uverbs = below(root, "/sys/class/infiniband_verbs");
  for (const auto& name : list_folder(folder)) {
    RdmaDevice device{name};
    std::error_code error;
    const auto pci = fs::canonical(folder / name / "device", error);
    // A virtual machine's device may hang on another bus.
    if (!error && is_there(pci / "class")) device.pci = pci;
    const auto driver = fs::read_symlink(folder / name / "device/driver", error);
    if (!error) device.driver = driver.filename().string();
    for (const auto& node : list_folder(uverbs))
      if (read_line(uverbs / node / "ibdev") == name) device.uverbs = node;
    for (const auto& number : list_folder(folder / name / "ports"))
      device.ports.push_back(read_port(name, number, folder / name / "ports" / number));
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
