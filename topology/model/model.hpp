// What hardware a machine has and how it is wired, as plain data. Discovery and import fill it in;
// a test may build one by hand (tests/unit/topology/machines.hpp does). Everything refers to
// everything else by index into the Model's vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/model/device_kind.hpp"
#include "topology/model/pci_address.hpp"

namespace weft::topology {

/// An index that refers to nothing, and a NUMA node or package that is not known. Never 0.
inline constexpr int kNone = -1;

/// Where one fact comes from.
struct FactSource {
  std::string fact{};    ///< the field: "numa", "link", "state"
  std::string source{};  ///< a path below /sys, "FILE line 12", "CUDA driver"
};
using FactSources = std::vector<FactSource>;

/// What a link carries in one direction. 0 is "not known": never divide by it, never prefer it.
struct Link {
  double gbytes = 0;              ///< GB/s (10^9 bytes) as it is now
  double gt_per_second = 0;       ///< of one lane: 16
  int width = 0;                  ///< lanes
  double best_gt_per_second = 0;  ///< what it could be; 0: not known
  int best_width = 0;

  bool known() const noexcept { return gbytes > 0; }
  /// Fewer lanes, or slower, than the device is able to.
  bool degraded() const noexcept {
    return (best_width > 0 && width > 0 && width < best_width) ||
           (best_gt_per_second > 0 && gt_per_second > 0 && gt_per_second < best_gt_per_second);
  }
};

/// Data rate in GB/s of a PCIe link after its line code. 0 unless both are values that exist.
double pcie_gbytes(double gt_per_second, int width) noexcept;

enum class PciKind : std::uint8_t {
  host_bridge,   ///< a root: where PCI meets the processor
  bridge,        ///< a root port, or one port of a switch
  whole_switch,  ///< a switch that the source shows as one object (NCCL), its ports not
  device
};

/// A PCI function, or the host bridge above some. A tree by parent links.
struct PciNode {
  PciKind kind = PciKind::device;
  int parent = kNone;  ///< in Model::pci; kNone for a host bridge, or where it is not known
  std::optional<PciAddress> address{};  ///< host bridges have none
  std::string name{};                   ///< of a host bridge: "pci0000:00"; else mostly empty
  std::uint32_t device_class = 0;       ///< 0x030200; 0: not known
  std::uint16_t vendor = 0;             ///< 0: not known
  std::uint16_t device = 0;
  int numa = kNone;                    ///< the NUMA node's number by the operating system
  Link link{};                         ///< towards the parent
  std::string description{};           ///< "Tesla P100 PCIe 16GB", where the source says
  std::optional<bool> acs_redirect{};  ///< bridge ports: peer-to-peer is sent up to the host
  std::string problem{};               ///< what is odd about it; empty: nothing
  FactSources sources{};

