// Prints a machine as text for a terminal.
#pragma once

#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

struct TextStyle {
  bool colour = false;    ///< ANSI escapes
  std::size_t width = 0;  ///< columns that the matrix may take; 0: no limit
  bool all = false;       ///< the matrix has GPUs and NICs that can't be used among its columns
};

/// GPU x usable NIC: class, hops, narrowest link, GPUDirect, the chosen NIC and its equals; then
/// the choice for each GPU with its reason, and the notes. A matrix that is too wide becomes a list
/// of each GPU's devices by their paths. Longer lines than the style's width are broken at blanks.
std::string as_matrix(const View& view, const TextStyle& style);

/// Packages, NUMA nodes, switches and devices, one line each.
std::string as_tree(const View& view, const TextStyle& style);

/// All NICs with reasons, the best first, for each GPU, and for each NUMA node for ranks without a
/// GPU.
std::string as_ranking(const View& view, const TextStyle& style);

/// The choice for each rank of the selection, one line per rank.
std::string as_ranks(const View& view);

/// Everything known about the path between two devices, and the selection's verdict. The names are
/// those that find_gpu and find_nic accept; at least one must be a GPU. Throws Error(bad_argument),
/// which lists the devices.
std::string as_explanation(const View& view, const std::string& first, const std::string& second);

}  // namespace weft::topology::render
