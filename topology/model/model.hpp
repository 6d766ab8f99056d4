// The hardware of a machine and its wiring, as plain data. Discovery and import fill it in; a test
// may build one by hand (tests/unit/topology/machines.hpp). Objects refer to each other by index
// into the Model's vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/model/device_kind.hpp"
#include "topology/model/pci_address.hpp"

namespace weft::topology {

/// An index that refers to no object, or an unknown NUMA node or package. Never 0.
inline constexpr int kNone = -1;

/// The source of one fact.
struct FactSource {
  std::string fact{};    ///< the field: "numa", "link", "state"
  std::string source{};  ///< a path below /sys, "FILE line 12", "CUDA driver"
};
using FactSources = std::vector<FactSource>;

/// The data rate of a link in one direction. 0 means unknown: never divide by it or prefer it.
struct Link {
  double gbytes = 0;              ///< present rate in GB/s (10^9 bytes per second)
  double gt_per_second = 0;       ///< per lane, such as 16
  int width = 0;                  ///< lanes
  double best_gt_per_second = 0;  ///< largest possible; 0: not known
  int best_width = 0;

  bool known() const noexcept { return gbytes > 0; }
};

/// Data rate of a PCIe link in GB/s, after line coding. 0 unless both values exist in PCIe.
double pcie_gbytes(double gt_per_second, int width) noexcept;

enum class PciKind : std::uint8_t {
  host_bridge,   ///< a root: the connection between PCI and a processor
  bridge,        ///< a root port, or one port of a switch
  whole_switch,  ///< a switch that the source shows as one object without ports (NCCL)
  device
};

/// A PCI function, or the host bridge above some functions. Nodes form a tree by `parent`.
struct PciNode {
  PciKind kind = PciKind::device;
  int parent = kNone;                   ///< in Model::pci; kNone for a host bridge, or if not known
  std::optional<PciAddress> address{};  ///< host bridges have none
  std::string name{};                   ///< of a host bridge: "pci0000:00"; otherwise mostly empty
  std::uint32_t device_class = 0;       ///< 0x030200; 0: not known
  std::uint16_t vendor = 0;             ///< 0: not known
  std::uint16_t device = 0;
  int numa = kNone;                    ///< NUMA node, as the operating system numbers it
  Link link{};                         ///< towards the parent
  std::string description{};           ///< "Tesla P100 PCIe 16GB", if the source has it
  std::optional<bool> acs_redirect{};  ///< of a port: ACS sends peer-to-peer traffic to the host
  std::string problem{};               ///< anything odd about the node; empty: nothing
  FactSources sources{};