  PciIdentity identity() const noexcept {
    return {.device_class = device_class, .vendor = vendor, .device = device};
  }
};

struct Package {
  int number = kNone;  ///< by the operating system
  std::string model{};
  std::vector<int> cpus{};
};

enum class MemoryKind : std::uint8_t { ordinary, gpu, other };

struct NumaNode {
  int number = kNone;   ///< by the operating system; need not be 0..n-1
  int package = kNone;  ///< Package::number
  MemoryKind memory = MemoryKind::ordinary;
  std::uint64_t bytes = 0;
  std::vector<int> cpus{};  ///< empty: memory alone
  std::string source{};
};

/// Distance between two NUMA nodes as the firmware says (10: the same).
struct NumaDistance {
  int from = kNone;
  int to = kNone;
  int distance = 0;
};

enum class PeerKind : std::uint8_t { gpu, nvswitch, cpu };

/// NVLink, XGMI or C2C, from one GPU to what is at the other end.
struct GpuLink {
  PeerKind to = PeerKind::gpu;
  int gpu = kNone;                     ///< in Model::gpus, where `to` is gpu
  std::optional<PciAddress> target{};  ///< of the other end, where the source says
  int count = 1;                       ///< links
  double gbytes = 0;                   ///< GB/s of all of them; 0: not known
};

struct Gpu {
  int pci = kNone;        ///< in Model::pci
  std::string name{};     ///< "GPU0": by PCI address, set by finish()
  std::string os_name{};  ///< "cuda0", where the source says
  std::string uuid{};
  int cuda_ordinal = kNone;  ///< as this process counts (CUDA_VISIBLE_DEVICES)
  bool mig = false;
  std::vector<GpuLink> links{};
  double c2c_gbytes = 0;            ///< coherent link to its own processor; 0: none
  std::optional<bool> gpudirect{};  ///< false: the source says that NICs can't reach its memory
  std::optional<bool> dma_buf{};    ///< the driver can export its memory
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
  int gids = 0;       ///< GIDs that are set
  std::string net{};  ///< "eth2", where known
  FactSources sources{};
};

struct Nic {
  int pci = kNone;     ///< in Model::pci; kNone: a device that is not on PCI
  std::string name{};  ///< RDMA device ("mlx5_0"), or the PCI address where the source has none
  std::string rdma{};  ///< RDMA device; empty: none, or the source does not say
  std::vector<std::string> nets{};  ///< "ens32"
  std::vector<Port> ports{};        ///< by number; empty: the source hides them
  int numa = kNone;                 ///< of the PCI device, or of the device itself without one
  /// The source would have shown an RDMA device, so this is none.
  bool no_rdma = false;
  std::optional<bool> gpudirect{};
  std::string problem{};
  FactSources sources{};
};

enum class Origin : std::uint8_t { live, hwloc_xml, nccl_xml, weft };
std::string_view name(Origin origin) noexcept;  ///< "live", "hwloc-xml", "nccl-xml", "weft"

/// What the host says that concerns all of its devices. nullopt: not known.
struct HostFacts {
  std::optional<bool> peermem{};  ///< nvidia_peermem (or nv_peer_mem) is loaded
  std::optional<bool> iommu{};    ///< an IOMMU translates
  std::string cuda{};  ///< version of the CUDA driver, or why there is none; empty: not asked
};

struct Model {
  Origin origin = Origin::live;
  std::string host{};
  std::string file{};  ///< what was imported; empty: nothing
  std::vector<Package> packages{};
  std::vector<NumaNode> numa{};
  std::vector<NumaDistance> distances{};
  std::vector<PciNode> pci{};
  std::vector<Gpu> gpus{};  ///< by PCI address, after finish()
  std::vector<Nic> nics{};  ///< by PCI address, then RDMA name, after finish()
  HostFacts facts{};
  std::vector<std::string> notes{};  ///< one line for whatever was odd

  std::optional<PciAddress> address_of(const Gpu& gpu) const;
  std::optional<PciAddress> address_of(const Nic& nic) const;
  /// The NUMA node of a PCI node: its own, else that of the next one above that has one. kNone: not
  /// known.
  int numa_of(int pci) const;
  int numa_of(const Gpu& gpu) const { return numa_of(gpu.pci); }
  int numa_of(const Nic& nic) const;
  /// The only NUMA node with processors, where there is just one: then all memory of the host is
  /// there, whatever a device says. Otherwise kNone.
  int sole_numa() const;
  /// Package::number of a NUMA node; kNone where not known.
  int package_of(int numa) const;
  /// NUMA nodes that hold any of these processors, ascending; memory of GPUs left out.
  std::vector<int> numa_of_cpus(const std::vector<int>& cpus) const;
};

/// Sorts GPUs, NICs and ports (so that no order of discovery shows), names what has no name, and
/// resolves targets of GPU links. To be called once, by whoever built the model. Throws
/// Error(bad_argument) where indices lead nowhere or in a circle.
void finish(Model& model);

/// "GPU0" or a PCI address ("0000:0f:00.0", "0f:00.0"), the driver's name ("cuda0") or a UUID, to
/// its index. kNone: there is none.
int find_gpu(const Model& model, std::string_view what);
/// The RDMA device ("mlx5_0", "mlx5_0:1"), an interface, or a PCI address. kNone: there is none, or
/// a PCI address that several share.
int find_nic(const Model& model, std::string_view what);

}  // namespace weft::topology
