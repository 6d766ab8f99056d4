// Reads the "machine" of weft-topo/1, which json/machine.cpp writes.
#include <algorithm>
#include <array>
#include <map>

#include "topology/import/json_fields.hpp"
#include "topology/import/kinds.hpp"
#include "topology/import/trouble.hpp"

namespace weft::topology {
namespace {

constexpr int kMostNumber = 1 << 20;
constexpr double kMostSpeed = 1e6;

class WeftReader {
 public:
  explicit WeftReader(const std::string& file) : file_(file) {}

  Model read(const JsonValue& root) {
    const JsonFields top(root, file_);
    if (const std::string schema = top.text("schema"); schema != "weft-topo/1")
      top.refuse("schema", schema.empty() ? "is missing: this is no JSON of weft-topo"
                                          : fmt::format("is \"{}\"; this version reads weft-topo/1",
                                                        excerpt(schema)));
    const JsonValue* machine = top.find("machine");
    if (machine == nullptr)
      top.refuse("machine", "is missing: gpus and nics alone don't say how they are wired");
    const JsonFields all(*machine, file_);
    model_.origin = Origin::weft;
    model_.host = all.text("host");
    for (const JsonValue& value : all.items("packages")) read_package({value, file_});
    for (const JsonValue& value : all.items("numa")) read_numa({value, file_});
    for (const JsonValue& value : all.items("distances")) read_distance(value);
    for (const JsonValue& value : all.items("pci")) read_pci({value, file_}, value.line);
    const int gpus = static_cast<int>(all.items("gpus").size());
    for (const JsonValue& value : all.items("gpus")) read_gpu({value, file_}, gpus);
    for (const JsonValue& value : all.items("nics")) read_nic({value, file_});
    if (const JsonValue* facts = all.find("facts")) {
      const JsonFields fields(*facts, file_);
      model_.facts = {.peermem = fields.flag("peermem"),
                      .iommu = fields.flag("iommu"),
                      .cuda = fields.text("cuda")};
    }
    for (const JsonValue& note : all.items("notes")) model_.notes.push_back(note.text);
    return std::move(model_);
  }

 private:
  FactSources sources(const JsonFields& fields) const {
    FactSources all;
    const JsonValue* value = fields.find("sources");
    if (value == nullptr) return all;
    if (value->type != JsonValue::Type::object) fields.refuse("sources", "must be an object");
    for (const auto& [fact, source] : value->members)
      all.push_back({.fact = fact, .source = source.text});
    return all;
  }

  template <typename Value, std::size_t N>
  Value one_of(const JsonFields& fields, const char* key,
               const std::array<std::pair<std::string_view, Value>, N>& names) const {
    const std::string text = fields.text(key);
    for (const auto& [name, value] : names)
      if (name == text) return value;
    fields.refuse(key, fmt::format("is \"{}\", which this version does not know", excerpt(text)));
  }

  void read_package(const JsonFields& fields) {
    model_.packages.push_back({.number = fields.whole("number", kNone, kNone, kMostNumber),
                               .model = fields.text("model"),
                               .cpus = fields.cpus("cpus")});
  }

  void read_numa(const JsonFields& fields) {
    static constexpr std::array<std::pair<std::string_view, MemoryKind>, 3> kKinds{
        {{"ordinary", MemoryKind::ordinary},
         {"gpu", MemoryKind::gpu},
         {"other", MemoryKind::other}}};
    NumaNode node;
    node.number = fields.whole("number", kNone, 0, kMostNumber);
    if (node.number == kNone) fields.refuse("number", "is missing");
    if (std::any_of(model_.numa.begin(), model_.numa.end(),
                    [&](const NumaNode& other) { return other.number == node.number; }))
      fields.refuse("number", fmt::format("{} was there before", node.number));
    node.package = fields.whole("package", kNone, kNone, kMostNumber);
    node.memory = one_of(fields, "memory", kKinds);
    node.bytes = static_cast<std::uint64_t>(fields.number("bytes", 1e19));
    node.cpus = fields.cpus("cpus");
    node.source = fields.text("source");
    model_.numa.push_back(std::move(node));
  }

  void read_distance(const JsonValue& value) {
    std::array<int, 3> numbers{};
    if (value.items.size() != numbers.size())
      refuse_file(file_, value.line, "a distance is [from, to, distance]");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const JsonValue& item = value.items[i];
      if (item.type != JsonValue::Type::number || !(item.number >= 0 && item.number <= kMostNumber))
        refuse_file(file_, item.line, "a distance is [from, to, distance]");
      numbers[i] = static_cast<int>(item.number);
    }
    model_.distances.push_back({.from = numbers[0], .to = numbers[1], .distance = numbers[2]});
  }

