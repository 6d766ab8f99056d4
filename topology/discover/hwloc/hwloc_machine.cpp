#include "topology/discover/hwloc/hwloc_machine.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace weft::topology {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const noexcept { ::hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct ReleaseDistances {
  hwloc_topology_t topology;
  void operator()(hwloc_distances_s* matrix) const noexcept {
    ::hwloc_distances_release(topology, matrix);
  }
};

/// Left out: components that start drivers (a CUDA or OpenCL context in each rank), and x86, which
/// binds the calling thread to each processor in turn. The others read files alone.
constexpr std::array kUnwanted{"x86", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl", "pci"};

/// Keeps packages, devices with the bridges above them, and the groups that NUMA nodes and host
/// bridges hang on. Caches, cores, processors' speeds and memory modules are left out.
void choose_what_is_read(hwloc_topology_t topology) {
  ::hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  ::hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  ::hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  ::hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // INCLUDE_DISALLOWED: also the nodes and processors that the process's control group excludes.
  ::hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                                           HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                           HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  for (const char* component : kUnwanted)
    ::hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
}

std::vector<int> numbers(hwloc_const_bitmap_t bits) {
  std::vector<int> all;
  if (bits == nullptr) return all;
  for (int bit = ::hwloc_bitmap_first(bits); bit >= 0; bit = ::hwloc_bitmap_next(bits, bit))
    all.push_back(bit);
  return all;
}

int os_number(hwloc_obj_t object) {
  return object->os_index == HWLOC_UNKNOWN_INDEX ? kNone : static_cast<int>(object->os_index);
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* text = ::hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? std::string{} : text;
}

class Reader {
 public:
  explicit Reader(hwloc_topology_t topology) : topology_(topology) {}

  HwlocMachine read() {
    read_packages();
    // hwloc invents a node where the kernel describes none.
    if (::hwloc_topology_get_support(topology_)->discovery->numa != 0) read_memory();
    walk(::hwloc_get_root_obj(topology_), kNone);
    return std::move(machine_);
  }

 private:
  void read_packages() {
    for (hwloc_obj_t package = nullptr; (package = ::hwloc_get_next_obj_by_type(
                                             topology_, HWLOC_OBJ_PACKAGE, package)) != nullptr;)
      machine_.packages.push_back({.number = os_number(package),
                                   .model = info(package, "CPUModel"),
                                   .cpus = numbers(package->cpuset)});
  }

  void read_memory() {
    for (hwloc_obj_t object = nullptr; (object = ::hwloc_get_next_obj_by_type(
                                            topology_, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
      NumaNode node{.number = os_number(object),
                    .bytes = object->attr->numanode.local_memory,
                    .cpus = numbers(object->cpuset),
                    .source = fmt::format("hwloc NUMANode P#{}", object->os_index)};
      if (object->subtype != nullptr && std::string_view(object->subtype) == "GPUMemory")
        node.memory = MemoryKind::gpu;
      else if (node.cpus.empty() || !info(object, "DAXType").empty())
        node.memory = MemoryKind::other;
      machine_.numa.push_back(std::move(node));
    }
    read_distances();
  }

  void read_distances() {
    unsigned count = 1;
    hwloc_distances_s* matrix = nullptr;
    if (::hwloc_distances_get_by_name(topology_, "NUMALatency", &count, &matrix, 0) != 0 ||
        count == 0)
      return;
    const std::unique_ptr<hwloc_distances_s, ReleaseDistances> held(matrix, {topology_});
    for (unsigned from = 0; from < matrix->nbobjs; ++from)
      for (unsigned to = 0; to < matrix->nbobjs; ++to) {
        constexpr hwloc_uint64_t kMost = 1 << 20;
        const hwloc_uint64_t distance = matrix->values[from * matrix->nbobjs + to];
        machine_.distances.push_back({.from = os_number(matrix->objs[from]),
                                      .to = os_number(matrix->objs[to]),
                                      .distance = static_cast<int>(std::min(distance, kMost))});
      }
  }

  /// `pci`: the function or bridge that the object hangs below.
  void walk(hwloc_obj_t object, int pci) {
    if (object->type == HWLOC_OBJ_BRIDGE || object->type == HWLOC_OBJ_PCI_DEVICE)
      pci = add_pci(object, pci);
    else if (object->type == HWLOC_OBJ_OS_DEVICE)
      add_os_device(object, pci);
    for (hwloc_obj_t below = object->io_first_child; below != nullptr; below = below->next_sibling)
      walk(below, pci);
    for (hwloc_obj_t below = object->first_child; below != nullptr; below = below->next_sibling)
      walk(below, pci);
  }

  int add_pci(hwloc_obj_t object, int parent) {
    PciNode node{.parent = parent};
    const bool bridge = object->type == HWLOC_OBJ_BRIDGE;
    if (bridge && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
      const auto& below = object->attr->bridge.downstream.pci;
      node.kind = PciKind::host_bridge;
      node.name = fmt::format("pci{:04x}:{:02x}", below.domain, below.secondary_bus);
      node.numa = numa_of(object->parent);
      if (node.numa != kNone) node.sources.push_back({.fact = "numa", .source = "hwloc"});
    } else {
      describe(object->attr->pcidev, node);
      if (bridge) node.kind = PciKind::bridge;
    }
    machine_.pci.push_back(std::move(node));
    return static_cast<int>(machine_.pci.size()) - 1;
  }

  static void describe(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& function, PciNode& node) {
    node.address = PciAddress{.domain = function.domain,
                              .bus = function.bus,
                              .device = function.dev,
                              .function = function.func};
    node.device_class = static_cast<std::uint32_t>(function.class_id) << 8;
    node.vendor = function.vendor_id;
    node.device = function.device_id;
    node.link.gbytes = std::max(0.0, static_cast<double>(function.linkspeed));
  }

  /// The only node with ordinary memory near an object, or the first of several that serve the same
  /// processors.
  int numa_of(hwloc_obj_t near) const {
    const NumaNode* found = nullptr;
    for (const NumaNode& node : machine_.numa) {
      if (node.memory != MemoryKind::ordinary ||
          ::hwloc_bitmap_isset(near->nodeset, static_cast<unsigned>(node.number)) == 0)
        continue;
      if (found != nullptr && node.cpus != found->cpus) return kNone;
      if (found == nullptr || node.number < found->number) found = &node;
    }
    return found == nullptr ? kNone : found->number;
  }

  void add_os_device(hwloc_obj_t object, int pci) {
    const bool is_function =
        pci != kNone && machine_.pci[static_cast<std::size_t>(pci)].kind == PciKind::device;
    OsDevice device{.name = object->name, .pci = is_function ? pci : kNone};
    if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
      machine_.nets.push_back(std::move(device));
    else if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
      machine_.rdma.push_back(std::move(device));
  }

  hwloc_topology_t topology_;
  HwlocMachine machine_;
};

HwlocMachine load() {
  hwloc_topology_t made = nullptr;
  if (::hwloc_topology_init(&made) != 0)
    return {.problem = fmt::format("hwloc does not start: {}", std::strerror(errno))};
  const Topology topology(made);
  choose_what_is_read(made);
  if (::hwloc_topology_load(made) != 0)
    return {.problem = fmt::format("hwloc can't read this machine: {}", std::strerror(errno))};
  HwlocMachine machine = Reader(made).read();
  if (machine_root().empty() && ::hwloc_topology_is_thissystem(made) == 0)
    machine.problem = "hwloc was told of another machine: see HWLOC_XMLFILE, HWLOC_SYNTHETIC";
  return machine;
}

}  // namespace

std::string machine_root() {
  const char* root = std::getenv("HWLOC_FSROOT");
  return root == nullptr || std::string_view(root) == "/" ? std::string{} : root;
}

HwlocMachine hwloc_machine() {
  if (!machine_root().empty()) return load();
  static const HwlocMachine machine = load();
  return machine;
}

}  // namespace weft::topology
