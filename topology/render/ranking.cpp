#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "topology/render/labels.hpp"
#include "topology/render/paint.hpp"
#include "topology/render/text.hpp"

namespace weft::topology::render {
namespace {

void add_candidates(const View& view, const Choice& choice, bool colour, std::string& text) {
  std::size_t width = 0;
  for (const Nic& nic : view.model.nics) width = std::max(width, nic.name.size());
  int place = 0;
  for (const Candidate& candidate : choice.candidates) {
    const auto line =
        fmt::format("{:>4} {:{}}  {}", candidate.accepted ? fmt::format("{}.", ++place) : "-",
                    view.nic(candidate.nic).name, width, in_both_units(candidate.reason));
    const auto look = candidate.chosen ? kChosen : candidate.rail ? kRail : kDim;
    text += paint(look, line, colour && (candidate.rail || !candidate.accepted)) + '\n';
  }
  if (choice.candidates.empty()) text += "   - there is no NIC\n";
}

}  // namespace

std::string as_ranking(const View& view, const TextStyle& style) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const Choice& choice : view.selection.choices) {
    if (choice.gpu == kNone) continue;
    const Gpu& gpu = view.gpu(choice.gpu);
    fmt::format_to(out, "{} {}, {}\n", paint(kBold, gpu.name, style.colour),
                   address_text(view.model, gpu), numa_text(view.model.numa_of(gpu)));
    add_candidates(view, choice, style.colour, text);
  }
  for (const NumaNode& node : view.model.numa) {
    if (node.cpus.empty() || node.memory != MemoryKind::ordinary) continue;
    const auto alone = select(view.model, {{.rank = 0, .cpus = node.cpus}}, view.policy);
    fmt::format_to(out, "{}, processors {}\n", paint(kBold, numa_text(node.number), style.colour),
                   cpus_text(node.cpus));
    add_candidates(view, alone.choices.front(), style.colour, text);
  }
  return text.empty() ? "there is neither a GPU nor a NUMA node that is known\n" : text;
}

}  // namespace weft::topology::render
