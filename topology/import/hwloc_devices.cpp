#include "topology/import/hwloc_devices.hpp"

#include <algorithm>
#include <array>

#include "topology/import/trouble.hpp"
#include "topology/model/device_kind.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

constexpr double kMostLinkGbytes = 10'000;  // GB/s of links between GPUs
constexpr double kMostGbytes = 256;         // GB/s; no PCIe link is faster, so the value is wrong

std::string text_of(const XmlElement& element, std::string_view attribute) {
  const std::string* text = element.attribute(attribute);
  return text == nullptr ? std::string{} : *text;
}

std::optional<long> whole_of(const XmlElement& element, std::string_view attribute) {
  return parse_whole(text_of(element, attribute));
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(" \n\t\r"); at != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \n\t\r", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(" \n\t\r", end);
  }
  return words;
}

PortState state_of(long number) {
  switch (number) {  // InfiniBand's numbers
    case 1:
      return PortState::down;
    case 2:
      return PortState::initializing;
    case 3:
      return PortState::armed;
    case 4:
      return PortState::active;
    case 5:
      return PortState::active_defer;
    default:
      return PortState::unknown;
  }
}

}  // namespace

std::string info(const XmlElement& object, std::string_view name) {
  for (const XmlElement& child : object.children)
    if (child.name == "info" && text_of(child, "name") == name) return text_of(child, "value");
  return {};
}

void HwlocDevices::describe(const XmlElement& element, PciNode& node) const {
  node.address = tree_.address(element, "pci_busid");
  // "0302 [10de:20b0] [10de:134f] a1"
  const std::string type = text_of(element, "pci_type");
  const auto device_class = parse_hex(std::string_view(type).substr(0, type.find(' ')));
  if (!device_class || *device_class > 0xffff)
    refuse_file(name_, element.line,
                fmt::format("pci_type=\"{}\" begins with no PCI class", excerpt(type)));
  node.device_class = static_cast<std::uint32_t>(*device_class << 8);
  if (const std::size_t bracket = type.find('['); bracket != std::string::npos) {
    const std::string_view ids = std::string_view(type).substr(bracket + 1);
    const auto half = [](std::string_view text) {
      return static_cast<std::uint16_t>(parse_hex(text.substr(0, 4)).value_or(0));
    };
    node.vendor = half(ids);
    if (ids.size() > 5) node.device = half(ids.substr(5));
  }
  const double gbytes = parse_fraction(text_of(element, "pci_link_speed")).value_or(0);
  node.link.gbytes = gbytes > 0 && gbytes <= kMostGbytes ? gbytes : 0;
  node.description = info(element, "PCIDevice");
  node.sources.push_back({.fact = "link", .source = tree_.source(element.line)});
}

int HwlocDevices::add(const XmlElement& element, int parent, int numa) {
  PciNode node{.parent = parent, .numa = numa};
  describe(element, node);
  const int index = tree_.add(std::move(node), element.line);
  found_[index].line = element.line;
  return index;
}

unsigned HwlocDevices::kind_of(const XmlElement& element) const {
  const auto type = whole_of(element, "osdev_type");
  if (!type || *type < 0 || *type > 1 << 20)
    refuse_file(
        name_, element.line,
        fmt::format("osdev_type=\"{}\" is no type", excerpt(text_of(element, "osdev_type"))));
  if (version_ >= 3)  // a set of bits
    return ((*type & 4) != 0 ? kGpu : 0U) | ((*type & 8) != 0 ? kCoprocessor : 0U) |
           ((*type & 16) != 0 ? kNetwork : 0U) | ((*type & 32) != 0 ? kOpenFabrics : 0U);
  switch (*type) {
    case 1:
      return kGpu;
    case 2:
      return kNetwork;
    case 3:
      return kOpenFabrics;
    case 5:
      return kCoprocessor;
    default:
      return 0;
  }
}

void HwlocDevices::add_os_device(const XmlElement& element, int pci) {
  const unsigned kind = kind_of(element);
  // A device without a PCI device is ignored; so is one below a bridge, because its own PCI device
  // is not known.
  const auto at = found_.find(pci);
  if (at == found_.end()) return;
  Found& found = at->second;
  if (const auto object = whole_of(element, "gp_index")) found.objects.push_back(*object);
  if ((kind & (kGpu | kCoprocessor)) != 0) add_gpu_device(element, found);
  if ((kind & kNetwork) != 0) found.nets.push_back(text_of(element, "name"));
  if ((kind & kOpenFabrics) != 0) add_rdma_device(element, found, pci);
}

void HwlocDevices::add_gpu_device(const XmlElement& element, Found& found) const {
  const std::string name = text_of(element, "name");
  // Any chip that drives a display has a "card0" or ":0.0"; these names mean computing.
  constexpr std::array kComputing{"cuda", "nvml", "rsmi", "opencl", "ze"};
  const bool computes = std::any_of(kComputing.begin(), kComputing.end(),
                                    [&](const char* prefix) { return name.starts_with(prefix); });
  if (!computes || info(element, "OpenCLDeviceType") == "CPU") return;
  found.computes = true;
  if (found.gpu_name.empty() || name.starts_with("cuda")) found.gpu_name = name;
  if (std::string model = info(element, "GPUModel"); !model.empty()) found.model = std::move(model);
  for (const char* key : {"NVIDIAUUID", "AMDUUID"})
    if (std::string uuid = info(element, key); !uuid.empty()) found.uuid = std::move(uuid);
}

