// Machines built by hand.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "topology/model/model.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {

/// A machine in the making. Every call that adds something returns its index in Model::pci.
class Machine {
 public:
  Machine& numa(int number, int package, std::vector<int> cpus,
                MemoryKind memory = MemoryKind::ordinary);
  int host_bridge(int numa);
  /// One port of a switch, or a root port.
  int bridge(int parent, const std::string& address, double gbytes = 63);
  int gpu(int parent, const std::string& address, double gbytes = 63);
  /// A NIC with one active port of `gbits`; 0 hides the ports, as some sources do.
  int nic(int parent, const std::string& address, const std::string& rdma, double gbits = 200,
          double gbytes = 63);
  /// An EFA whose source hides ports, as hwloc's files do.
  int efa(int parent, const std::string& address, const std::string& rdma, double gbytes = 63);

  Nic& last_nic() { return model_.nics.back(); }
  Gpu& last_gpu() { return model_.gpus.back(); }
  PciNode& node(int index) { return model_.pci[static_cast<std::size_t>(index)]; }
  Port& last_port() { return model_.nics.back().ports.back(); }

  /// Returns the finished model.
  Model build() const;
  /// The same machine with its devices in a random order.
  Model build_shuffled(std::mt19937_64& random) const;

 private:
  int device(int parent, const std::string& address, std::uint32_t device_class, double gbytes);
  Model model_;
};

/// Adds a root port below `host_bridge` and the upstream port of a switch below that. Returns the
/// upstream port, for add_slot().
int add_switch(Machine& machine, int host_bridge, const std::string& domain_and_bus);
/// Adds a downstream port to that switch. Returns the place for a device below it.
int add_slot(Machine& machine, int upstream, const std::string& address);

/// Two sockets, each with a switch that holds two GPUs and two NICs, named by `nics`.
Machine two_sockets(const std::vector<std::string>& nics);

std::string nic_name(const Model& model, int nic);
/// "0000:01:00.0 -> mlx5_0 PIX gdr [mlx5_0 mlx5_1]" for each choice, in the order of GPUs.
std::vector<std::string> summary(const Model& model, const Selection& selection);

/// Some machine: sockets, host bridges, switches, GPUs and NICs at random.
Machine random_machine(std::mt19937_64& random);

}  // namespace weft::topology
