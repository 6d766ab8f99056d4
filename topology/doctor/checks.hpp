// The checks of the doctor. Each one reads only the scene and returns at least one finding.
#pragma once

#include <span>
#include <string_view>

#include "topology/doctor/finding.hpp"
#include "topology/doctor/scene.hpp"

namespace weft::doctor {

// Limits of the process and the host.
Findings check_memlock(const Scene& scene);
Findings check_memfd(const Scene& scene);
Findings check_shm(const Scene& scene);
Findings check_memory(const Scene& scene);
Findings check_huge_pages(const Scene& scene);
Findings check_cpus(const Scene& scene);

// RDMA.
Findings check_rdma_driver(const Scene& scene);
Findings check_rdma_library(const Scene& scene);
Findings check_rdma_rights(const Scene& scene);
Findings check_ports(const Scene& scene);
Findings check_gids(const Scene& scene);
Findings check_mtu(const Scene& scene);

// TCP between hosts. It works with any of these settings, so no check fails.
Findings check_tcp_congestion(const Scene& scene);
Findings check_tcp_buffers(const Scene& scene);
Findings check_tcp_mtu(const Scene& scene);
Findings check_tcp_qdisc(const Scene& scene);

// Paths between NIC, GPU and memory.
Findings check_pci_links(const Scene& scene);
Findings check_port_rates(const Scene& scene);
Findings check_cuda(const Scene& scene);
Findings check_peer_memory(const Scene& scene);
Findings check_iommu(const Scene& scene);
Findings check_acs(const Scene& scene);

// Launchers.
Findings check_pmix(const Scene& scene);
Findings check_slurm(const Scene& scene);

struct Check {
  std::string_view name;
  Findings (*run)(const Scene&);
};
/// All checks, in the order of the report.
std::span<const Check> checks() noexcept;

/// Runs all checks. A check that cannot run yields a finding with the reason. `ranks`: number of
/// ranks that this host is to run; by default one per GPU.
Findings examine(const Host& host, std::optional<int> ranks);

}  // namespace weft::doctor
