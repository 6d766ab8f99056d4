#include "topology/tool/show_command.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/config.hpp"
#include "base/fail.hpp"
#include "topology/discover/discover.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "topology/model/path_class.hpp"
#include "topology/placement/place.hpp"
#include "topology/render/difference.hpp"
#include "topology/render/exports.hpp"
#include "topology/render/wrap.hpp"

namespace weft::topology::tool {
namespace {

constexpr int kDiffers = 1;
constexpr const char* kThisMachine = "live";

/// The policy that a job started here would have.
Policy read_policy(const Config& config, const ShowOptions& options) {
  Policy policy = policy_of(config);
  if (options.gdr_level.empty()) return policy;
  // The reason would blame WEFT_GDR_LEVEL.
  if (options.gdr_level != "never" && !parse_path_class(options.gdr_level))
    throw_error(Code::bad_argument, "--gdr-level",
                fmt::format("\"{}\" is no path class", options.gdr_level),
                "use LOC, PIX, PXB, P2C, PHB, NODE, SYS, poster (which is PHB), or never");
  set_gdr_level(policy, options.gdr_level);
  return policy;
}

Model read_machine(const std::string& input) {
  return input == kThisMachine ? discover() : import_file(input);
}

Selection select_for(const Model& model, const ShowOptions& options, const Policy& policy) {
  return select(model, options.ranks ? spread_ranks(model, *options.ranks) : rank_per_gpu(model),
                policy);
}

std::string shown(const render::View& view, const ShowOptions& options) {
  switch (options.form) {
    case Form::matrix:
      return options.ranks ? wrapped_lines(as_ranks(view), options.style)
                           : as_matrix(view, options.style);
    case Form::tree:
      return wrapped_lines(as_tree(view, options.style), options.style);
    case Form::ranking:
      return wrapped_lines(as_ranking(view, options.style), options.style);
    case Form::explain:
      return wrapped_lines(as_explanation(view, options.names.at(0), options.names.at(1)),
                           options.style);
    case Form::json:
      return options.ranks ? ranks_to_json(view.model, view.selection)
                           : to_json(view.model, view.selection);
    case Form::dot:
      return as_dot(view);
    case Form::svg:
      return as_svg(view, options.theme);
    case Form::nccl_xml:
      return as_nccl_xml(view);
    case Form::mooncake:
      return as_mooncake(view);
    case Form::diff:
      break;
  }
  return {};
}

int compare(const ShowOptions& options, const Policy& policy) {
  const Model left = read_machine(options.names.at(0));
  const Model right = read_machine(options.names.at(1));
  const Selection left_selection = select_for(left, options, policy);
  const Selection right_selection = select_for(right, options, policy);
  const auto found =
      render::difference({left, left_selection, policy}, {right, right_selection, policy});
  fmt::print("{}", found.text);
  return found.alike ? 0 : kDiffers;
}

}  // namespace

int run_show(const ShowOptions& options) {
  const auto config = Config::read();
  for (const auto& warning : config.warnings()) fmt::print(stderr, "weft-topo: {}\n", warning);
  const Policy policy = read_policy(config, options);
  if (options.form == Form::diff) return compare(options, policy);
  const Model model =
      options.input.empty() ? machine_of(config, discover()) : read_machine(options.input);
  const Selection selection = select_for(model, options, policy);
  fmt::print("{}", shown({model, selection, policy}, options));
  return 0;
}

}  // namespace weft::topology::tool
