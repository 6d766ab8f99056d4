#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "topology/discover/steps.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

constexpr const char* kNodes = "/sys/devices/system/node";

/// One of the kernel's lists of nodes: "has_cpu", "has_memory".
std::optional<std::vector<int>> nodes_in(const Files& files, const char* list) {
  const auto text = files.read(fmt::format("{}/{}", kNodes, list));
  return text ? parse_cpu_list(*text) : std::nullopt;
}

bool contains(const std::vector<int>& nodes, int number) {
  return std::find(nodes.begin(), nodes.end(), number) != nodes.end();
}

/// hwloc leaves out nodes whose processors it can't read.
void note_what_is_missing(const Files& files, Model& model) {
  for (const std::string& name : files.list(kNodes)) {
    constexpr std::string_view kPrefix = "node";
    if (!name.starts_with(kPrefix)) continue;
    const auto number = parse_whole(std::string_view(name).substr(kPrefix.size()));
    if (!number || std::any_of(model.numa.begin(), model.numa.end(),
                               [&](const NumaNode& node) { return node.number == *number; }))
      continue;
    const auto cpus = files.read(fmt::format("{}/{}/cpulist", kNodes, name));
    if (!cpus || !parse_cpu_list(*cpus))
      model.notes.push_back(fmt::format("{}/{}/cpulist can't be read: left out", kNodes, name));
  }
}

}  // namespace

void tell_memory_apart(const Files& files, Model& model) {
  if (const auto with_processors = nodes_in(files, "has_cpu"))
    for (NumaNode& node : model.numa) {
      if (contains(*with_processors, node.number)) continue;
      node.cpus.clear();
      if (node.memory == MemoryKind::ordinary) node.memory = MemoryKind::other;
    }
  note_what_is_missing(files, model);
}

std::vector<int> nodes_with_processors() {
  const Files files(machine_root());
  const auto with_processors = nodes_in(files, "has_cpu");
  const auto with_memory = nodes_in(files, "has_memory");
  if (!with_processors || !with_memory) return {};
  std::vector<int> both;
  std::copy_if(with_memory->begin(), with_memory->end(), std::back_inserter(both),
               [&](int node) { return contains(*with_processors, node); });
  return both.size() == with_memory->size() ? std::vector<int>{} : both;
}

}  // namespace weft::topology
