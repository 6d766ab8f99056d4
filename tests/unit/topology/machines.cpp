#include "tests/unit/topology/machines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft::topology {

Machine& Machine::numa(int number, int package, std::vector<int> cpus, MemoryKind memory) {
  model_.numa.push_back(
      {.number = number, .package = package, .memory = memory, .cpus = std::move(cpus)});
  return *this;
}

int Machine::host_bridge(int numa) {
  model_.pci.push_back({.kind = PciKind::host_bridge,
                        .name = fmt::format("bridge{}", model_.pci.size()),
                        .numa = numa});
  return static_cast<int>(model_.pci.size()) - 1;
}

int Machine::device(int parent, const std::string& address, std::uint32_t device_class,
                    double gbytes) {
  PciNode node{.parent = parent, .address = PciAddress::parse(address)};
  node.device_class = device_class;
  node.link.gbytes = gbytes;
  model_.pci.push_back(std::move(node));
  return static_cast<int>(model_.pci.size()) - 1;
}

int Machine::bridge(int parent, const std::string& address, double gbytes) {
  const int index = device(parent, address, 0x060400, gbytes);
  node(index).kind = PciKind::bridge;
  return index;
}

int Machine::gpu(int parent, const std::string& address, double gbytes) {
  const int index = device(parent, address, 0x030200, gbytes);
  model_.gpus.push_back({.pci = index});
  return index;
}

int Machine::nic(int parent, const std::string& address, const std::string& rdma, double gbits,
                 double gbytes) {
  const int index = device(parent, address, 0x020700, gbytes);
  Nic nic{.pci = index, .rdma = rdma};
  if (gbits > 0)
    nic.ports.push_back(
        {.state = PortState::active, .layer = LinkLayer::infiniband, .gbits = gbits});
  model_.nics.push_back(std::move(nic));
  return index;
}

int Machine::efa(int parent, const std::string& address, const std::string& rdma, double gbytes) {
  const int index = nic(parent, address, rdma, 0, gbytes);
  node(index).device_class = 0x020000;
  node(index).vendor = 0x1d0f;
  node(index).device = 0xefa3;
  return index;
}

Model Machine::build() const {
  Model model = model_;
  finish(model);
  return model;
}

Model Machine::build_shuffled(std::mt19937_64& random) const {
  Model model = model_;
  std::vector<std::size_t> order(model.pci.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  const auto moved = [&](int index) {
    return index == kNone ? kNone : place[static_cast<std::size_t>(index)];
  };
  for (std::size_t i = 0; i < order.size(); ++i) model.pci[i] = model_.pci[order[i]];
  for (PciNode& node : model.pci) node.parent = moved(node.parent);
  for (Gpu& gpu : model.gpus) gpu.pci = moved(gpu.pci);
  for (Nic& nic : model.nics) nic.pci = moved(nic.pci);
  std::shuffle(model.gpus.begin(), model.gpus.end(), random);
  std::shuffle(model.nics.begin(), model.nics.end(), random);
  std::shuffle(model.numa.begin(), model.numa.end(), random);
  finish(model);
  return model;
}

int add_switch(Machine& machine, int host_bridge, const std::string& domain_and_bus) {
  const int root_port = machine.bridge(host_bridge, domain_and_bus + ":00.0");
  return machine.bridge(root_port, domain_and_bus + ":01.0");
}

int add_slot(Machine& machine, int upstream, const std::string& address) {
  return machine.bridge(upstream, address);
}

Machine two_sockets(const std::vector<std::string>& nics) {
  Machine machine;
  machine.numa(0, 0, {0, 1}).numa(1, 1, {2, 3});
  for (int socket = 0; socket < 2; ++socket) {
    const std::string domain = socket == 0 ? "0000:0" : "0000:8";
    const int top = add_switch(machine, machine.host_bridge(socket), domain + "1");
    machine.gpu(add_slot(machine, top, domain + "2:00.0"), domain + "3:00.0");
    machine.gpu(add_slot(machine, top, domain + "2:01.0"), domain + "4:00.0");
    const auto at = static_cast<std::size_t>(2 * socket);
    machine.nic(add_slot(machine, top, domain + "2:02.0"), domain + "5:00.0", nics.at(at));
    machine.nic(add_slot(machine, top, domain + "2:03.0"), domain + "6:00.0", nics.at(at + 1));
  }
  return machine;
}

std::string nic_name(const Model& model, int nic) {
  return nic == kNone ? "none" : model.nics.at(static_cast<std::size_t>(nic)).name;
}

std::vector<std::string> summary(const Model& model, const Selection& selection) {
  std::vector<std::string> lines;
  for (const Choice& choice : selection.choices) {
    std::string who = fmt::format("rank {}", choice.rank);
    if (choice.gpu != kNone) {
      const Gpu& gpu = model.gpus.at(static_cast<std::size_t>(choice.gpu));
      const auto address = model.address_of(gpu);
      who = address ? address->text() : gpu.name;
    }
    std::string line = fmt::format("{} -> {} {}{} [", who, nic_name(model, choice.nic),
                                   name(choice.path.path_class), choice.gdr ? " gdr" : "");
    for (const int rail : choice.rails)
      line += (line.back() == '[' ? "" : " ") + nic_name(model, rail);
    lines.push_back(line + "]");
  }
  return lines;
}

Machine random_machine(std::mt19937_64& random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  Machine machine;
  const int sockets = pick(1, 4);
  const bool numbered = pick(0, 3) > 0;  // else devices say nothing of NUMA
  int bus = 1;
  int nics = 0;
  for (int socket = 0; socket < sockets; ++socket) {
    machine.numa(8 * socket, socket, {2 * socket, 2 * socket + 1});
    for (int bridges = pick(0, 3); bridges > 0; --bridges) {
      std::vector<int> places{machine.host_bridge(numbered ? 8 * socket : kNone)};
      const auto address = [&] { return fmt::format("{:04x}:{:02x}:00.0", pick(0, 1), bus++); };
      for (int ports = pick(0, 4); ports > 0; --ports)
        places.push_back(machine.bridge(
            places[static_cast<std::size_t>(pick(0, static_cast<int>(places.size()) - 1))],
            address()));
      const auto somewhere = [&] {
        return places[static_cast<std::size_t>(pick(0, static_cast<int>(places.size()) - 1))];
      };
      for (int gpus = pick(0, 4); gpus > 0; --gpus) machine.gpu(somewhere(), address());
      for (int more = pick(0, 4); more > 0; --more) {
        const double rates[] = {0, 25, 100, 200, 200, 200};
        const double links[] = {0, 15.75, 63, 63};
        machine.nic(somewhere(), address(), fmt::format("mlx5_{}", nics++), rates[pick(0, 5)],
                    links[pick(0, 3)]);
        if (!machine.last_nic().ports.empty() && pick(0, 9) == 0)
          machine.last_port().state = PortState::down;
      }
    }
  }
  return machine;
}

}  // namespace weft::topology
