#include "topology/doctor/checks.hpp"

#include <array>
#include <exception>

namespace weft::doctor {
namespace {

constexpr std::array<Check, 24> kChecks{{
    {"memlock", check_memlock},
    {"memfd", check_memfd},
    {"memory", check_memory},
    {"shm", check_shm},
    {"huge-pages", check_huge_pages},
    {"cpus", check_cpus},
    {"rdma-driver", check_rdma_driver},
    {"rdma-library", check_rdma_library},
    {"rdma-rights", check_rdma_rights},
    {"port", check_ports},
    {"gid", check_gids},
    {"mtu", check_mtu},
    {"tcp-congestion", check_tcp_congestion},
    {"tcp-buffers", check_tcp_buffers},
    {"tcp-mtu", check_tcp_mtu},
    {"tcp-qdisc", check_tcp_qdisc},
    {"pci-link", check_pci_links},
    {"port-rate", check_port_rates},
    {"cuda", check_cuda},
    {"peer-memory", check_peer_memory},
    {"iommu", check_iommu},
    {"acs", check_acs},
    {"pmix", check_pmix},
    {"slurm", check_slurm},
}};

}  // namespace

std::span<const Check> checks() noexcept { return kChecks; }

Findings examine(const Host& host, std::optional<int> ranks) {
  const Scene scene = look_at(host, ranks);
  Findings all;
  for (const Check& check : kChecks) {
    Findings found;
    try {
      found = check.run(scene);
    } catch (const std::exception& error) {
      found.push_back({.verdict = Verdict::warn,
                       .says = std::string("the check failed: ") + error.what(),
                       .fix = "run weft-topo doctor with the rights to read this"});
    }
    for (Finding& finding : found) {
      finding.check = check.name;
      all.push_back(std::move(finding));
    }
  }
  return all;
}

}  // namespace weft::doctor