  void read_pci(const JsonFields& fields, int line) {
    static constexpr std::array<std::pair<std::string_view, PciKind>, 4> kKinds{
        {{"host_bridge", PciKind::host_bridge},
         {"bridge", PciKind::bridge},
         {"switch", PciKind::whole_switch},
         {"device", PciKind::device}}};
    PciNode node;
    node.kind = one_of(fields, "kind", kKinds);
    // Parents precede their children, so the tree cannot have a cycle.
    node.parent = index(fields, "parent", model_.pci.size(), "an entry of \"pci\" before this one");
    node.address = fields.address("address");
    node.name = fields.text("name");
    node.device_class = fields.hex("class", 0xffffff);
    node.vendor = static_cast<std::uint16_t>(fields.hex("vendor", 0xffff));
    node.device = static_cast<std::uint16_t>(fields.hex("device", 0xffff));
    node.numa = fields.whole("numa", kNone, kNone, kMostNumber);
    if (const JsonValue* link = fields.find("link")) node.link = read_link({*link, file_});
    node.description = fields.text("description");
    node.acs_redirect = fields.flag("acs_redirect");
    node.problem = fields.text("problem");
    node.sources = sources(fields);
    if (node.address && node.kind == PciKind::device) {
      const auto [at, fresh] = seen_.try_emplace(*node.address, line);
      if (!fresh)
        fields.refuse("address", fmt::format("{} was there before, in line {}",
                                             node.address->text(), at->second));
    }
    model_.pci.push_back(std::move(node));
  }

  static Link read_link(const JsonFields& fields) {
    return {.gbytes = fields.number("gbytes", kMostSpeed),
            .gt_per_second = fields.number("gt_per_second", kMostSpeed),
            .width = fields.whole("width", 0, 0, kMostNumber),
            .best_gt_per_second = fields.number("best_gt_per_second", kMostSpeed),
            .best_width = fields.whole("best_width", 0, 0, kMostNumber)};
  }

  static int index(const JsonFields& fields, const char* key, std::size_t size, const char* what) {
    const int value = fields.whole(key, kNone, 0, 1 << 30);
    if (value != kNone && static_cast<std::size_t>(value) >= size)
      fields.refuse(key, fmt::format("is {}, which must be {}", value, what));
    return value;
  }

  void read_gpu(const JsonFields& fields, int gpus) {
    Gpu gpu;
    gpu.pci = index(fields, "pci", model_.pci.size(), "an entry of \"pci\"");
    gpu.os_name = fields.text("os_name");
    gpu.uuid = fields.text("uuid");
    gpu.cuda_ordinal = fields.whole("cuda_ordinal", kNone, 0, kMostNumber);
    gpu.mig = fields.flag("mig").value_or(false);
    gpu.c2c_gbytes = fields.number("c2c_gbytes", kMostSpeed);
    gpu.gpudirect = fields.flag("gpudirect");
    gpu.dma_buf = fields.flag("dma_buf");
    for (const JsonValue& value : fields.items("links"))
      gpu.links.push_back(read_gpu_link({value, file_}, gpus));
    gpu.sources = sources(fields);
    model_.gpus.push_back(std::move(gpu));
  }

  GpuLink read_gpu_link(const JsonFields& fields, int gpus) const {
    static constexpr std::array<std::pair<std::string_view, PeerKind>, 3> kKinds{
        {{"gpu", PeerKind::gpu}, {"nvswitch", PeerKind::nvswitch}, {"cpu", PeerKind::cpu}}};
    return {.to = one_of(fields, "to", kKinds),
            .gpu = index(fields, "gpu", static_cast<std::size_t>(gpus), "an entry of \"gpus\""),
            .target = fields.address("target"),
            .count = fields.whole("count", 1, 0, kMostNumber),
            .gbytes = fields.number("gbytes", kMostSpeed)};
  }

  void read_nic(const JsonFields& fields) {
    Nic nic;
    nic.pci = index(fields, "pci", model_.pci.size(), "an entry of \"pci\"");
    nic.rdma = fields.text("rdma");
    nic.name = fields.text("name");
    for (const JsonValue& net : fields.items("nets")) nic.nets.push_back(net.text);
    nic.numa = fields.whole("numa", kNone, kNone, kMostNumber);
    nic.no_rdma = fields.flag("no_rdma").value_or(false);
    nic.gpudirect = fields.flag("gpudirect");
    nic.problem = fields.text("problem");
    for (const JsonValue& port : fields.items("ports"))
      nic.ports.push_back(read_port({port, file_}));
    nic.sources = sources(fields);
    model_.nics.push_back(std::move(nic));
  }

  Port read_port(const JsonFields& fields) const {
    static constexpr std::array<std::pair<std::string_view, PortState>, 6> kStates{
        {{"unknown", PortState::unknown},
         {"down", PortState::down},
         {"init", PortState::initializing},
         {"armed", PortState::armed},
         {"active", PortState::active},
         {"active_defer", PortState::active_defer}}};
    static constexpr std::array<std::pair<std::string_view, LinkLayer>, 3> kLayers{
        {{"unknown", LinkLayer::unknown},
         {"InfiniBand", LinkLayer::infiniband},
         {"Ethernet", LinkLayer::ethernet}}};
    return {.number = fields.whole("number", 1, 0, 255),
            .state = one_of(fields, "state", kStates),
            .layer = one_of(fields, "layer", kLayers),
            .gbits = fields.number("gbps", kMostSpeed),
            .gids = fields.whole("gids", 0, 0, kMostNumber),
            .net = fields.text("net"),
            .sources = sources(fields)};
  }

  const std::string& file_;
  Model model_;
  std::map<PciAddress, int> seen_;  // lines of the devices read
};

}  // namespace

Model read_weft_json(std::string_view text, const std::string& name) {
  return WeftReader(name).read(parse_json(text, name));
}

}  // namespace weft::topology
