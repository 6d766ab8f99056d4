#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/render/labels.hpp"
#include "topology/render/paint.hpp"
#include "topology/render/text.hpp"
#include "topology/render/wrap.hpp"

namespace weft::topology::render {
namespace {

/// A GPU or a NIC as one of the GPUs reaches it.
struct Reach {
  Path path{};
  std::string way{};   ///< "PIX 2 15.8 G"
  std::string mark{};  ///< "*": the chosen NIC, "+": its equals
  std::string_view colour{};
};

/// A column of the matrix.
struct Column {
  std::string name;
  int gpu = kNone;
  int nic = kNone;
  std::vector<Reach> from{};  ///< by GPU

  std::size_t width() const {
    std::size_t width = name.size();
    for (const Reach& reach : from) width = std::max(width, reach.way.size() + reach.mark.size());
    return width;
  }
};

/// "PIX 2 15.75"
std::string path_text(const Path& path) {
  if (path.path_class == PathClass::LOC) return "LOC";
  if (path.path_class == PathClass::NVL)
    return path.gbytes > 0 ? fmt::format("NVL {:.3g}", path.gbytes) : "NVL";
  return fmt::format("{} {} {}", name(path.path_class), path.hops,
                     path.gbytes > 0 ? fmt::format("{:.3g}", path.gbytes) : "?");
}

bool is_taken(const View& view, int nic) {
  return std::any_of(view.selection.choices.begin(), view.selection.choices.end(),
                     [nic](const Choice& choice) { return choice.nic == nic; });
}

Reach reach_of(const View& view, const Choice* choice, const Gpu& gpu, int nic) {
  Reach reach{.path = path_between(view.model, gpu, view.nic(nic))};
  const bool usable = view.verdict(nic).usable;
  const bool direct =
      usable && gdr_hindrance(view.model, gpu, view.nic(nic), reach.path, view.policy).empty();
  reach.way = path_text(reach.path) + (!usable ? " x" : direct ? " G" : " h");
  if (!usable) reach.colour = kDim;
  if (choice == nullptr) return reach;
  if (choice->nic == nic) {
    reach.mark = "*";
    reach.colour = kChosen;
  } else if (std::find(choice->rails.begin(), choice->rails.end(), nic) != choice->rails.end()) {
    reach.mark = "+";
    reach.colour = kRail;
  }
  return reach;
}

std::vector<Column> devices_of(const View& view, const TextStyle& style) {
  std::vector<Column> devices;
  const int gpus = static_cast<int>(view.model.gpus.size());
  for (int gpu = 0; gpu < gpus && style.all; ++gpu) {
    Column& device = devices.emplace_back(Column{.name = view.gpu(gpu).name, .gpu = gpu});
    for (const Gpu& from : view.model.gpus) {
      Reach& reach = device.from.emplace_back();
      reach.path = path_between(view.model, from, view.gpu(gpu));
      reach.way = path_text(reach.path);
    }
  }
  for (int nic = 0; nic < static_cast<int>(view.model.nics.size()); ++nic) {
    // A setting may take a NIC that no rule would.
    if (!style.all && !view.verdict(nic).usable && !is_taken(view, nic)) continue;
    Column& device = devices.emplace_back(Column{.name = view.nic(nic).name, .nic = nic});
    for (int gpu = 0; gpu < gpus; ++gpu)
      device.from.push_back(reach_of(view, view.choice_of(gpu), view.gpu(gpu), nic));
  }
  return devices;
}

std::string padded(const std::string& text, std::size_t width) {
  return fmt::format("{:{}}", text, width);
}

std::size_t width_of_names(const View& view) {
  std::size_t width = 0;
  for (const Gpu& gpu : view.model.gpus) width = std::max(width, gpu.name.size());
  return width;
}

std::string table(const View& view, const std::vector<Column>& devices, const TextStyle& style) {
  const std::size_t names = width_of_names(view);
  const auto width = [&](const Column& device) {
    return &device == &devices.back() ? 0 : device.width();
  };
  std::string text(names, ' ');
  for (const Column& device : devices)
    text += "  " + painted({padded(device.name, width(device)), kBold}, style);
  text += '\n';
  for (std::size_t row = 0; row < view.model.gpus.size(); ++row) {
    text += painted({padded(view.model.gpus[row].name, names), kBold}, style);
    for (const Column& device : devices) {
      const Reach& reach = device.from[row];
      text += "  " + painted({padded(reach.way + reach.mark, width(device)), reach.colour}, style);
    }
    text += '\n';
  }
  return text;
}

/// The devices that a GPU reaches by the same way, the nearest way first; unusable NICs come last.
std::string list_of(const View& view, const std::vector<Column>& devices, std::size_t row,
                    const TextStyle& style) {
  const auto rank = [](const Column& device, const Reach& reach) {
    return std::tuple(device.nic != kNone, reach.way.ends_with(" x"), reach.path.path_class,
                      reach.path.hops, -reach.path.gbytes, reach.way);
  };
  std::map<decltype(rank(devices[0], devices[0].from[0])), std::vector<Cell>> ways;
  for (const Column& device : devices)
    if (const Reach& reach = device.from[row]; device.gpu != static_cast<int>(row))
      ways[rank(device, reach)].push_back({device.name + reach.mark, reach.colour});
  std::size_t widest = 0;
  for (const auto& [way, _] : ways) widest = std::max(widest, std::get<5>(way).size());
  const std::size_t names = width_of_names(view);
  const std::size_t indent = names + widest + 4;
  std::string text = painted({padded(view.model.gpus[row].name, names), kBold}, style);
  for (const auto& [way, cells] : ways) {
    if (&way != &ways.begin()->first) text += std::string(names, ' ');
    text += "  " + padded(std::get<5>(way), widest) + "  " + wrapped(cells, indent, indent, style) +
            '\n';
  }
  return text;
}

std::string matrix(const View& view, const std::vector<Column>& devices, const TextStyle& style) {
  std::size_t width = width_of_names(view);
  for (const Column& device : devices) width += 2 + device.width();
  if (style.width == 0 || width <= style.width) return table(view, devices, style) + '\n';
  std::string text;
  for (std::size_t row = 0; row < view.model.gpus.size(); ++row)
    text += list_of(view, devices, row, style);
  return text + '\n';
}

std::string legend(const std::vector<Column>& devices, const TextStyle& style) {
  std::set<PathClass> classes;
  std::set<char> signs;
  for (const Column& device : devices)
    for (const Reach& reach : device.from) {
      classes.insert(reach.path.path_class);
      if (device.nic != kNone) signs.insert(reach.way.back());
      if (!reach.mark.empty()) signs.insert(reach.mark.front());
    }
  std::string text = wrapped_line(
      "each: class, hops, GB/s of the narrowest link (1 GB/s = 8 Gb/s; ?: not known)", style);
  for (const PathClass path_class : classes)
    text += wrapped_line(fmt::format("{:4}  {}", name(path_class), meaning(path_class)), style);
  constexpr std::pair<char, const char*> kSigns[] = {{'*', "the NIC that this GPU gets"},
                                                     {'+', "as good a NIC"},
                                                     {'x', "a NIC that can't be used"},
                                                     {'G', "GPUDirect"},
                                                     {'h', "through host memory"}};
  for (const auto& [sign, meaning] : kSigns)
    if (signs.contains(sign)) text += wrapped_line(fmt::format("{}     {}", sign, meaning), style);
  return text + '\n';
}

std::string choices(const View& view, const TextStyle& style) {
  std::string text;
  for (const Choice& choice : view.selection.choices) {
    const auto who = choice.gpu == kNone
                         ? fmt::format("rank {}", choice.rank)
                         : fmt::format("{} {} ({})", view.gpu(choice.gpu).name,
                                       address_text(view.model, view.gpu(choice.gpu)),
                                       numa_text(view.model.numa_of(view.gpu(choice.gpu))));
    text += wrapped_line(fmt::format("{}: {}", who, in_both_units(choice.reason)), style);
  }
  return text;
}

/// A line for each reason for which NICs aren't used.
std::string unused(const View& view, const TextStyle& style) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (int i = 0; i < static_cast<int>(view.model.nics.size()); ++i) {
    if (view.verdict(i).usable || is_taken(view, i)) continue;
    const auto address = address_text(view.model, view.nic(i));
    const auto reason = view.reason(i);
    auto known = std::find_if(reasons.begin(), reasons.end(),
                              [&](const auto& other) { return other.first == reason; });
    if (known == reasons.end()) known = reasons.insert(known, {reason, {}});
    known->second.push_back(view.nic(i).name + (address == view.nic(i).name ? "" : " " + address));
  }
  std::string text;
  for (const auto& [reason, nics] : reasons)
    text += wrapped_line(fmt::format("{} {} not used: {}", fmt::join(nics, ", "),
                                     nics.size() == 1 ? "is" : "are", reason),
                         style);
  return text;
}

}  // namespace

