#include "topology/placement/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

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

/// The paths from the NIC to every GPU of the host. `nic`: kNone: there is none for the rank.
std::vector<GpuPlacement> place_gpus(const Model& model, int nic, const Policy& policy) {
  std::vector<GpuPlacement> placed;
  for (const Gpu& gpu : model.gpus) {
    const auto address = model.address_of(gpu);
    if (!address) continue;
    GpuPlacement one{.pci = address->text(), .staging = model.numa_of(gpu)};
    if (nic == kNone) {
      one.reason = "no NIC is used";
      placed.push_back(std::move(one));
      continue;
    }
    const Nic& its = model.nics[static_cast<std::size_t>(nic)];
    const Path path = path_between(model, gpu, its);
    const std::string hindrance = gdr_hindrance(model, gpu, its, path, policy);
    one.gdr = hindrance.empty();
    one.reason = one.gdr ? fmt::format("{} ({}) is within {}", name(path.path_class), path.text,
                                       name(policy.gdr_level))
                         : hindrance;
    if (const int beside = model.numa_of(its); beside != kNone) one.staging = beside;
    if (one.staging == kNone) one.staging = model.sole_numa();
    placed.push_back(std::move(one));
  }
  return placed;
}

/// Names the rank's GPU. Call after place_gpus().
void place_gpu(const Model& model, int gpu, RankPlacement& placement) {
  if (gpu == kNone) return;
  const auto address = model.address_of(model.gpus[static_cast<std::size_t>(gpu)]);
  if (!address) return;
  placement.gpu = address->text();
  for (const GpuPlacement& one : placement.gpus)
    if (one.pci == placement.gpu) placement.gdr = one.gdr;
}

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
  placement.gpu_reason = give_gpus(model, own, ranks);
  const Selection selection = select(model, ranks, driven);
  const Choice& choice = selection.choices.at(static_cast<std::size_t>(own.index));
  placement.gpus = place_gpus(model, choice.nic, policy);
  place_gpu(model, choice.gpu, placement);
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
  // With a single NUMA node there is no preference.
  if (processor_nodes(model).size() > 1) {
    const int beside_nic = model.numa_of(model.nics[static_cast<std::size_t>(choice.nic)]);
    placement.numa = beside_rank(model, own.cpus, beside_nic);
    placement.staging = beside_nic != kNone ? beside_nic : choice.bounce_numa;
  }
  return placement;
}

RankPlacement only_gpu(const Model& model, const RankOnHost& own, const Policy& policy) {
  RankPlacement placement{.notes = model.notes};
  std::vector<HostRank> ranks = assume_ranks(model, own);
  placement.gpu_reason = give_gpus(model, own, ranks);
  placement.gpus = place_gpus(model, kNone, policy);
  const int gpu = ranks.at(static_cast<std::size_t>(own.index)).gpu;
  place_gpu(model, gpu, placement);
  if (gpu != kNone && processor_nodes(model).size() > 1)
    placement.staging = model.numa_of(model.gpus[static_cast<std::size_t>(gpu)]);
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
  const bool has_fabric = own.needs_nic && (!files.list("/sys/class/infiniband").empty() ||
                                            !files.list("/sys/class/cxi").empty());
  own.driven_gpus = files.list("/proc/driver/nvidia/gpus");
  const bool has_gpus = !own.driven_gpus.empty();
  const bool looks = has_fabric || has_gpus;
  if (!looks && (!own.needs_nic || config.text(Setting::topo_file).empty())) return {};
  // CUDA is not queried: a job without tensors on GPUs never calls its driver.
  const Model model = machine_of(
      config, looks ? discover({.cuda = nullptr, .count_gids = false, .nvml = nullptr}) : Model{});
  if (!looks) return {};
  if (!has_fabric) return only_gpu(model, own, policy);
  if (policy.nic.empty()) return place_rank(model, own, policy);
  try {
    return place_rank(model, own, policy);
  } catch (const Error& error) {
    // The verbs fabric opens the ports and decides finally whether WEFT_NIC can be used.
    policy.nic.clear();
    const RankPlacement other = place_rank(model, own, policy);
    RankPlacement placement{.gpu = other.gpu, .gpu_reason = other.gpu_reason, .notes = other.notes};
    placement.notes.push_back(error.detail().message);
    return placement;
  }
}

}  // namespace weft::topology
