// A machine as text for a terminal.
#pragma once

#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

struct TextStyle {
  bool colour = false;    ///< ANSI escapes
  std::size_t width = 0;  ///< columns of the terminal; a wider matrix is cut into blocks. 0: any
};

/// GPU x GPU and GPU x NIC: class, hops, narrowest link, GPUDirect, the chosen NIC and its equals;
/// then what every GPU gets and why, and what was odd.
std::string as_matrix(const View& view, const TextStyle& style);

/// Packages, NUMA nodes, switches and devices, one line each.
std::string as_tree(const View& view, const TextStyle& style);

/// Of each GPU, and of each NUMA node for ranks without one, all NICs with reasons, the best first.
std::string as_ranking(const View& view, const TextStyle& style);

/// Who gets what of the selection's ranks, one line each.
std::string as_ranks(const View& view);

/// All that is known of the way between two devices, and what the selection made of it. Each is
/// named as find_gpu or find_nic take it; at least one is a GPU. Throws Error(bad_argument), which
/// lists the devices that exist.
std::string as_explanation(const View& view, const std::string& first, const std::string& second);

}  // namespace weft::topology::render
