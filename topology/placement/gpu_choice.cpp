#include "topology/placement/gpu_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

namespace weft::topology {
namespace {

constexpr std::uint16_t kNvidia = 0x10de;

const Gpu& gpu_at(const Model& model, int index) {
  return model.gpus[static_cast<std::size_t>(index)];
}

/// Some sources don't tell who made a GPU.
bool may_be_nvidias(const Model& model, const Gpu& gpu) {
  const std::uint16_t vendor =
      gpu.pci == kNone ? std::uint16_t{0} : model.pci[static_cast<std::size_t>(gpu.pci)].vendor;
  return vendor == 0 || vendor == kNvidia;
}

std::optional<std::size_t> number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || at != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string label(const Model& model, int gpu) {
  const auto address = model.address_of(gpu_at(model, gpu));
  return fmt::format("{} at {}", gpu_at(model, gpu).name, address ? address->text() : "?");
}

/// Those that CUDA can have: NVIDIA's, which its driver has here.
std::vector<int> all_gpus(const Model& model, const std::vector<std::string>& driven) {
  std::vector<int> all;
  for (std::size_t i = 0; i < model.gpus.size(); ++i) {
    const auto address = model.address_of(model.gpus[i]);
    const bool is_driven =
        driven.empty() || (address && std::ranges::any_of(driven, [&](const std::string& name) {
                             return PciAddress::parse(name) == address;
                           }));
    if (is_driven && may_be_nvidias(model, model.gpus[i])) all.push_back(static_cast<int>(i));
  }
  return all;
}

/// How far a GPU is from a rank: 0 on a NUMA node of its processors, 1 in the same package.
int distance(const Model& model, int gpu, const std::vector<int>& nodes) {
  const int node = model.numa_of(gpu_at(model, gpu));
  if (nodes.empty() || std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return 0;
  const int package = model.package_of(node);
  const bool same = package != kNone && std::any_of(nodes.begin(), nodes.end(), [&](int own) {
                      return model.package_of(own) == package;
                    });
  return same ? 1 : 2;
}

/// Each rank in its turn takes the least used GPU, among those the nearest.
void deal(const Model& model, const std::vector<int>& gpus, std::vector<HostRank>& ranks) {
  std::vector<int> load(gpus.size(), 0);
  for (HostRank& rank : ranks) {
    const std::vector<int> nodes = model.numa_of_cpus(rank.cpus);
    std::size_t best = 0;
    const auto key = [&](std::size_t i) {
      return std::tuple(load[i], distance(model, gpus[i], nodes), i);
    };
    for (std::size_t i = 1; i < gpus.size(); ++i)
      if (key(i) < key(best)) best = i;
    rank.gpu = gpus[best];
    ++load[best];
  }
}

/// Each rank's launcher shows it one GPU: the others are assumed to have the next ones in turn.
void deal_around(const std::vector<int>& all, const RankOnHost& own, int gpu,
                 std::vector<HostRank>& ranks) {
  const auto count = static_cast<int>(all.size());
  const auto at = static_cast<int>(std::find(all.begin(), all.end(), gpu) - all.begin());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int turn = (at + static_cast<int>(i) - own.index) % count;
    ranks[i].gpu = all[static_cast<std::size_t>(turn < 0 ? turn + count : turn)];
  }
}

std::string why_dealt(const Model& model, int gpu, const std::vector<int>& cpus) {
  const std::vector<int> nodes = model.numa_of_cpus(cpus);
  const int node = model.numa_of(gpu_at(model, gpu));
  if (node == kNone) return fmt::format("{}, whose NUMA node is not known", label(model, gpu));
  if (nodes.empty()) return fmt::format("{}, on NUMA node {}", label(model, gpu), node);
  if (distance(model, gpu, nodes) == 0)
    return fmt::format("{}, on NUMA node {} as processors of this rank", label(model, gpu), node);
  return fmt::format("{}, on NUMA node {}: no GPU on this rank's NUMA node {} is left to it",
                     label(model, gpu), node, fmt::join(nodes, ","));
}

}  // namespace

VisibleGpus visible_gpus(const Model& model, const RankOnHost& own) {
  VisibleGpus all{.gpus = all_gpus(model, own.driven_gpus)};
  if (!own.visible_gpus) return all;
  VisibleGpus seen;
  for (std::string_view rest = *own.visible_gpus; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    int gpu = kNone;
    if (const auto number = number_in(word)) {
      if (*number >= all.gpus.size()) break;  // as CUDA does: it hides that one and what follows
      gpu = all.gpus[*number];
    } else {
      gpu = find_gpu(model, word);
    }
    if (gpu == kNone) {
      seen.gpus.clear();
      seen.unknown = fmt::format("CUDA_VISIBLE_DEVICES={} names what topology does not know: {}",
                                 *own.visible_gpus, word);
      return seen;
    }
    seen.gpus.push_back(gpu);
  }
  seen.some_hidden = seen.gpus.size() < all.gpus.size();
  return seen;
}

std::string give_gpus(const Model& model, const RankOnHost& own, std::vector<HostRank>& ranks) {
  const std::vector<int> all = all_gpus(model, own.driven_gpus);
  if (all.empty()) return {};
  const VisibleGpus seen = visible_gpus(model, own);
  if (!seen.unknown.empty()) return seen.unknown;
  if (seen.gpus.empty()) return "CUDA_VISIBLE_DEVICES hides all GPUs";
  int& mine = ranks.at(static_cast<std::size_t>(own.index)).gpu;
  if (own.gpu != "auto") {
    const auto number = number_in(own.gpu);
    const int named = number ? (*number < seen.gpus.size() ? seen.gpus[*number] : kNone)
                             : find_gpu(model, own.gpu);
    if (named == kNone) return fmt::format("WEFT_GPU={} is none that topology knows", own.gpu);
    deal_around(all, own, named, ranks);
    return fmt::format("{}, by WEFT_GPU={}", label(model, mine), own.gpu);
  }
  if (seen.gpus.size() == 1) {
    deal_around(all, own, seen.gpus.front(), ranks);
    return label(model, mine) +
           (seen.some_hidden ? ", the only one that CUDA_VISIBLE_DEVICES shows" : ", the only one");
  }
  deal(model, seen.gpus, ranks);
  return why_dealt(model, mine, own.cpus) +
         (seen.some_hidden ? "; CUDA_VISIBLE_DEVICES hides others" : "");
}

}  // namespace weft::topology
