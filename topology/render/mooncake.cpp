#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "topology/render/exports.hpp"

namespace weft::topology::render {
namespace {

using Json = nlohmann::ordered_json;

/// [[equally best NICs], [other usable NICs]]
Json row_of(const View& view, const Choice& choice) {
  Json near = Json::array();
  Json far = Json::array();
  for (const Candidate& candidate : choice.candidates)
    if (candidate.accepted) (candidate.rail ? near : far).push_back(view.nic(candidate.nic).name);
  return Json::array({std::move(near), std::move(far)});
}

}  // namespace

std::string as_mooncake(const View& view) {
  Json matrix = Json::object();
  for (const NumaNode& node : view.model.numa) {
    if (node.cpus.empty() || node.memory != MemoryKind::ordinary) continue;
    const auto alone = select(view.model, {{.rank = 0, .cpus = node.cpus}}, view.policy);
    matrix[fmt::format("cpu:{}", node.number)] = row_of(view, alone.choices.front());
  }
  for (const Choice& choice : view.selection.choices) {
    if (choice.gpu == kNone) continue;
    const int ordinal = view.gpu(choice.gpu).cuda_ordinal;
    matrix[fmt::format("cuda:{}", ordinal == kNone ? choice.gpu : ordinal)] = row_of(view, choice);
  }
  return matrix.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft::topology::render
