#include "topology/select/verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topology/model/device_kind.hpp"

namespace weft::topology {
namespace {

constexpr std::uint32_t kInfiniBandClass = 0x0207;
/// A PCI link this many times narrower than another NIC's is not meant for data.
constexpr double kFarNarrower = 16;
/// Tolerance for rounded link rates.
constexpr double kRounding = 1.01;

/// A port that is still eligible.
struct Entry {
  std::size_t nic = 0;
  int port = 0;  // 0: the source has no ports
  PortState state = PortState::unknown;
  LinkLayer layer = LinkLayer::unknown;
  bool layer_said = false;  // the source has the layer; false: deduced from the PCI class
  double gbits = 0;         // Gb/s; 0: not known
  double most = 0;          // Gb/s of the PCI link; 0: not known
};

std::string_view why_not_driven(const Model& model, const Nic& nic) {
  if (nic.pci == kNone) return {};
  return topology::why_not_driven(model.pci[static_cast<std::size_t>(nic.pci)].identity());
}

/// The link layer by PCI class. NICs of other fabrics (EFA) also have the class of Ethernet.
LinkLayer layer_by_class(const Model& model, const Nic& nic) {
  if (nic.pci == kNone || !why_not_driven(model, nic).empty()) return LinkLayer::unknown;
  switch (model.pci[static_cast<std::size_t>(nic.pci)].device_class >> 8) {
    case kInfiniBandClass:
      return LinkLayer::infiniband;
    case 0x0200:
      return LinkLayer::ethernet;
    default:
      return LinkLayer::unknown;
  }
}

Entry entry_of(const Model& model, std::size_t index, const Port& port, bool shown) {
  const Nic& nic = model.nics[index];
  Entry entry{.nic = index, .port = shown ? port.number : 0, .state = port.state};
  entry.layer_said = port.layer != LinkLayer::unknown;
  entry.layer = entry.layer_said ? port.layer : layer_by_class(model, nic);
  entry.gbits = port.gbits;
  if (nic.pci != kNone) entry.most = 8 * model.pci[static_cast<std::size_t>(nic.pci)].link.gbytes;
  return entry;
}

std::string why_closed(const Port& port) {
  switch (port.state) {
    case PortState::down:
      return "is down";
    case PortState::initializing:
      return "waits for a subnet manager (init)";
    case PortState::armed:
      return "is armed, not active yet";
    case PortState::active_defer:
      return "loses its link (active_defer)";
    default:
      return {};
  }
}

/// The rate of a port, or the rate of its PCI link if the port's is not known.
double rate_of(const Entry& entry) { return entry.gbits > 0 ? entry.gbits : entry.most; }

class Judge {
 public:
  explicit Judge(const Model& model) : model_(model), verdicts_(model.nics.size()) {}

  std::vector<NicVerdict> judge(bool driven_only) {
    for (std::size_t i = 0; i < model_.nics.size(); ++i) collect(i);
    drop_by_link();
    drop_by_layer();
    drop_by_rate();
    if (driven_only) drop_undriven();
    for (std::size_t i = 0; i < verdicts_.size(); ++i) conclude(i);
    return std::move(verdicts_);
  }

 private:
  void collect(std::size_t index) {
    const Nic& nic = model_.nics[index];
    NicVerdict& verdict = verdicts_[index];
    verdict.nic = static_cast<int>(index);
    if (!nic.problem.empty()) return refuse(index, nic.problem);
    verdict.not_driven = why_not_driven(model_, nic);
    if (nic.no_rdma && verdict.not_driven.empty()) return refuse(index, "no RDMA device");
    verdict.possible = true;
    if (nic.ports.empty()) {
      entries_.push_back(entry_of(model_, index, {}, false));
      return;
    }
    std::string closed;
    for (const Port& port : nic.ports) {
      const std::string why = why_closed(port);
      note_best(verdict, port);
      if (why.empty())
        entries_.push_back(entry_of(model_, index, port, true));
      else
        closed += fmt::format("{}port {} {}", closed.empty() ? "" : ", ", port.number, why);
    }
    const bool open = !entries_.empty() && entries_.back().nic == index;
    if (!open) {
      verdict.possible = false;
      refuse(index, closed);
    }
  }

