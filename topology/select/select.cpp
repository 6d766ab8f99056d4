#include "topology/select/select.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "topology/select/balance.hpp"
#include "topology/select/candidates.hpp"
#include "topology/select/overrides.hpp"
#include "topology/select/verdicts.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

const Nic& nic_at(const Model& model, int index) {
  return model.nics[static_cast<std::size_t>(index)];
}

/// Gives NICs that are functions or ports of one card the same number.
std::vector<int> number_cards(const Model& model) {
  std::vector<int> card(model.nics.size());
  for (std::size_t i = 0; i < card.size(); ++i) {
    card[i] = static_cast<int>(i);
    const auto address = model.address_of(model.nics[i]);
    for (std::size_t j = 0; j < i && address; ++j)
      if (const auto other = model.address_of(model.nics[j]); other && address->same_card(*other)) {
        card[i] = card[j];
        break;
      }
  }
  return card;
}

/// Order of assignment: by GPU, then by rank, independent of the order of the list.
std::vector<std::size_t> turn_of(const std::vector<HostRank>& ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [](const HostRank& rank) {
      return std::tuple(rank.gpu == kNone, rank.gpu, rank.rank);
    };
    return key(ranks[a]) < key(ranks[b]);
  });
  return order;
}

/// The rails in PCI order, those of fully known speed first.
Wish wish_of(const Choice& choice) {
  Wish wish{.nics = choice.rails};
  const auto partly_known = [&](int nic) {
    return std::any_of(choice.candidates.begin(), choice.candidates.end(),
                       [&](const Candidate& c) { return c.nic == nic && c.partly_known; });
  };
  std::stable_partition(wish.nics.begin(), wish.nics.end(),
                        [&](int nic) { return !partly_known(nic); });
  return wish;
}

void assign(const Model& model, const std::vector<HostRank>& ranks, Selection& selection) {
  const std::vector<std::size_t> turn = turn_of(ranks);
  std::vector<Wish> wishes;
  wishes.reserve(turn.size());
  for (const std::size_t rank : turn) wishes.push_back(wish_of(selection.choices[rank]));
  const Assignment assignment = balance(wishes, number_cards(model));
  selection.matching_steps = assignment.steps;
  std::map<int, std::size_t> times;
  for (std::size_t i = 0; i < turn.size(); ++i) {
    Choice& choice = selection.choices[turn[i]];
    choice.nic = assignment.nic[i];
    if (choice.nic == kNone) continue;
    // Ranks that share a NIC use its ports round-robin.
    const auto& ports = selection.nics[static_cast<std::size_t>(choice.nic)].ports;
    if (choice.port == 0 && !ports.empty()) choice.port = ports[times[choice.nic]++ % ports.size()];
  }
}

void settle_memory(const Model& model, const HostRank& rank, const Policy& policy, Choice& choice) {
  const auto or_sole = [&](int numa) { return numa != kNone ? numa : model.sole_numa(); };
  const int beside_nic = or_sole(model.numa_of(nic_at(model, choice.nic)));
  if (choice.gpu != kNone) {
    const Gpu& gpu = model.gpus[static_cast<std::size_t>(choice.gpu)];
    const std::string hindrance =
        gdr_hindrance(model, gpu, nic_at(model, choice.nic), choice.path, policy);
    choice.gdr = hindrance.empty();
    choice.gdr_reason = choice.gdr
                            ? fmt::format("GPUDirect: {} is within {}",
                                          name(choice.path.path_class), name(policy.gdr_level))
                            : fmt::format("no GPUDirect: {}", hindrance);
    const int beside_gpu = or_sole(model.numa_of(gpu));
    choice.numa = beside_nic != kNone ? beside_nic : beside_gpu;
    if (!choice.gdr) choice.bounce_numa = choice.numa;
    if (!choice.gdr)
      choice.gdr_reason +=
          choice.bounce_numa == kNone
              ? "; through host memory, no NUMA node known"
              : fmt::format("; through host memory on NUMA node {}{}", choice.bounce_numa,
                            beside_nic == kNone ? " (the GPU's)" : "");
    return;
  }
  choice.gdr_reason = "no GPU";
  choice.bounce_numa = beside_nic;
  const std::vector<int> own = model.numa_of_cpus(rank.cpus);
  const bool nic_is_near =
      own.empty() || std::find(own.begin(), own.end(), beside_nic) != own.end();
  choice.numa = nic_is_near ? beside_nic : own.front();
}