std::string as_matrix(const View& view, const TextStyle& style) {
  const Model& model = view.model;
  const auto& verdicts = view.selection.nics;
  const auto usable = std::count_if(verdicts.begin(), verdicts.end(),
                                    [](const NicVerdict& verdict) { return verdict.usable; });
  const auto nvlink = nvlink_text(model);
  std::string text = wrapped_line(
      fmt::format("{}: {}, {} ({} usable), {} ({}){}{}", machine_text(model),
                  count_text(model.gpus.size(), "GPU"), count_text(model.nics.size(), "NIC"),
                  usable, count_text(model.numa.size(), "NUMA node"), name(model.origin),
                  nvlink.empty() ? "" : "; ", nvlink),
      style);
  text += '\n';
  const std::vector<Column> devices = devices_of(view, style);
  if (!model.gpus.empty() && !devices.empty())
    text += matrix(view, devices, style) + legend(devices, style);
  text += choices(view, style) + unused(view, style);
  for (const std::string& note : model.notes) text += wrapped_line("note: " + note, style, kOdd);
  return text;
}

std::string as_ranks(const View& view) {
  std::string text;
  for (const Choice& choice : view.selection.choices)
    fmt::format_to(std::back_inserter(text), "rank {}{}{}: {}; arenas on {}\n", choice.rank,
                   choice.gpu == kNone ? "" : " on ",
                   choice.gpu == kNone ? "" : view.gpu(choice.gpu).name,
                   in_both_units(choice.reason), numa_text(choice.numa));
  return text;
}

}  // namespace weft::topology::render
