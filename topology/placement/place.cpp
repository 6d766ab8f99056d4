#include "topology/placement/place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/os/numa.hpp"
#include "topology/discover/discover.hpp"
#include "topology/discover/files.hpp"
#include "topology/discover/hwloc/hwloc_machine.hpp"
#include "topology/import/import.hpp"
#include "topology/placement/gpu_choice.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

bool same_address(const Model& a, const Nic& nic_a, const Model& b, const Nic& nic_b) {
  const auto address = a.address_of(nic_a);
  return address && address == b.address_of(nic_b);
}

/// The live NIC that corresponds to `nic` of the file: the one at the same address; if there are
/// several, the one with the same name.
const Nic* live_nic(const Model& file, const Nic& nic, const Model& live) {
  const Nic* found = nullptr;
  for (const Nic& candidate : live.nics) {
    if (!nic.rdma.empty() && candidate.rdma == nic.rdma &&
        (!file.address_of(nic) || same_address(file, nic, live, candidate)))
      return &candidate;
    if (found == nullptr && same_address(file, nic, live, candidate)) found = &candidate;
  }
  return found;
}

std::vector<int> processor_nodes(const Model& model) {
  std::vector<int> nodes;
  for (const NumaNode& node : model.numa)
    if (node.memory == MemoryKind::ordinary && !node.cpus.empty()) nodes.push_back(node.number);
  return nodes;
}

/// The parts of the machine over which ranks may have been distributed: NUMA nodes if this rank
/// runs on one, packages if it runs on several; empty if it runs on none.
std::vector<std::vector<int>> parts_like(const Model& model, const std::vector<int>& own_nodes) {
  std::vector<std::vector<int>> parts;
  for (const NumaNode& node : model.numa) {
    if (node.memory != MemoryKind::ordinary || node.cpus.empty()) continue;
    if (own_nodes.size() == 1) parts.push_back(node.cpus);
  }
  if (own_nodes.size() > 1)
    for (const Package& package : model.packages)
      if (!package.cpus.empty()) parts.push_back(package.cpus);
  return parts;
}

/// Not empty only if selection would have chosen a NIC that weft cannot drive.
std::string why_no_rdma(const Model& model, const Selection& selection) {
  for (const NicVerdict& verdict : selection.nics)
    if (!verdict.not_driven.empty() && verdict.reason == verdict.not_driven)
      return fmt::format("{} is not driven: {}",
                         model.nics[static_cast<std::size_t>(verdict.nic)].name,
                         verdict.not_driven);
  return {};
}

/// Which ranks' GPUs count in the choice of their NICs.
void set_gpus(const Model& model, const GivenGpus& given, std::vector<HostRank>& ranks) {
  for (std::size_t i = 0; i < given.of_rank.size(); ++i) {
    const int gpu = given.of_rank[i];
    const int own = model.numa_of(model.gpus[static_cast<std::size_t>(gpu)]);
    const int node = own == kNone ? model.sole_numa() : own;
    const std::vector<int> nodes = model.numa_of_cpus(ranks[i].cpus);
    if (given.is_named || nodes.empty() ||
        std::find(nodes.begin(), nodes.end(), node) != nodes.end())
      ranks[i].gpu = gpu;
  }
}

/// Names the rank's GPU and those that the process is assumed to see.
void name_gpus(const Model& model, const RankOnHost& own, const GivenGpus& given,
               RankPlacement& placement) {
  placement.gpu_reason = given.reason;
  const auto address_of = [&](int gpu) {
    const auto address = model.address_of(model.gpus[static_cast<std::size_t>(gpu)]);
    return address ? address->text() : std::string();
  };
  for (const int gpu : given.visible) placement.visible_gpus.push_back(address_of(gpu));
  if (!given.of_rank.empty())
    placement.gpu = address_of(given.of_rank.at(static_cast<std::size_t>(own.index)));
}

/// Whether the path is no shorter than it looks.
bool is_known(const Model& model, const RankOnHost& own, const Gpu& gpu, const Nic& nic,
              PathClass path_class) {
  if (!own.wiring_shown || gpu.pci == kNone || nic.pci == kNone) return false;
  switch (path_class) {
    case PathClass::PHB:
    case PathClass::NODE:
      return own.coherent_links_known;
    case PathClass::SYS:
      return model.numa_of(gpu) != kNone && model.numa_of(nic) != kNone;
    default:
      return true;
  }
}

/// RankPlacement::far_gpus of one NIC.
void find_far_gpus(const Model& model, const RankOnHost& own, int nic, const Policy& policy,
                   std::vector<FarGpu>& far) {
  const Nic& from = model.nics[static_cast<std::size_t>(nic)];
  if (from.rdma.empty()) return;
  for (const Gpu& gpu : model.gpus) {
    const auto address = model.address_of(gpu);
    const PathClass path_class = path_between(model, gpu, from).path_class;
    if (address && path_class > policy.gdr_level && is_known(model, own, gpu, from, path_class))
      far.push_back({from.rdma, address->text(),
                     fmt::format("{} is beyond {}", name(path_class), name(policy.gdr_level))});
  }
}

