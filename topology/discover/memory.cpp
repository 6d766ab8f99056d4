#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topology/discover/steps.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

/// The number of "node12" or "cpu12"; nullopt for "cpufreq".
std::optional<int> number_in(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = parse_whole(std::string_view(name).substr(prefix.size()));
  return number && *number >= 0 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::map<int, std::vector<int>> cpus_of_packages(const Files& files) {
  std::map<int, std::vector<int>> packages;
  const std::string folder = "/sys/devices/system/cpu";
  for (const std::string& name : files.list(folder)) {
    const auto cpu = number_in(name, "cpu");
    if (!cpu) continue;
    const auto package =
        files.read_number(fmt::format("{}/{}/topology/physical_package_id", folder, name));
    if (package && *package >= 0) packages[static_cast<int>(*package)].push_back(*cpu);
  }
  return packages;
}

void read_distances(const Files& files, const std::string& folder, Model& model) {
  // One number for each node that is online, in their order.
  for (const NumaNode& node : model.numa) {
    const auto text = files.read(fmt::format("{}/node{}/distance", folder, node.number));
    std::size_t at = 0;
    for (const NumaNode& other : model.numa) {
      if (!text || at >= text->size()) break;
      const std::size_t end = std::min(text->find(' ', at), text->size());
      if (const auto distance = parse_whole(std::string_view(*text).substr(at, end - at)))
        model.distances.push_back(
            {.from = node.number,
             .to = other.number,
             .distance = static_cast<int>(std::clamp(*distance, 0L, 1L << 20))});
      at = end + 1;
    }
  }
}

/// "Node 0 MemTotal:  131596444 kB"
std::uint64_t bytes_in(const std::string& meminfo) {
  constexpr std::string_view kKey = "MemTotal:";
  const std::size_t key = meminfo.find(kKey);
  if (key == std::string::npos) return 0;
  const std::size_t begin = meminfo.find_first_not_of(' ', key + kKey.size());
  if (begin == std::string::npos) return 0;
  const std::size_t end = std::min(meminfo.find(' ', begin), meminfo.size());
  const auto kilobytes = parse_whole(std::string_view(meminfo).substr(begin, end - begin));
  return kilobytes && *kilobytes > 0 ? static_cast<std::uint64_t>(*kilobytes) << 10 : 0;
}

}  // namespace

void discover_memory(const Files& files, Model& model) {
  const auto packages = cpus_of_packages(files);
  for (const auto& [number, cpus] : packages) {
    model.packages.push_back({.number = number, .cpus = cpus});
    std::sort(model.packages.back().cpus.begin(), model.packages.back().cpus.end());
  }
  const std::string folder = "/sys/devices/system/node";
  for (const std::string& name : files.list(folder)) {
    const auto number = number_in(name, "node");
    if (!number) continue;
    NumaNode node{.number = *number};
    node.source = fmt::format("{}/{}", folder, name);
    const auto list = files.read(node.source + "/cpulist");
    auto cpus = list ? parse_cpu_list(*list) : std::nullopt;
    if (!cpus)
      model.notes.push_back(fmt::format("{}/cpulist can't be read: taken for none", node.source));
    if (cpus) node.cpus = std::move(*cpus);
    // Memory without processors is a GPU's, or an expansion: nothing is placed there.
    if (node.cpus.empty()) node.memory = MemoryKind::other;
    for (const auto& [package, of_package] : packages)
      if (!node.cpus.empty() &&
          std::find(of_package.begin(), of_package.end(), node.cpus.front()) != of_package.end())
        node.package = package;
    node.bytes = bytes_in(files.read(node.source + "/meminfo").value_or(""));
    model.numa.push_back(std::move(node));
  }
  std::sort(model.numa.begin(), model.numa.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  read_distances(files, folder, model);
}

}  // namespace weft::topology
