#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/fail.hpp"
#include "topology/render/labels.hpp"
#include "topology/render/text.hpp"
#include "weft/error.hpp"

namespace weft::topology::render {
namespace {

std::string node_words(const Model& model, int index) {
  const PciNode& node = model.pci[static_cast<std::size_t>(index)];
  const auto what = node.address        ? node.address->text()
                    : node.name.empty() ? "host bridge"
                                        : node.name;
  const auto link = link_text(node.link);
  return link.empty() ? what : fmt::format("{} ({})", what, link);
}

/// The nodes from a device up to the meeting point, each with its link.
std::string way_up(const Model& model, int from, int meeting) {
  std::vector<std::string> steps;
  for (int at = from; at != kNone; at = model.pci[static_cast<std::size_t>(at)].parent) {
    steps.push_back(node_words(model, at));
    if (at == meeting) break;
  }
  return steps.empty() ? "not on PCI" : fmt::format("{}", fmt::join(steps, " - "));
}

std::string sources_text(const FactSources& sources) {
  std::vector<std::string> all;
  for (const FactSource& one : sources) all.push_back(fmt::format("{}: {}", one.fact, one.source));
  return all.empty() ? "" : fmt::format("  by {}", fmt::join(all, "; "));
}

[[noreturn]] void refuse(const Model& model, const std::string& what, const char* hint) {
  std::vector<std::string> known;
  for (const Gpu& gpu : model.gpus)
    known.push_back(fmt::format("{} ({})", gpu.name, address_text(model, gpu)));
  for (const Nic& nic : model.nics) known.push_back(nic.name);
  throw_error(Code::bad_argument, "explain",
              fmt::format("{}; there are: {}", what,
                          known.empty() ? "neither GPUs nor NICs"
                                        : fmt::format("{}", fmt::join(known, ", "))),
              hint);
}

struct Device {
  int gpu = kNone;
  int nic = kNone;
};

Device find(const Model& model, const std::string& what) {
  const Device found{find_gpu(model, what), find_nic(model, what)};
  if (found.gpu == kNone && found.nic == kNone)
    refuse(model, fmt::format("no device is called \"{}\"", what),
           "name a GPU and a NIC, or two GPUs, as in --explain GPU0 mlx5_0");
  return found;
}

std::string path_words(const Path& path, const std::string& speed) {
  return fmt::format("path       {}: {}; {}, {}{}\n", name(path.path_class), path.text,
                     count_text(static_cast<std::size_t>(path.hops), "hop"), speed,
                     path.narrowest.empty() ? "" : fmt::format(" (narrowest: {})", path.narrowest));
}

std::string head_of(const Model& model, const Gpu& gpu) {
  const auto description =
      gpu.pci == kNone ? "" : model.pci[static_cast<std::size_t>(gpu.pci)].description;
  return fmt::format("{:10} {}, {}{}{}{}\n", gpu.name, address_text(model, gpu),
                     numa_text(model.numa_of(gpu)), description.empty() ? "" : ", ", description,
                     sources_text(gpu.sources));
}

std::string explain_gpus(const View& view, int first, int second) {
  const Gpu& a = view.gpu(first);
  const Gpu& b = view.gpu(second);
  const Path path = path_between(view.model, a, b);
  std::string text =
      head_of(view.model, a) + head_of(view.model, b) + path_words(path, speed_text(path.gbytes));
  text += fmt::format("from {:5} {}\n", a.name, way_up(view.model, a.pci, path.meeting));
  text += fmt::format("from {:5} {}\n", b.name, way_up(view.model, b.pci, path.meeting));
  return text;
}

std::string explain_nic(const View& view, int gpu_index, int nic_index) {
  const Model& model = view.model;
  const Gpu& gpu = view.gpu(gpu_index);
  const Nic& nic = view.nic(nic_index);
  const NicVerdict& verdict = view.verdict(nic_index);
  const Path path = path_between(model, gpu, nic);
  const auto port = port_text(nic);

  std::string text = head_of(model, gpu);
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:10} {}, {}{}{}{}\n", nic.name, address_text(model, nic),
                 numa_text(model.numa_of(nic)), port.empty() ? "" : ", ", port,
                 sources_text(nic.sources));
  text += path_words(path, in_both_units(speed_text(path.gbytes)));
  fmt::format_to(out, "from {:5} {}\n", gpu.name, way_up(model, gpu.pci, path.meeting));
  fmt::format_to(out, "from NIC   {}\n", way_up(model, nic.pci, path.meeting));
  fmt::format_to(out, "NIC        {}: {}\n", verdict.usable ? "usable" : "not used",
                 view.reason(nic_index));
  if (verdict.usable) {
    const auto hindrance = gdr_hindrance(model, gpu, nic, path, view.policy);
    fmt::format_to(
        out, "GPUDirect  {}\n",
        hindrance.empty() ? "yes" : fmt::format("no, through host memory: {}", hindrance));
  }
  const Choice* choice = view.choice_of(gpu_index);
  if (choice == nullptr) return text + "verdict    no rank has this GPU\n";
  if (const Candidate* candidate = candidate_of(*choice, nic_index))
    fmt::format_to(out, "verdict    {}: {}\n",
                   candidate->chosen     ? "chosen"
                   : candidate->rail     ? "as good as the chosen one"
                   : candidate->accepted ? "not chosen"
                                         : "rejected",
                   in_both_units(candidate->reason));
  if (choice->nic != nic_index)
    fmt::format_to(out, "instead    {}\n", in_both_units(choice->reason));
  return text;
}

}  // namespace

std::string as_explanation(const View& view, const std::string& first, const std::string& second) {
  const Device a = find(view.model, first);
  const Device b = find(view.model, second);
  if (a.gpu != kNone && b.gpu != kNone) return explain_gpus(view, a.gpu, b.gpu);
  if (a.gpu != kNone) return explain_nic(view, a.gpu, b.nic);
  if (b.gpu != kNone) return explain_nic(view, b.gpu, a.nic);
  refuse(view.model, fmt::format("neither {} nor {} is a GPU", first, second),
         "name a GPU and a NIC, or two GPUs, as in --explain GPU0 mlx5_0");
}

}  // namespace weft::topology::render