/// The driver's GPUs that this process may open: a container has some of the machine's, and device
/// groups close further ones.
std::vector<DrivenGpu> driven_gpus(const Files& files, const std::string& root) {
  std::vector<DrivenGpu> driven;
  const std::string folder = "/proc/driver/nvidia/gpus";
  for (const std::string& pci : files.list(folder)) {
    const std::string facts =
        files.read(fmt::format("{}/{}/information", folder, pci)).value_or("");
    const auto field = [&](std::string_view title) {
      const std::size_t at = facts.find(title);
      if (at == std::string::npos) return std::string();
      const std::size_t end = std::min(facts.find('\n', at), facts.size());
      const std::size_t from = facts.find_first_not_of(": \t", at + title.size());
      return from < end ? facts.substr(from, end - from) : std::string();
    };
    const std::string minor = field("Device Minor");
    const std::string device = fmt::format("{}/dev/nvidia{}", root, minor);
    if (!minor.empty() && ::access(device.c_str(), R_OK | W_OK) != 0) continue;
    std::string uuid = field("GPU UUID");
    // The driver writes question marks for a GPU that nobody has opened.
    if (uuid.find('?') != std::string::npos) uuid.clear();
    driven.push_back({pci, std::move(uuid)});
  }
  return driven;
}

bool is_virtual(const Files& files) {
  return files.exists("/sys/hypervisor/type") ||
         files.read("/proc/cpuinfo").value_or("").find(" hypervisor") != std::string::npos;
}

#if defined(__x86_64__)
constexpr bool kMayHaveCoherentLinks = false;
#else
constexpr bool kMayHaveCoherentLinks = true;
#endif

/// NUMA node for the rank's arenas.
int beside_rank(const Model& model, const std::vector<int>& cpus, int beside_nic) {
  const std::vector<int> own = model.numa_of_cpus(cpus);
  const bool nic_is_near =
      own.empty() || std::find(own.begin(), own.end(), beside_nic) != own.end();
  return nic_is_near ? beside_nic : own.front();
}

}  // namespace

Policy policy_of(const Config& config) {
  Policy policy;
  // Further ports that it names are no matter of choice.
  const std::string& nics = config.text(Setting::nic);
  policy.nic = nics.substr(0, nics.find(','));
  policy.gpu_nic = parse_gpu_nic(config.text(Setting::gpu_nic));
  set_gdr_level(policy, config.text(Setting::gdr_level));
  return policy;
}

Model machine_of(const Config& config, Model live) {
  const std::string& path = config.text(Setting::topo_file);
  if (path.empty()) return live;
  Model file;
  try {
    file = import_file(path);
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.code = Code::bad_config;
    detail.message = "WEFT_TOPO_FILE: " + detail.message;
    throw Error(std::move(detail));
  }
  std::size_t here = 0;
  for (Nic& nic : file.nics) {
    const Nic* own = live_nic(file, nic, live);
    if (own == nullptr) {
      nic.problem = "WEFT_TOPO_FILE has this NIC, this machine has not";
      continue;
    }
    ++here;
    nic.rdma = own->rdma;
    nic.name = own->name;
    nic.nets = own->nets;
    nic.ports = own->ports;
    nic.no_rdma = own->no_rdma;
    nic.problem = own->problem;
  }
  const auto gpus_here = std::count_if(file.gpus.begin(), file.gpus.end(), [&](const Gpu& gpu) {
    const auto address = file.address_of(gpu);
    return address && find_gpu(live, address->text()) != kNone;
  });
  if (here == 0 && gpus_here == 0) {
    live.notes.push_back(fmt::format(
        "WEFT_TOPO_FILE={} describes another machine: none of its devices is here; not used",
        path));
    return live;
  }
  if (here < file.nics.size() || static_cast<std::size_t>(gpus_here) < file.gpus.size())
    file.notes.push_back(fmt::format("WEFT_TOPO_FILE={}: {} of {} NICs and {} of {} GPUs are here",
                                     path, here, file.nics.size(), gpus_here, file.gpus.size()));
  // Processors and memory are those of this machine: the file may be outdated.
  if (!live.numa.empty()) {
    file.numa = std::move(live.numa);
    file.packages = std::move(live.packages);
    file.distances = std::move(live.distances);
  }
  file.facts = live.facts;
  finish(file);
  return file;
}

