// PCI links that are narrower or slower than they could be, and ports that they hold back.
#include <fmt/format.h>

#include "topology/doctor/checks.hpp"

namespace weft::doctor {
namespace {

Finding look_at_link(const PciFunction& function) {
  Finding finding{.subject = function.address};
  if (!function.now.is_known() || !function.most.is_known()) {
    finding.says = "its PCI link is not told, as often in virtual machines";
    return finding;
  }
  finding.says = fmt::format("{} of {}", function.now.text(), function.most.text());
  const double share = function.now.gbps() / function.most.gbps();
  finding.verdict = Verdict::ok;
  if (share > 0.99) return finding;

  const auto bridges = bridges_above(function);
  const bool narrow = function.now.width < function.most.width;
  if (function.is_gpu() && !narrow) {
    finding.verdict = Verdict::warn;
    finding.says += ": slowed down, perhaps only while the GPU idles";
    finding.fix = "look again under load; if it stays, reseat the card and look at the BIOS";
    return finding;
  }
  finding.verdict = share < 0.49 ? Verdict::fail : Verdict::warn;
  if (!bridges.empty() && bridges.front().most.is_known() &&
      bridges.front().most.gbps() < 0.99 * function.most.gbps()) {
    finding.says += fmt::format(", as {} above it has {} at most", bridges.front().address,
                                bridges.front().most.text());
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
  for (const PciFunction& nic : scene.nics()) findings.push_back(look_at_link(nic));
  for (const PciFunction& gpu : scene.gpus()) findings.push_back(look_at_link(gpu));
  if (findings.empty()) return {{.says = "neither a GPU nor a NIC with RDMA is on a PCI bus here"}};
  return findings;
}

Findings check_port_rates(const Scene& scene) {
  Findings findings;
  for (const PciFunction& nic : scene.nics()) {
    double gbps = 0;
    std::string names;
    const RdmaPort* narrow = nullptr;
    for (const RdmaDevice& device : scene.rdma) {
      if (device.pci != nic.dir) continue;
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
    } else if (!nic.now.is_known() || gbps <= 0) {
      finding.verdict = Verdict::not_applicable;
      finding.says = "rate of port or PCI link is not told";
    } else {
      finding.says =
          fmt::format("{:g} Gb/s of ports behind {:.0f} Gb/s of PCI", gbps, nic.now.gbps());
      // 5 % for PCI's own headers are every card's lot.
      if (gbps > 2 * nic.now.gbps())
        finding.verdict = Verdict::fail;
      else if (gbps > nic.now.gbps())
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