void explain(const Model& model, Choice& choice, const std::string& forced_by,
             const std::string& not_driven) {
  if (choice.nic == kNone) {
    choice.reason = model.nics.empty() ? "there is no NIC" : "no NIC may be used";
    for (const Candidate& candidate : choice.candidates)
      choice.reason += fmt::format("; {}: {}", nic_at(model, candidate.nic).name, candidate.reason);
    return;
  }
  const std::string path = fmt::format("{} ({})", name(choice.path.path_class), choice.path.text);
  const auto accepted =
      std::count_if(choice.candidates.begin(), choice.candidates.end(),
                    [](const Candidate& candidate) { return candidate.accepted; });
  std::string why;
  if (!forced_by.empty())
    why = "by " + forced_by;
  else if (accepted == 1)
    why = "the only NIC that may be used";
  else if (choice.rails.size() == 1)
    why = "the nearest and fastest";
  else
    why = fmt::format("one of {} equals, by balance", choice.rails.size());
  choice.reason = fmt::format("{}: {}, {}", nic_at(model, choice.nic).name, path, why);
  if (choice.gpu != kNone && !choice.gdr_reason.empty()) choice.reason += "; " + choice.gdr_reason;
  if (!not_driven.empty())
    choice.reason += fmt::format("; a job takes TCP in its place: {}", not_driven);
  for (Candidate& candidate : choice.candidates) {
    if (!candidate.rail) continue;
    candidate.chosen = candidate.nic == choice.nic;
    candidate.reason +=
        candidate.chosen ? fmt::format(": taken, {}", why) : ": as good, left to other ranks";
  }
}

void check_ranks(const Model& model, const std::vector<HostRank>& ranks) {
  for (const HostRank& rank : ranks)
    if (rank.gpu < kNone ||
        (rank.gpu != kNone && static_cast<std::size_t>(rank.gpu) >= model.gpus.size()))
      throw Error(ErrorDetail{.code = Code::bad_argument,
                              .operation = "topology",
                              .message = fmt::format("rank {} wants GPU {} of {}", rank.rank,
                                                     rank.gpu, model.gpus.size()),
                              .hint = "give an index into the model's GPUs"});
}

}  // namespace

std::string gdr_hindrance(const Model& model, const Gpu& gpu, const Nic& nic, const Path& path,
                          const Policy& policy) {
  if (policy.gdr_never) return "WEFT_GDR_LEVEL=never";
  if (path.path_class > policy.gdr_level)
    return fmt::format("{} is beyond {}", name(path.path_class), name(policy.gdr_level));
  if (gpu.gpudirect == false && gpu.dma_buf != true)
    return fmt::format("{} does not offer it", gpu.name);
  if (nic.gpudirect == false) return fmt::format("{} does not offer it", nic.name);
  if (gpu.dma_buf == false && model.facts.peermem == false)
    return "neither dma-buf nor nvidia_peermem is there";
  return {};
}

Selection select(const Model& model, const std::vector<HostRank>& ranks, const Policy& policy) {
  check_ranks(model, ranks);
  Selection selection{.nics = judge_nics(model, policy.driven_only)};
  const Overrides overrides = read_overrides(model, selection.nics, policy);
  for (const HostRank& rank : ranks) {
    Choice choice{.rank = rank.rank, .gpu = rank.gpu};
    const Override& override = overrides.of(rank);
    choice.port = override.port;
    selection.paths_computed +=
        rank_candidates(model, rank, selection.nics, override.nic, override.by, choice);
    selection.choices.push_back(std::move(choice));
  }
  assign(model, ranks, selection);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Choice& choice = selection.choices[i];
    if (choice.nic != kNone) {
      for (const Candidate& candidate : choice.candidates)
        if (candidate.nic == choice.nic) choice.path = candidate.path;
      settle_memory(model, ranks[i], policy, choice);
      // A job tries GPUDirect, so it would be wrong to say here that there is none.
      if (policy.driven_only) choice.gdr_reason.clear();
    }
    explain(
        model, choice, overrides.of(ranks[i]).by,
        choice.nic == kNone ? "" : selection.nics[static_cast<std::size_t>(choice.nic)].not_driven);
  }
  return selection;
}

std::vector<HostRank> rank_per_gpu(const Model& model) {
  return spread_ranks(model, model.gpus.empty() ? -1 : static_cast<int>(model.gpus.size()));
}

std::vector<HostRank> spread_ranks(const Model& model, int count) {
  std::vector<const NumaNode*> nodes;
  for (const NumaNode& node : model.numa)
    if (!node.cpus.empty() && node.memory == MemoryKind::ordinary) nodes.push_back(&node);
  const int all = count < 0 ? static_cast<int>(nodes.size()) : count;
  std::vector<HostRank> ranks;
  for (int i = 0; i < all; ++i) {
    HostRank rank{.rank = i};
    if (!model.gpus.empty())
      rank.gpu = i % static_cast<int>(model.gpus.size());
    else if (!nodes.empty())  // neighbours share a node, as launchers bind them
      rank.cpus =
          nodes[static_cast<std::size_t>(i) * nodes.size() / static_cast<std::size_t>(all)]->cpus;
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace weft::topology
