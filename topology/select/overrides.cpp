#include "topology/select/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

template <typename Device>
std::string names_of(const std::vector<Device>& devices) {
  std::string all;
  for (const Device& device : devices) all += (all.empty() ? "" : ", ") + device.name;
  return all.empty() ? "there is none" : "there are " + all;
}

/// Port number in a name such as "mlx5_0:2"; 0 if `text` names the device only.
int port_in(const Model& model, int nic, const std::string& text) {
  for (const Port& port : model.nics[static_cast<std::size_t>(nic)].ports)
    if (text == fmt::format("{}:{}", model.nics[static_cast<std::size_t>(nic)].name, port.number))
      return port.number;
  return 0;
}

Override find(const Model& model, const std::vector<NicVerdict>& verdicts, const std::string& nic,
              const std::string& by) {
  Override found{.nic = find_nic(model, nic), .by = by};
  if (found.nic == kNone)
    throw_error(Code::bad_config, "topology",
                fmt::format("{}: no such NIC is here; {}", by, names_of(model.nics)),
                "name one of them, or leave the choice to weft");
  const NicVerdict& verdict = verdicts[static_cast<std::size_t>(found.nic)];
  const Nic& device = model.nics[static_cast<std::size_t>(found.nic)];
  if (!verdict.possible)
    throw_error(Code::bad_config, "topology",
                fmt::format("{}: {} can't be used: {}", by, device.name, verdict.reason),
                "activate the port, or name another NIC");
  found.port = port_in(model, found.nic, nic);
  for (const Port& port : device.ports)
    if (port.number == found.port && port.state != PortState::active &&
        port.state != PortState::unknown)
      throw_error(
          Code::bad_config, "topology",
          fmt::format("{}: port {} of {} is {}", by, port.number, device.name, name(port.state)),
          "activate the port, or name another NIC");
  return found;
}

}  // namespace

const Override& Overrides::of(const HostRank& rank) const {
  if (rank.gpu == kNone) return all;
  const Override& own = gpus[static_cast<std::size_t>(rank.gpu)];
  return own.nic == kNone ? all : own;
}

Overrides read_overrides(const Model& model, const std::vector<NicVerdict>& verdicts,
                         const Policy& policy) {
  Overrides overrides{.gpus = std::vector<Override>(model.gpus.size())};
  if (!policy.nic.empty())
    overrides.all = find(model, verdicts, policy.nic, fmt::format("WEFT_NIC={}", policy.nic));
  for (const auto& [gpu, nic] : policy.gpu_nic) {
    const std::string by = fmt::format("WEFT_GPU_NIC={}={}", gpu, nic);
    const int index = find_gpu(model, gpu);
    if (index == kNone)
      throw_error(Code::bad_config, "topology",
                  fmt::format("{}: no GPU \"{}\" is here; {}", by, gpu, names_of(model.gpus)),
                  "name a GPU as GPU0, or by its PCI address");
    Override& own = overrides.gpus[static_cast<std::size_t>(index)];
    if (own.nic != kNone)
      throw_error(Code::bad_config, "topology",
                  fmt::format("{}: {} has been given a NIC before, by {}", by, gpu, own.by),
                  "name each GPU once");
    own = find(model, verdicts, nic, by);
  }
  return overrides;
}

std::vector<std::pair<std::string, std::string>> parse_gpu_nic(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (text.empty()) return pairs;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == item.size())
      throw_error(Code::bad_config, "topology",
                  fmt::format("WEFT_GPU_NIC=\"{}\": \"{}\" is not GPU=NIC", text, item),
                  "write pairs such as GPU0=mlx5_0,GPU1=mlx5_1, or PCI addresses in their place");
    pairs.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    at = end + 1;
  }
  return pairs;
}

void set_gdr_level(Policy& policy, const std::string& text) {
  if (text == "never" || text == "NEVER") {
    policy.gdr_never = true;
    return;
  }
  const auto level = parse_path_class(text);
  if (!level)
    throw_error(Code::bad_config, "topology",
                fmt::format("WEFT_GDR_LEVEL=\"{}\" is no path class", text),
                "use LOC, PIX, PXB, P2C, PHB, NODE, SYS, poster (which is PHB), or never");
  policy.gdr_level = *level;
  policy.gdr_never = false;
}

}  // namespace weft::topology