void HwlocDevices::add_rdma_device(const XmlElement& element, Found& found, int pci) {
  Nic nic{.pci = pci, .rdma = text_of(element, "name")};
  if (nic.rdma.empty()) refuse_file(name_, element.line, "an OpenFabrics device has no name");
  nic.sources.push_back({.fact = "nic", .source = tree_.source(element.line)});
  constexpr int kMostPorts = 16;
  for (int number = 1; number <= kMostPorts; ++number) {
    const std::string state = info(element, fmt::format("Port{}State", number));
    if (state.empty()) continue;
    Port port{.number = number, .state = state_of(parse_whole(state).value_or(0))};
    if (parse_hex(info(element, fmt::format("Port{}LID", number))).value_or(0) != 0)
      port.layer = LinkLayer::infiniband;  // Ethernet has no LID
    for (const XmlElement& child : element.children)
      if (text_of(child, "name").starts_with(fmt::format("Port{}GID", number))) ++port.gids;
    port.sources.push_back({.fact = "state", .source = tree_.source(element.line)});
    nic.ports.push_back(std::move(port));
  }
  found.rdma.push_back(std::move(nic));
}

void HwlocDevices::conclude() {
  const bool any_named = std::any_of(found_.begin(), found_.end(),
                                     [](const auto& entry) { return !entry.second.rdma.empty(); });
  for (auto& [index, found] : found_) {
    PciNode& node = model_.pci[static_cast<std::size_t>(index)];
    if (!found.model.empty()) node.description = found.model;
    if (found.computes || is_gpu(node.identity(), node.parent != kNone)) {
      Gpu gpu{.pci = index, .os_name = found.gpu_name, .uuid = found.uuid};
      gpu.sources.push_back({.fact = "gpu", .source = tree_.source(found.line)});
      model_.gpus.push_back(std::move(gpu));
    }
    if (found.rdma.empty() && is_nic(node.device_class)) {
      // hwloc lists the RDMA devices of a machine: if it lists any, a NIC without one has no RDMA.
      // An InfiniBand controller always has RDMA.
      constexpr std::uint32_t kInfiniBandClass = 0x0207;
      Nic nic{.pci = index};
      nic.no_rdma = any_named || node.device_class >> 8 != kInfiniBandClass;
      nic.sources.push_back({.fact = "nic", .source = tree_.source(found.line)});
      found.rdma.push_back(std::move(nic));
    }
    for (Nic& nic : found.rdma) {
      nic.nets = found.nets;
      model_.nics.push_back(std::move(nic));
    }
  }
  for (const auto& [who, values] : gpu_matrices_) read_gpu_links(who, values);
}

void HwlocDevices::read_distances(const XmlElement& element) {
  std::vector<std::string> who;
  std::vector<double> values;
  for (const XmlElement& child : element.children) {
    if (child.name == "indexes")
      for (std::string& word : words_of(child.text)) who.push_back(std::move(word));
    if (child.name == "u64values")
      for (const std::string& word : words_of(child.text)) {
        const auto value = parse_fraction(word);
        if (!value)
          refuse_file(name_, child.line, fmt::format("\"{}\" is no number", excerpt(word)));
        values.push_back(*value);
      }
  }
  if (values.size() != who.size() * who.size())
    refuse_file(name_, element.line,
                fmt::format("{} values for {} objects: not a matrix", values.size(), who.size()));
  const std::string matrix = text_of(element, "name");
  if (matrix == "NVLinkBandwidth" || matrix == "XGMIBandwidth") {
    gpu_matrices_.emplace_back(std::move(who), std::move(values));
    return;
  }
  if (matrix != "NUMALatency" || text_of(element, "indexing") != "os") return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto from = parse_whole(who[i / who.size()]);
    const auto to = parse_whole(who[i % who.size()]);
    constexpr double kMostNumber = 1e6;
    const auto is_number = [&](const std::optional<long>& node) {
      return node && *node >= 0 && static_cast<double>(*node) < kMostNumber;
    };
    if (is_number(from) && is_number(to) && values[i] > 0 && values[i] < kMostNumber)
      model_.distances.push_back({.from = static_cast<int>(*from),
                                  .to = static_cast<int>(*to),
                                  .distance = static_cast<int>(values[i])});
  }
}

/// `who` lists OSDevs by gp_index ("421", or "OSDev:421" in mixed lists); values are MB/s.
void HwlocDevices::read_gpu_links(const std::vector<std::string>& who,
                                  const std::vector<double>& values) {
  const auto gpu_of = [&](const std::string& object) {
    const std::string_view text = object;
    const auto index = parse_whole(text.substr(text.find(':') + 1));
    for (std::size_t i = 0; i < model_.gpus.size() && index; ++i) {
      const auto& objects = found_[model_.gpus[i].pci].objects;
      if (std::find(objects.begin(), objects.end(), *index) != objects.end())
        return static_cast<int>(i);
    }
    return kNone;
  };
  std::vector<int> gpus;
  for (const std::string& object : who) gpus.push_back(gpu_of(object));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int from = gpus[i / who.size()];
    const int to = gpus[i % who.size()];
    const double gbytes = values[i] / 1000;
    if (from == kNone || to == kNone || from == to || !(gbytes > 0)) continue;
    model_.gpus[static_cast<std::size_t>(from)].links.push_back(
        {.gpu = to, .gbytes = gbytes <= kMostLinkGbytes ? gbytes : 0});
  }
}

}  // namespace weft::topology
