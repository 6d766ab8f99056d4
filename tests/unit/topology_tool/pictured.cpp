#include "tests/unit/topology_tool/pictured.hpp"

#include <fmt/format.h>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/recorded.hpp"

namespace weft::topology::render {

std::vector<std::string> recorded_machines() {
  std::vector<std::string> files;
  for (const char* name :
       {"pascal-bdw-2xP100-hwloc.xml", "lassen-p9-4xV100-hwloc.xml", "aws-p4d.24xl-hwloc.xml",
        "aws-p4d-nccl.xml", "azure-ndv4-nccl.xml", "oci-bm-h100-nccl.xml"})
    if (auto file = recorded_machine(name); !file.empty()) files.push_back(std::move(file));
  return files;
}

Model two_sockets() {
  Machine machine;
  machine.numa(0, 0, {0, 1, 2, 3}).numa(1, 1, {4, 5, 6, 7});
  const int near = add_switch(machine, machine.host_bridge(0), "0000:10");
  machine.gpu(add_slot(machine, near, "0000:12:00.0"), "0000:13:00.0");
  machine.gpu(add_slot(machine, near, "0000:12:01.0"), "0000:14:00.0");
  machine.nic(add_slot(machine, near, "0000:12:02.0"), "0000:15:00.0", "mlx5_0");
  machine.nic(add_slot(machine, near, "0000:12:03.0"), "0000:16:00.0", "mlx5_1");
  machine.nic(add_slot(machine, near, "0000:12:04.0"), "0000:17:00.0", "mgmt<&\">0");
  machine.last_port().state = PortState::down;
  const int far = add_switch(machine, machine.host_bridge(1), "0000:20");
  const int gpus = machine.bridge(add_slot(machine, far, "0000:22:00.0"), "0000:23:00.0");
  machine.gpu(add_slot(machine, gpus, "0000:24:00.0"), "0000:25:00.0");
  const int nics = machine.bridge(add_slot(machine, far, "0000:22:01.0"), "0000:26:00.0");
  machine.nic(add_slot(machine, nics, "0000:27:00.0"), "0000:28:00.0", "mlx5_2");
  return machine.build();
}

namespace {

class Planter {
 public:
  explicit Planter(std::mt19937_64& random) : random_(random) {}

  Model plant() {
    const int sockets = pick(1, 3);
    for (int socket = 0; socket < sockets; ++socket) {
      machine_.numa(4 * socket, socket, {2 * socket, 2 * socket + 1});
      for (int bridges = pick(1, 3); bridges > 0; --bridges) {
        const int root = machine_.host_bridge(4 * socket);
        for (int ports = pick(0, 3); ports > 0; --ports)
          plant_at(machine_.bridge(root, address()), 2);
      }
    }
    return machine_.build();
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  std::string address() {
    ++places_;
    return fmt::format("{:04x}:{:02x}:{:02x}.0", places_ / 4096, places_ / 16 % 256, places_ % 16);
  }

  void plant_at(int port, int depth) {
    const int what = pick(0, depth > 0 ? 4 : 2);
    if (what == 0) {
      machine_.gpu(port, address());
    } else if (what <= 2) {
      const double links[] = {0, 15.75, 31.5, 63};
      machine_.nic(port, address(), fmt::format("mlx5_{}", nics_++), pick(0, 1) == 0 ? 200 : 100,
                   links[pick(0, 3)]);
      if (pick(0, 7) == 0) machine_.last_port().state = PortState::down;
    } else {
      const int upstream = machine_.bridge(port, address());
      for (int ports = pick(1, 4); ports > 0; --ports)
        plant_at(machine_.bridge(upstream, address()), depth - 1);
    }
  }

  std::mt19937_64& random_;
  Machine machine_;
  int places_ = 0;
  int nics_ = 0;
};

}  // namespace

Model random_switches(std::mt19937_64& random) { return Planter(random).plant(); }

}  // namespace weft::topology::render
