// A machine and what was chosen on it, kept together for a test.
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

/// The captures of real machines; empty where they are not here.
std::vector<std::string> recorded_machines();

/// Two sockets. On the first a switch with two GPUs, mlx5_0 and mlx5_1, and a management NIC whose
/// port is down; on the second, below two switches in a row each, one GPU and mlx5_2.
Model two_sockets();

/// PCI switches as they are built, one device or one further switch at each port, and devices at
/// root ports, at random.
Model random_switches(std::mt19937_64& random);

}  // namespace weft::topology::render
