#include "topology/json/machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weft::topology {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(std::uint32_t value, int digits) { return fmt::format("0x{:0{}x}", value, digits); }

/// "0-17,36-53"
std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end > i) text += fmt::format("-{}", cpus[end]);
    i = end + 1;
  }
  return text;
}

void put_sources(Json& json, const FactSources& sources) {
  if (sources.empty()) return;
  Json all = Json::object();
  for (const FactSource& source : sources) all[source.fact] = source.source;
  json["sources"] = std::move(all);
}

template <typename T>
void put_if(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

void put_if(Json& json, const char* key, const std::string& value) {
  if (!value.empty()) json[key] = value;
}

const char* kind_name(PciKind kind) {
  switch (kind) {
    case PciKind::host_bridge:
      return "host_bridge";
    case PciKind::bridge:
      return "bridge";
    case PciKind::whole_switch:
      return "switch";
    case PciKind::device:
      break;
  }
  return "device";
}

Json link_json(const Link& link) {
  Json json = {{"gbytes", link.gbytes}};
  if (link.gt_per_second > 0) json["gt_per_second"] = link.gt_per_second;
  if (link.width > 0) json["width"] = link.width;
  if (link.best_gt_per_second > 0) json["best_gt_per_second"] = link.best_gt_per_second;
  if (link.best_width > 0) json["best_width"] = link.best_width;
  return json;
}

/// New index of each PCI node, such that parents precede their children and readers need one pass.
std::vector<int> places_of(const Model& model) {
  std::vector<int> places(model.pci.size(), kNone);
  int next = 0;
  for (std::size_t i = 0; i < model.pci.size(); ++i) {
    std::vector<std::size_t> way;
    for (int at = static_cast<int>(i); at != kNone && places[static_cast<std::size_t>(at)] == kNone;
         at = model.pci[static_cast<std::size_t>(at)].parent)
      way.push_back(static_cast<std::size_t>(at));
    for (; !way.empty(); way.pop_back()) places[way.back()] = next++;
  }
  return places;
}

Json pci_json(const PciNode& node, const std::vector<int>& places) {
  Json json = {{"kind", kind_name(node.kind)}};
  json["parent"] =
      node.parent == kNone ? Json(nullptr) : Json(places[static_cast<std::size_t>(node.parent)]);
  if (node.address) json["address"] = node.address->text();
  put_if(json, "name", node.name);
  if (node.device_class != 0) json["class"] = hex(node.device_class, 6);
  if (node.vendor != 0) json["vendor"] = hex(node.vendor, 4);
  if (node.device != 0) json["device"] = hex(node.device, 4);
  json["numa"] = node.numa;
  if (node.kind != PciKind::host_bridge) json["link"] = link_json(node.link);
  put_if(json, "description", node.description);
  put_if(json, "acs_redirect", node.acs_redirect);
  put_if(json, "problem", node.problem);
  put_sources(json, node.sources);
  return json;
}

const char* peer_name(PeerKind kind) {
  return kind == PeerKind::gpu ? "gpu" : kind == PeerKind::nvswitch ? "nvswitch" : "cpu";
}

Json gpu_json(const Gpu& gpu, const std::vector<int>& places) {
  Json json = {{"name", gpu.name}};
  json["pci"] = gpu.pci == kNone ? Json(nullptr) : Json(places[static_cast<std::size_t>(gpu.pci)]);
  put_if(json, "os_name", gpu.os_name);
  put_if(json, "uuid", gpu.uuid);
  if (gpu.cuda_ordinal != kNone) json["cuda_ordinal"] = gpu.cuda_ordinal;
  if (gpu.mig) json["mig"] = true;
  if (gpu.c2c_gbytes > 0) json["c2c_gbytes"] = gpu.c2c_gbytes;
  put_if(json, "gpudirect", gpu.gpudirect);
  put_if(json, "dma_buf", gpu.dma_buf);
  for (const GpuLink& link : gpu.links) {
    Json one = {{"to", peer_name(link.to)}, {"count", link.count}};
    if (link.gpu != kNone) one["gpu"] = link.gpu;
    if (link.target) one["target"] = link.target->text();
    if (link.gbytes > 0) one["gbytes"] = link.gbytes;
    json["links"].push_back(std::move(one));
  }
  put_sources(json, gpu.sources);
  return json;
}

Json port_json(const Port& port) {
  Json json = {{"number", port.number}, {"state", name(port.state)}, {"layer", name(port.layer)}};
  if (port.gbits > 0) json["gbps"] = port.gbits;
  if (port.gids > 0) json["gids"] = port.gids;
  put_if(json, "net", port.net);
  put_sources(json, port.sources);
  return json;
}

Json nic_json(const Nic& nic, const std::vector<int>& places) {
  Json json = {{"name", nic.name}};
  json["pci"] = nic.pci == kNone ? Json(nullptr) : Json(places[static_cast<std::size_t>(nic.pci)]);
  put_if(json, "rdma", nic.rdma);
  if (!nic.nets.empty()) json["nets"] = nic.nets;
  if (nic.numa != kNone) json["numa"] = nic.numa;
  if (nic.no_rdma) json["no_rdma"] = true;
  put_if(json, "gpudirect", nic.gpudirect);
  put_if(json, "problem", nic.problem);
  json["ports"] = Json::array();
  for (const Port& port : nic.ports) json["ports"].push_back(port_json(port));
  put_sources(json, nic.sources);
  return json;
}

Json memory_json(const Model& model) {
  Json json = {{"packages", Json::array()}, {"numa", Json::array()}, {"distances", Json::array()}};
  for (const Package& package : model.packages) {
    Json one = {{"number", package.number}, {"cpus", cpu_list(package.cpus)}};
    put_if(one, "model", package.model);
    json["packages"].push_back(std::move(one));
  }
  for (const NumaNode& node : model.numa) {
    Json one = {{"number", node.number}, {"package", node.package}};
    one["memory"] = node.memory == MemoryKind::ordinary ? "ordinary"
                    : node.memory == MemoryKind::gpu    ? "gpu"
                                                        : "other";
    if (node.bytes != 0) one["bytes"] = node.bytes;
    one["cpus"] = cpu_list(node.cpus);
    put_if(one, "source", node.source);
    json["numa"].push_back(std::move(one));
  }
  for (const NumaDistance& distance : model.distances)
    json["distances"].push_back({distance.from, distance.to, distance.distance});
  return json;
}

}  // namespace

Json machine_json(const Model& model) {
  Json json = {{"origin", name(model.origin)}};
  put_if(json, "file", model.file);
  put_if(json, "host", model.host);
  json.update(memory_json(model));
  const std::vector<int> places = places_of(model);
  std::vector<std::size_t> order(model.pci.size());
  for (std::size_t i = 0; i < places.size(); ++i) order[static_cast<std::size_t>(places[i])] = i;
  json["pci"] = Json::array();
  for (const std::size_t i : order) json["pci"].push_back(pci_json(model.pci[i], places));
  json["gpus"] = Json::array();
  for (const Gpu& gpu : model.gpus) json["gpus"].push_back(gpu_json(gpu, places));
  json["nics"] = Json::array();
  for (const Nic& nic : model.nics) json["nics"].push_back(nic_json(nic, places));
  Json facts = Json::object();
  put_if(facts, "peermem", model.facts.peermem);
  put_if(facts, "iommu", model.facts.iommu);
  put_if(facts, "cuda", model.facts.cuda);
  json["facts"] = std::move(facts);
  json["notes"] = model.notes;
  return json;
}

}  // namespace weft::topology
