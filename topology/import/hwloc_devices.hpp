// Reads the devices in hwloc's XML: PCI functions and their operating-system devices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/import/pci_tree.hpp"
#include "topology/import/xml.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

/// The value of <info name="..." value="..."/> below `object`; empty if there is none.
std::string info(const XmlElement& object, std::string_view name);

class HwlocDevices {
 public:
  HwlocDevices(Model& model, PciTree& tree, const std::string& name, int version)
      : model_(model), tree_(tree), name_(name), version_(version) {}

  /// Reads address, class, vendor and link of a PCIDev or a PCI bridge into `node`.
  void describe(const XmlElement& element, PciNode& node) const;
  /// Adds a PCIDev; returns its index in Model::pci.
  int add(const XmlElement& element, int parent, int numa);
  /// Adds an OSDev below the PCI node `pci` (kNone: below no PCI node).
  void add_os_device(const XmlElement& element, int pci);
  /// Reads a matrix of NUMA distances or of links between GPUs. Ignores other matrices.
  void read_distances(const XmlElement& element);
  /// Turns the added devices into GPUs and NICs. Call last.
  void conclude();

 private:
  /// Operating-system devices of one PCI device.
  struct Found {
    int line = 0;
    bool computes = false;
    std::string gpu_name{};
    std::string uuid{};
    std::string model{};
    std::vector<std::string> nets{};
    std::vector<Nic> rdma{};
    std::vector<long> objects{};  // gp_index of its OSDevs
  };

  enum Kind : unsigned { kGpu = 1, kCoprocessor = 2, kNetwork = 4, kOpenFabrics = 8 };
  unsigned kind_of(const XmlElement& element) const;
  void add_gpu_device(const XmlElement& element, Found& found) const;
  void add_rdma_device(const XmlElement& element, Found& found, int pci);
  void read_gpu_links(const std::vector<std::string>& who, const std::vector<double>& values);

  Model& model_;
  PciTree& tree_;
  const std::string& name_;
  int version_;
  std::map<int, Found> found_;  // by PCI node
  std::vector<std::pair<std::vector<std::string>, std::vector<double>>> gpu_matrices_;
};

}  // namespace weft::topology
