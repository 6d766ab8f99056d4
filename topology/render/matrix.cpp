#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "topology/render/labels.hpp"
#include "topology/render/paint.hpp"
#include "topology/render/text.hpp"

namespace weft::topology::render {
namespace {

struct Cell {
  std::string text{};
  std::string_view colour{};
};

struct Column {
  std::string title;
  std::vector<Cell> cells{};

  std::size_t width() const {
    std::size_t width = title.size();
    for (const Cell& cell : cells) width = std::max(width, cell.text.size());
    return width;
  }
};

/// "PIX 2 15.75"
std::string path_cell(const Path& path) {
  if (path.path_class == PathClass::LOC) return "LOC";
  if (path.path_class == PathClass::NVL)
    return path.gbytes > 0 ? fmt::format("NVL {:.3g}", path.gbytes) : "NVL";
  return fmt::format("{} {} {}", name(path.path_class), path.hops,
                     path.gbytes > 0 ? fmt::format("{:.3g}", path.gbytes) : "?");
}

Cell nic_cell(const View& view, const Choice* choice, const Gpu& gpu, int nic) {
  const Path path = path_between(view.model, gpu, view.nic(nic));
  Cell cell{path_cell(path)};
  if (!view.verdict(nic).usable) return {cell.text + " x", kDim};
  const bool direct = gdr_hindrance(view.model, gpu, view.nic(nic), path, view.policy).empty();
  cell.text += direct ? " G" : " h";
  if (choice == nullptr) return cell;
  const bool rail =
      std::find(choice->rails.begin(), choice->rails.end(), nic) != choice->rails.end();
  if (choice->nic == nic) return {cell.text + "*", kChosen};
  return rail ? Cell{cell.text + "+", kRail} : cell;
}

std::vector<Column> columns_of(const View& view) {
  std::vector<Column> columns;
  for (const Gpu& other : view.model.gpus) {
    Column column{other.name};
    for (const Gpu& gpu : view.model.gpus)
      column.cells.push_back({path_cell(path_between(view.model, gpu, other)), {}});
    columns.push_back(std::move(column));
  }
  for (std::size_t nic = 0; nic < view.model.nics.size(); ++nic) {
    Column column{view.model.nics[nic].name};
    for (std::size_t gpu = 0; gpu < view.model.gpus.size(); ++gpu)
      column.cells.push_back(nic_cell(view, view.choice_of(static_cast<int>(gpu)),
                                      view.model.gpus[gpu], static_cast<int>(nic)));
    columns.push_back(std::move(column));
  }
  return columns;
}

std::string padded(const std::string& text, std::size_t width) {
  return fmt::format("{:{}}", text, width);
}

/// Prints as many columns side by side as fit, and the rest in further blocks below.
std::string blocks(const View& view, const std::vector<Column>& columns, const TextStyle& style) {
  std::string text;
  const auto out = std::back_inserter(text);
  std::size_t first_width = 0;
  for (const Gpu& gpu : view.model.gpus) first_width = std::max(first_width, gpu.name.size());
  for (std::size_t from = 0, to = 0; from < columns.size(); from = to) {
    std::size_t width = first_width;
    for (to = from; to < columns.size(); ++to) {
      width += 2 + columns[to].width();
      if (to > from && style.width > 0 && width > style.width) break;
    }
    fmt::format_to(out, "{:{}}", "", first_width);
    for (std::size_t i = from; i < to; ++i)
      fmt::format_to(out, "  {}",
                     paint(kBold, padded(columns[i].title, i + 1 < to ? columns[i].width() : 0),
                           style.colour));
    text += '\n';
    for (std::size_t row = 0; row < view.model.gpus.size(); ++row) {
      text +=
          paint(kBold, fmt::format("{:{}}", view.model.gpus[row].name, first_width), style.colour);
      for (std::size_t i = from; i < to; ++i) {
        const Cell& cell = columns[i].cells[row];
        fmt::format_to(out, "  {}",
                       paint(cell.colour, padded(cell.text, i + 1 < to ? columns[i].width() : 0),
                             style.colour && !cell.colour.empty()));
      }
      text += '\n';
    }
    text += '\n';
  }
  return text;
}

std::string legend(const View& view) {
  std::set<PathClass> seen;
  for (const Gpu& gpu : view.model.gpus) {
    for (const Gpu& other : view.model.gpus)
      seen.insert(path_between(view.model, gpu, other).path_class);
    for (const Nic& nic : view.model.nics)
      seen.insert(path_between(view.model, gpu, nic).path_class);
  }
  std::string text = "each: class, hops, GB/s of the narrowest link (?: not known)\n";
  for (const PathClass path_class : seen)
    text += fmt::format("{:4}  {}\n", name(path_class), meaning(path_class));
  if (!view.model.nics.empty())
    text +=
        "*     the NIC that this GPU gets       +  as good a NIC       x  a NIC that can't be "
        "used\n"
        "G     GPUDirect                        h  through host memory\n";
  return text + '\n';
}

std::string ends(const View& view) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const Choice& choice : view.selection.choices) {
    if (choice.gpu == kNone)
      fmt::format_to(out, "rank {}: {}\n", choice.rank, choice.reason);
    else
      fmt::format_to(out, "{} {} ({}): {}\n", view.gpu(choice.gpu).name,
                     address_text(view.model, view.gpu(choice.gpu)),
                     numa_text(view.model.numa_of(view.gpu(choice.gpu))), choice.reason);
  }
  for (std::size_t i = 0; i < view.model.nics.size(); ++i) {
    const Nic& nic = view.model.nics[i];
    const NicVerdict& verdict = view.verdict(static_cast<int>(i));
    const auto address = address_text(view.model, nic);
    if (!verdict.usable)
      fmt::format_to(out, "{}{} is not used: {}\n", nic.name,
                     address == nic.name ? "" : " " + address, verdict.reason);
  }
  return text;
}

}  // namespace

std::string as_matrix(const View& view, const TextStyle& style) {
  const Model& model = view.model;
  std::string text =
      fmt::format("{}: {}, {}, {} ({})\n\n", machine_text(model),
                  count_text(model.gpus.size(), "GPU"), count_text(model.nics.size(), "NIC"),
                  count_text(model.numa.size(), "NUMA node"), name(model.origin));
  if (!model.gpus.empty()) text += blocks(view, columns_of(view), style) + legend(view);
  text += ends(view);
  for (const std::string& note : model.notes)
    text += paint(kOdd, "note: " + note, style.colour) + '\n';
  return text;
}

std::string as_ranks(const View& view) {
  std::string text;
  for (const Choice& choice : view.selection.choices)
    fmt::format_to(std::back_inserter(text), "rank {}{}{}: {}; arenas on {}\n", choice.rank,
                   choice.gpu == kNone ? "" : " on ",
                   choice.gpu == kNone ? "" : view.gpu(choice.gpu).name, choice.reason,
                   numa_text(choice.numa));
  return text;
}

}  // namespace weft::topology::render
