// A machine as hwloc shows it. The only room that includes hwloc's header.
#pragma once

#include <string>
#include <vector>

#include "topology/model/model.hpp"

namespace weft::topology {

/// A network interface or an RDMA device.
struct OsDevice {
  std::string name{};
  int pci = kNone;  ///< its function in HwlocMachine::pci; kNone: it belongs to none
};

/// A machine without its software devices, which hwloc leaves out.
struct HwlocMachine {
  std::vector<Package> packages{};
  /// A node without processors of its own lists the processors that are nearest to it.
  std::vector<NumaNode> numa{};
  std::vector<NumaDistance> distances{};
  /// Parents stand before their children. `numa` is set at host bridges, `link` has GB/s alone,
  /// and the class has its two upper bytes. Storage, network, display and fabric devices and
  /// processing accelerators, with the bridges above them.
  std::vector<PciNode> pci{};
  std::vector<OsDevice> nets{};
  std::vector<OsDevice> rdma{};
  std::string problem{};  ///< why the rest is missing or of another machine; empty: it is neither
};

/// The folder that stands for / (HWLOC_FSROOT), for hwloc and for the files that discovery itself
/// reads. Empty for / itself.
std::string machine_root();

/// The machine below machine_root(). The first call in a process loads /, the others copy that.
/// Thread-safe. Throws nothing but std::bad_alloc.
HwlocMachine hwloc_machine();

}  // namespace weft::topology
