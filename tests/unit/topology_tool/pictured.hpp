// A machine and the choices made on it, kept together for a test.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "topology/render/view.hpp"

namespace weft::topology::render {

struct Pictured {
  explicit Pictured(Model of, Policy by = {}) : model(std::move(of)), policy(std::move(by)) {}

  Model model;
  Policy policy;
  Selection selection = select(model, rank_per_gpu(model), policy);
  View view{model, selection, policy};

  Pictured(const Pictured&) = delete;
  Pictured& operator=(const Pictured&) = delete;
};

/// The recordings of real machines; empty where this machine has none.
std::vector<std::string> recorded_machines();

/// Two sockets. The first has a switch with two GPUs, mlx5_0, mlx5_1 and a management NIC whose
/// port is down. The second has one GPU and mlx5_2, each below two switches in a row.
Model two_sockets();

/// PCI switches as they are built, one device or one further switch at each port, and devices at
/// root ports, at random.
Model random_switches(std::mt19937_64& random);

}  // namespace weft::topology::render