std::vector<HostRank> assume_ranks(const Model& model, const RankOnHost& own) {
  const std::vector<int> own_nodes = model.numa_of_cpus(own.cpus);
  const auto parts = parts_like(model, own_nodes);
  const auto covers = [&](const std::vector<int>& part) {
    return !own.cpus.empty() && std::all_of(own.cpus.begin(), own.cpus.end(), [&](int cpu) {
      return std::find(part.begin(), part.end(), cpu) != part.end();
    });
  };
  const auto at = std::find_if(parts.begin(), parts.end(), covers);
  const auto mine = static_cast<int>(at - parts.begin());
  const auto count = static_cast<int>(parts.size());
  const bool dealt = at != parts.end() && own.index % count == mine;
  const bool blocks = at != parts.end() && own.index * count / own.count == mine;
  std::vector<HostRank> ranks;
  for (int i = 0; i < own.count; ++i) {
    HostRank rank{.rank = i, .cpus = own.cpus};
    if (i != own.index && (dealt || blocks))
      rank.cpus = parts[static_cast<std::size_t>(dealt ? i % count : i * count / own.count)];
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

RankPlacement place_rank(const Model& model, const RankOnHost& own, const Policy& policy) {
  RankPlacement placement{.notes = model.notes};
  Policy driven = policy;
  driven.driven_only = true;
  std::vector<HostRank> ranks = assume_ranks(model, own);
  const GivenGpus given = give_gpus(model, own);
  set_gpus(model, given, ranks);
  name_gpus(model, own, given, placement);
  const Selection selection = select(model, ranks, driven);
  const Choice& choice = selection.choices.at(static_cast<std::size_t>(own.index));
  if (choice.nic == kNone) {
    placement.reason = why_no_rdma(model, selection);
    if (!placement.reason.empty()) placement.notes.push_back(placement.reason);
    return placement;
  }
  placement.nic = model.nics[static_cast<std::size_t>(choice.nic)].rdma;
  placement.port = choice.port;
  placement.reason = choice.reason;
  for (const int rail : choice.rails) {
    const Nic& nic = model.nics[static_cast<std::size_t>(rail)];
    const std::vector<int>& ports = selection.nics[static_cast<std::size_t>(rail)].ports;
    if (nic.rdma.empty()) continue;
    if (ports.empty()) placement.rails.emplace_back(nic.rdma, 0);
    for (const int port : ports) placement.rails.emplace_back(nic.rdma, port);
  }
  for (const Candidate& candidate : choice.candidates)
    if (const Nic& nic = model.nics[static_cast<std::size_t>(candidate.nic)];
        candidate.nic != choice.nic && !nic.rdma.empty())
      placement.others.emplace_back(nic.rdma, candidate.reason);
  if (!placement.gpu.empty()) {
    find_far_gpus(model, own, choice.nic, policy, placement.far_gpus);
    for (const int rail : choice.rails)
      if (rail != choice.nic) find_far_gpus(model, own, rail, policy, placement.far_gpus);
  }
  // With a single NUMA node there is no preference.
  if (processor_nodes(model).size() > 1) {
    const int beside_nic = model.numa_of(model.nics[static_cast<std::size_t>(choice.nic)]);
    placement.numa = beside_rank(model, own.cpus, beside_nic);
    placement.staging = beside_nic != kNone ? beside_nic : choice.bounce_numa;
  }
  return placement;
}

std::vector<int> nodes_for_arenas() {
  return os::has_memory_policy() ? std::vector<int>{} : nodes_with_processors();
}

RankPlacement place_rank(const Config& config, const RankOnHost& rank) {
  Policy policy = policy_of(config);
  const Files files(machine_root());
  RankOnHost own = rank;
  own.gpu = config.text(Setting::gpu);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) own.visible_gpus = visible;
  // Slingshot NICs are not RDMA devices, but a job reports why it does not use them.
  const bool has_fabric =
      !files.list("/sys/class/infiniband").empty() || !files.list("/sys/class/cxi").empty();
  if (!has_fabric && config.text(Setting::topo_file).empty()) return {};
  // CUDA is not queried: a job without tensors on GPUs never calls its driver.
  const Model model = machine_of(
      config,
      has_fabric ? discover({.cuda = nullptr, .count_gids = false, .nvml = nullptr}) : Model{});
  if (!has_fabric) return {};
  own.driven_gpus = driven_gpus(files, machine_root());
  const bool is_live = model.origin == Origin::live;
  own.wiring_shown = !is_live || !is_virtual(files);
  own.coherent_links_known =
      !kMayHaveCoherentLinks || (!is_live && model.origin != Origin::hwloc_xml);
  if (policy.nic.empty()) return place_rank(model, own, policy);
  try {
    return place_rank(model, own, policy);
  } catch (const Error& error) {
    // The verbs fabric opens the ports and decides finally whether WEFT_NIC can be used.
    policy.nic.clear();
    const RankPlacement other = place_rank(model, own, policy);
    RankPlacement placement{.gpu = other.gpu,
                            .gpu_reason = other.gpu_reason,
                            .visible_gpus = other.visible_gpus,
                            .notes = other.notes};
    placement.notes.push_back(error.detail().message);
    return placement;
  }
}

}  // namespace weft::topology
