// Checks of PCI links that are narrower or slower than possible, and of ports that they slow down.
#include <fmt/format.h>

#include "topology/doctor/checks.hpp"

namespace weft::doctor {
namespace {

using topology::Link;
using topology::pcie_gbytes;

std::string text_of(int width, double speed) {
  return fmt::format("x{} at {:g} GT/s", width, speed);
}
std::string now_text(const Link& link) { return text_of(link.width, link.gt_per_second); }
std::string best_text(const Link& link) {
  return text_of(link.best_width, link.best_gt_per_second);
}
double best_gbytes(const Link& link) {
  return pcie_gbytes(link.best_gt_per_second, link.best_width);
}

/// An idle GPU lowers its link speed, so the model holds the speed under load: for GPUs, only
/// missing lanes are detected.
Finding look_at_link(const Scene& scene, int pci) {
  const topology::PciNode& node = scene.node(pci);
  const Link& link = node.link;
  Finding finding{.subject = scene.address(pci)};
  const double best = best_gbytes(link);
  if (!link.known() || best <= 0) {
    finding.says = "the PCI link is not known, as is common in virtual machines";
    return finding;
  }
  finding.says = fmt::format("{} of {}", now_text(link), best_text(link));
  const double share = link.gbytes / best;
  finding.verdict = Verdict::ok;
  if (share > 0.99) return finding;
  finding.verdict = share < 0.49 ? Verdict::fail : Verdict::warn;
  const Link above = node.parent == topology::kNone ? Link{} : scene.node(node.parent).link;
  if (best_gbytes(above) > 0 && best_gbytes(above) < 0.99 * best) {
    finding.says += fmt::format(", as {} above it has {} at most", scene.address(node.parent),
                                best_text(above));
    finding.fix = "put the card into a wider or faster slot";
  } else {
    finding.says += ", though the slot could do more";
    finding.fix = "reseat the card or its riser; look at bifurcation in the BIOS and at dmesg";
  }
  return finding;
}

}  // namespace

Findings check_pci_links(const Scene& scene) {
  Findings findings;
  for (const int nic : scene.nics()) findings.push_back(look_at_link(scene, nic));
  for (const int gpu : scene.gpus()) findings.push_back(look_at_link(scene, gpu));
  if (findings.empty()) return {{.says = "neither a GPU nor a NIC with RDMA is on a PCI bus here"}};
  return findings;
}

Findings check_port_rates(const Scene& scene) {
  Findings findings;
  for (const int nic : scene.nics()) {
    constexpr double kBits = 8;
    const double pci_gbps = scene.node(nic).link.gbytes * kBits;
    double gbps = 0;
    std::string names;
    const RdmaPort* narrow = nullptr;
    for (const RdmaDevice& device : scene.rdma) {
      if (device.pci != nic) continue;
      for (const RdmaPort& port : device.ports) {
        if (!port.is_active()) continue;
        gbps += port.gbps;
        names += (names.empty() ? "" : ", ") + port.name();
        if (port.lanes == 1 && !port.is_ethernet()) narrow = &port;
      }
    }
    if (names.empty()) continue;
    Finding finding{.verdict = Verdict::ok, .subject = names};
    if (narrow != nullptr) {
      finding.verdict = Verdict::warn;
      finding.says =
          fmt::format("{} runs on one lane (1X), {:g} Gb/s", narrow->name(), narrow->gbps);
      finding.fix = "clean or replace the cable; reset the port (ibportstate)";
    } else if (pci_gbps <= 0 || gbps <= 0) {
      finding.verdict = Verdict::not_applicable;
      finding.says = "the rate of port or PCI link is not known";
    } else {
      finding.says = fmt::format("{:g} Gb/s of ports behind {:.0f} Gb/s of PCI", gbps, pci_gbps);
      // PCI's own headers take 5 % on every card, so this much is no fault.
      if (gbps > 2 * pci_gbps)
        finding.verdict = Verdict::fail;
      else if (gbps > pci_gbps)
        finding.verdict = Verdict::warn;
      if (finding.verdict != Verdict::ok)
        finding.fix = "put the card into a wider or faster slot (see pci-link)";
    }
    findings.push_back(std::move(finding));
  }
  if (findings.empty()) return {{.says = "no port of a NIC on a PCI bus is active"}};
  return findings;
}

}  // namespace weft::doctor