  static void note_best(NicVerdict& verdict, const Port& port) {
    if (verdict.state != PortState::unknown && port.gbits <= verdict.gbits) return;
    verdict.state = port.state;
    verdict.layer = port.layer;
    verdict.gbits = port.gbits;
  }

  void refuse(std::size_t index, std::string why) {
    if (verdicts_[index].reason.empty()) verdicts_[index].reason = std::move(why);
  }

  template <typename Drop>
  void drop(Drop reason) {
    std::erase_if(entries_, [&](const Entry& entry) {
      std::string why = reason(entry);
      if (why.empty()) return false;
      refuse(entry.nic, std::move(why));
      return true;
    });
  }

  void drop_by_link() {
    double widest = 0;
    for (const Entry& entry : entries_) widest = std::max(widest, entry.most);
    drop([&](const Entry& entry) -> std::string {
      if (entry.most <= 0 || entry.most * kFarNarrower > widest * kRounding) return {};
      return fmt::format(
          "its PCI link of {:.3g} GB/s is {:.0f} times narrower than another's, taken for "
          "management",
          entry.most / 8, widest / entry.most);
    });
  }

  void drop_undriven() {
    for (NicVerdict& verdict : verdicts_)
      if (!verdict.not_driven.empty()) verdict.possible = false;
    drop([&](const Entry& entry) { return verdicts_[entry.nic].not_driven; });
  }

  void drop_by_layer() {
    double infiniband = 0;
    double ethernet = 0;
    bool all_said = true;
    bool any = false;
    for (const Entry& entry : entries_) {
      any |= entry.layer == LinkLayer::infiniband;
      all_said &= entry.layer_said && entry.gbits > 0;
      if (entry.layer == LinkLayer::infiniband) infiniband += entry.gbits;
      if (entry.layer == LinkLayer::ethernet) ethernet += entry.gbits;
    }
    if (!any) return;
    const bool ethernet_is_the_fabric = all_said && ethernet > 2 * infiniband;
    drop([&](const Entry& entry) -> std::string {
      if (entry.layer == LinkLayer::ethernet && !ethernet_is_the_fabric)
        return "Ethernet beside InfiniBand: taken for management or storage";
      if (entry.layer == LinkLayer::infiniband && ethernet_is_the_fabric)
        return fmt::format("InfiniBand beside Ethernet that has {:g} Gb/s in all", ethernet);
      return {};
    });
  }

  void drop_by_rate() {
    double best_known = 0;
    double best_unknown = 0;
    for (const Entry& entry : entries_) {
      best_known = std::max(best_known, entry.gbits);
      if (entry.gbits <= 0) best_unknown = std::max(best_unknown, entry.most);
    }
    drop([&](const Entry& entry) -> std::string {
      const double rate = rate_of(entry);
      const double best = best_known > 0 ? best_known : best_unknown;
      if (rate <= 0 || rate * 2 >= best) return {};
      return fmt::format(
          "{:g} Gb/s{}: less than half of the best ({:g} Gb/s), taken for management", rate,
          entry.gbits > 0 ? "" : " at most, by its PCI link", best);
    });
  }

  void conclude(std::size_t index) {
    NicVerdict& verdict = verdicts_[index];
    const Entry* best = nullptr;
    for (const Entry& entry : entries_) {
      if (entry.nic != index) continue;
      if (entry.port != 0) verdict.ports.push_back(entry.port);
      if (best == nullptr || entry.gbits > best->gbits) best = &entry;
    }
    if (best == nullptr) {
      if (verdict.layer == LinkLayer::unknown)
        verdict.layer = layer_by_class(model_, model_.nics[index]);
      return;
    }
    verdict.usable = true;
    verdict.state = best->state;
    verdict.layer = best->layer;
    verdict.gbits = best->gbits;
    verdict.reason = fmt::format(
        "{}, {}{}",
        best->state == PortState::active ? "port active" : "state of its port not known",
        best->gbits > 0 ? fmt::format("{:g} Gb/s", best->gbits) : "rate not known",
        best->layer == LinkLayer::unknown ? std::string{} : fmt::format(", {}", name(best->layer)));
    if (!verdict.not_driven.empty())
      verdict.reason += fmt::format("; weft does not drive it: {}", verdict.not_driven);
  }

  const Model& model_;
  std::vector<NicVerdict> verdicts_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<NicVerdict> judge_nics(const Model& model, bool driven_only) {
  return Judge(model).judge(driven_only);
}

}  // namespace weft::topology