  PciIdentity identity() const noexcept {
    return {.device_class = device_class, .vendor = vendor, .device = device};
  }
};

struct Package {
  int number = kNone;  ///< as the operating system numbers packages
  std::string model{};
  std::vector<int> cpus{};
};

enum class MemoryKind : std::uint8_t { ordinary, gpu, other };

struct NumaNode {
  int number = kNone;   ///< as the operating system numbers nodes; need not be 0..n-1
  int package = kNone;  ///< Package::number
  MemoryKind memory = MemoryKind::ordinary;
  std::uint64_t bytes = 0;
  std::vector<int> cpus{};  ///< empty: a node with memory only
  std::string source{};
};

/// Distance between two NUMA nodes according to the firmware (10: the same node).
struct NumaDistance {
  int from = kNone;
  int to = kNone;
  int distance = 0;
};

enum class PeerKind : std::uint8_t { gpu, nvswitch, cpu };

/// NVLink, XGMI or C2C links from one GPU to one other end.
struct GpuLink {
  PeerKind to = PeerKind::gpu;
  int gpu = kNone;                     ///< in Model::gpus, if `to` is gpu
  std::optional<PciAddress> target{};  ///< address of the other end, if the source has it
  int count = 1;                       ///< number of links
  double gbytes = 0;                   ///< GB/s of all of them together; 0: not known
};

struct Gpu {
  int pci = kNone;        ///< in Model::pci
  std::string name{};     ///< "GPU0", numbered by PCI address in finish()
  std::string os_name{};  ///< "cuda0", if the source has it
  std::string uuid{};
  int cuda_ordinal = kNone;  ///< device number in this process (CUDA_VISIBLE_DEVICES)
  bool mig = false;
  std::vector<GpuLink> links{};
  double c2c_gbytes = 0;  ///< GB/s of a coherent link to its own processor; 0: no such link
  std::optional<bool> gpudirect{};  ///< false: by the source, NICs cannot access its memory
  std::optional<bool> dma_buf{};    ///< true: the driver can export its memory as dma-buf
  FactSources sources{};
};

enum class PortState : std::uint8_t { unknown, down, initializing, armed, active, active_defer };
enum class LinkLayer : std::uint8_t { unknown, infiniband, ethernet };

std::string_view name(PortState state) noexcept;  ///< "active"
std::string_view name(LinkLayer layer) noexcept;  ///< "InfiniBand"

struct Port {
  int number = 1;
  PortState state = PortState::unknown;
  LinkLayer layer = LinkLayer::unknown;
  double gbits = 0;   ///< Gb/s; 0: not known
  int gids = 0;       ///< number of GIDs that are set
  std::string net{};  ///< "eth2", if known
  FactSources sources{};
};

struct Nic {
  int pci = kNone;     ///< in Model::pci; kNone: not a PCI device
  std::string name{};  ///< RDMA device ("mlx5_0"), or the PCI address if the source has none
  std::string rdma{};  ///< RDMA device; empty: none, or the source does not say
  std::vector<std::string> nets{};  ///< interfaces, such as "ens32"
  std::vector<Port> ports{};        ///< by number; empty: the source has no ports
  int numa = kNone;                 ///< of the PCI device, or of a device that is not on PCI
  /// True if the source lists RDMA devices and this NIC is not one of them.
  bool no_rdma = false;
  std::optional<bool> gpudirect{};
  std::string problem{};
  FactSources sources{};
};

enum class Origin : std::uint8_t { live, hwloc_xml, nccl_xml, weft };
std::string_view name(Origin origin) noexcept;  ///< "live", "hwloc-xml", "nccl-xml", "weft"

/// Facts about the host that concern all of its devices. nullopt: not known.
struct HostFacts {
  std::optional<bool> peermem{};  ///< nvidia_peermem (or nv_peer_mem) is loaded
  std::optional<bool> iommu{};    ///< an IOMMU translates addresses
  std::string cuda{};  ///< version of the CUDA driver, or why there is none; empty: not queried
};

struct Model {
  Origin origin = Origin::live;
  std::string host{};
  std::string file{};  ///< name of the imported file; empty: not imported
  std::vector<Package> packages{};
  std::vector<NumaNode> numa{};
  std::vector<NumaDistance> distances{};
  std::vector<PciNode> pci{};
  std::vector<Gpu> gpus{};  ///< by PCI address, after finish()
  std::vector<Nic> nics{};  ///< by PCI address, then RDMA name, after finish()
  HostFacts facts{};
  std::vector<std::string> notes{};  ///< one line for each oddity found

  std::optional<PciAddress> address_of(const Gpu& gpu) const;
  std::optional<PciAddress> address_of(const Nic& nic) const;
  /// NUMA node of a PCI node: its own, else that of its nearest ancestor that has one. kNone: not
  /// known.
  int numa_of(int pci) const;
  int numa_of(const Gpu& gpu) const { return numa_of(gpu.pci); }
  int numa_of(const Nic& nic) const;
  /// The only NUMA node with processors and ordinary memory; kNone if there are several. All memory
  /// of the host is on it, whatever a device reports.
  int sole_numa() const;
  /// Package::number of a NUMA node; kNone if not known.
  int package_of(int numa) const;
  /// NUMA nodes with any of these processors, ascending; memory of GPUs excluded.
  std::vector<int> numa_of_cpus(const std::vector<int>& cpus) const;
};

/// Completes a model: sorts GPUs, NICs and ports so that the order of discovery has no effect,
/// names unnamed devices, and resolves targets of GPU links. The builder of a model calls this
/// once. Throws Error(bad_argument) if an index is out of range or the tree has a cycle.
void finish(Model& model);

/// Finds a GPU by name ("GPU0"), PCI address ("0000:0f:00.0", "0f:00.0"), driver name ("cuda0") or
/// UUID. Returns its index; kNone if there is none.
int find_gpu(const Model& model, std::string_view what);
/// Finds a NIC by RDMA device ("mlx5_0", "mlx5_0:1"), interface or PCI address. Returns its index;
/// kNone if there is none, or if several NICs share the PCI address.
int find_nic(const Model& model, std::string_view what);

}  // namespace weft::topology
