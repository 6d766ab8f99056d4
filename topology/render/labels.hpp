// Labels for devices and figures, the same in every output.
#pragma once

#include <string>

#include "topology/model/model.hpp"

namespace weft::topology::render {

/// "0000:0f:00.0"; "not on PCI"
std::string address_text(const Model& model, const Gpu& gpu);
std::string address_text(const Model& model, const Nic& nic);
/// "PCIe switch 0000:0d:00.0", "host bridge pci0000:10"
std::string bridge_text(const PciNode& node);
/// "24.6 GB/s"; "speed unknown" for 0
std::string speed_text(double gbytes);
/// A NIC's rate as links and as ports are measured: "25 GB/s = 200 Gb/s"
std::string nic_speed_text(double gbits);
/// A text about a NIC, with each of its rates as nic_speed_text() has it.
std::string in_both_units(const std::string& text);
/// "PCIe 31.5 GB/s (16 GT/s x16)", "PCIe 24.6 GB/s", or "" if not known
std::string link_text(const Link& link);
/// "25 GB/s = 200 Gb/s InfiniBand, active" for the best port, as far as known.
std::string port_text(const Nic& nic);
/// "NVLink joins all GPUs", or the pairs that it joins; empty if it joins none.
std::string nvlink_text(const Model& model);
/// "pascal.xml", a host's name, or "this machine"
std::string machine_text(const Model& model);
/// "NUMA node 3", "NUMA node unknown"
std::string numa_text(int numa);
/// "8 GPUs", "1 GPU"
std::string count_text(std::size_t count, const char* what);
/// "0-7,16-23"
std::string cpus_text(const std::vector<int>& cpus);

}  // namespace weft::topology::render
