// The fabric of a simulation: every rank reaches every other.
#pragma once

#include <memory>
#include <vector>

#include "p2p/transport/sim/network.hpp"

namespace weft::p2p::sim {

class SimFabric final : public Fabric {
 public:
  SimFabric(Network& network, LocalRank& local, FabricEvents& events)
      : network_(network), rank_(local.rank) {
    network_.attach(rank_, local, events);
  }
  ~SimFabric() override { network_.detach(rank_); }

  FabricKind kind() const noexcept override { return FabricKind::sim; }
  Reach reaches(const RankAddress&, const RankAddress&) const override {
    return {true, "one simulation"};
  }
  void listen(RankAddress&) override {}
  void open(const std::vector<RankAddress>&) override {}
  void connect(int rank) override { network_.connect(rank_, rank); }
  bool fence(int rank) override {
    network_.fence(rank_, rank);
    return true;
  }

  /// A rank's fabrics: this one alone. `network` must outlive the rank's world.
  static MakeFabrics only(Network& network) {
    return [&network](LocalRank& local, FabricEvents& events) {
      std::vector<std::unique_ptr<Fabric>> fabrics;
      fabrics.push_back(std::make_unique<SimFabric>(network, local, events));
      return fabrics;
    };
  }

 private:
  Network& network_;
  const int rank_;
};

}  // namespace weft::p2p::sim
