// weft-topo without a subcommand: prints a machine in one of several forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/render/svg.hpp"
#include "topology/render/text.hpp"

namespace weft::topology::tool {

enum class Form : std::uint8_t {
  matrix,
  tree,
  ranking,
  explain,
  json,
  dot,
  svg,
  nccl_xml,
  mooncake,
  diff
};

struct ShowOptions {
  Form form = Form::matrix;
  std::string input{};  ///< a file, or "live"; empty: this machine as a job would see it
  std::optional<int> ranks{};
  std::string gdr_level{};           ///< empty: WEFT_GDR_LEVEL or its default
  std::vector<std::string> names{};  ///< two devices to explain, or two machines to compare
  render::Theme theme = render::Theme::automatic;
  render::TextStyle style{};
};

/// Prints; returns the exit code: 0, or 1 if compared machines differ. Throws weft::Error for
/// unusable files, names and settings.
int run_show(const ShowOptions& options);

}  // namespace weft::topology::tool
