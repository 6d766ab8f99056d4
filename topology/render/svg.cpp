#include "topology/render/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <vector>

#include "topology/render/labels.hpp"
#include "topology/render/svg_layout.hpp"
#include "topology/render/xml_text.hpp"

namespace weft::topology::render {
namespace {

constexpr double kMargin = 28;
constexpr double kLegendHeight = 44;

struct Palette {
  const char* ground;
  const char* text;
  const char* faint;
  const char* package;
  const char* package_edge;
  const char* numa;
  const char* numa_edge;
  const char* wiring;
  const char* wiring_edge;
  const char* gpu;
  const char* gpu_edge;
  const char* nic;
  const char* nic_edge;
  const char* unused;
  const char* chosen;
};

constexpr Palette kLight{"#ffffff", "#1b1f24", "#57606a", "#f3f5f8", "#9aa5b1",
                         "#ffffff", "#b6c0cb", "#f7f2e6", "#c2ab74", "#dff2d8",
                         "#4b8b3b", "#dbeafc", "#2f6db5", "#eceff2", "#c2410c"};
constexpr Palette kDark{"#14181d", "#eef2f6", "#a9b4c0", "#1d232a", "#5d6b7a",
                        "#171c22", "#4a5663", "#2a2619", "#8b7a4d", "#1f3a1b",
                        "#7cc46a", "#16304f", "#6aaaf0", "#22282f", "#ff9d5c"};

std::string rules(const Palette& p) {
  std::string css;
  const auto add = [&](const char* selector, const std::string& body) {
    css += fmt::format("    {} {{ {} }}\n", selector, body);
  };
  const auto box = [&](const char* selector, const char* fill, const char* edge) {
    add(selector, fmt::format("fill: {}; stroke: {};", fill, edge));
  };
  add(".ground", fmt::format("fill: {};", p.ground));
  add("text", fmt::format("fill: {};", p.text));
  add(".detail", fmt::format("fill: {};", p.faint));
  add(".choice", fmt::format("fill: {};", p.chosen));
  box(".package", p.package, p.package_edge);
  box(".numa", p.numa, p.numa_edge);
  box(".wiring", p.wiring, p.wiring_edge);
  box(".gpu", p.gpu, p.gpu_edge);
  box(".nic", p.nic, p.nic_edge);
  box(".unused", p.unused, p.faint);
  add(".rail", fmt::format("stroke: {};", p.chosen));
  add(".taken", fmt::format("stroke: {};", p.chosen));
  return css;
}

std::string style(Theme theme) {
  std::string css =
      "    text { font-family: \"Helvetica Neue\", Arial, \"DejaVu Sans\", sans-serif; }\n"
      "    .name, .title, .choice { font-weight: bold; }\n"
      "    rect { stroke-width: 1.5; }\n"
      "    rect.patch { stroke: none; }\n"
      "    .unused { stroke-dasharray: 5 4; }\n"
      "    .taken { stroke-width: 3.5; }\n"
      "    .rail { fill: none; stroke-width: 4; stroke-linecap: round; }\n"
      "    .equal { stroke-width: 2; stroke-dasharray: 2 6; }\n";
  css += rules(theme == Theme::dark ? kDark : kLight);
  if (theme == Theme::automatic)
    css += "    @media (prefers-color-scheme: dark) {\n" + rules(kDark) + "    }\n";
  return css;
}

const char* name_of(Ink ink) {
  switch (ink) {
    case Ink::title:
      return "title";
    case Ink::name:
      return "name";
    case Ink::choice:
      return "choice";
    case Ink::detail:
      return "detail";
  }
  return "";
}

class Picture {
 public:
  Picture(const View& view, Theme theme) : view_(view), theme_(theme) {}

  std::string draw() {
    const Box machine = lay_out(view_);
    find_devices(machine);
    const double top = kMargin + line_height(Ink::title) + line_height(Ink::detail) + 12;
    const double wide =
        std::max({machine.width, legend_width(), text_width(head()), text_width(below_head())});
    const double width = wide + 2 * kMargin;
    const double height = top + machine.height + kLegendHeight + kMargin;
    out("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
        width, height);
    out("  <title>{}</title>\n  <style>\n{}  </style>\n", xml_text(head().text), style(theme_));
    out("  <rect class=\"ground\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"12\"/>\n", width, height);
    write(head(), kMargin, kMargin + font_size(Ink::title) * 0.9);
    write(below_head(), kMargin, kMargin + line_height(Ink::title) + font_size(Ink::detail));
    out("  <g transform=\"translate({:.1f} {:.1f})\">\n", kMargin, top);
    draw_groups(machine);
    for (const Choice& choice : view_.selection.choices) draw_rails(choice);
    draw_labels(machine);
    draw_devices(machine);
    out("  </g>\n");
    draw_legend(top + machine.height + kLegendHeight / 2 + 6);
    return text_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void out(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  Line head() const { return {machine_text(view_.model), Ink::title}; }

  Line below_head() const {
    const Model& model = view_.model;
    auto text = fmt::format("{}, {}, {}", count_text(model.gpus.size(), "GPU"),
                            count_text(model.nics.size(), "NIC"),
                            count_text(model.numa.size(), "NUMA node"));
    if (const auto nvlink = nvlink_text(model); !nvlink.empty()) text += "; " + nvlink;
    return {text};
  }

  void write(const Line& line, double x, double baseline, const char* anchor = "start") {
    out("    <text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\">{}"
        "</text>\n",
        name_of(line.ink), x, baseline, font_size(line.ink), anchor, xml_text(line.text));
  }

  void find_devices(const Box& box) {
    if (box.part == Part::gpu) gpus_[box.index] = &box;
    if (box.part == Part::nic) nics_[box.index] = &box;
    for (const Box& inner : box.inner) find_devices(inner);
  }

  void draw_rect(const Box& box, const std::string& look, double corner) {
    out("    <rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"{:g}\"/>\n",
        look, box.x, box.y, box.width, box.height, corner);
  }

  void draw_groups(const Box& box) {
    if (box.is_device()) return;
    if (box.part != Part::machine) {
      draw_rect(box,
                box.part == Part::package ? "package"
                : box.part == Part::numa  ? "numa"
                                          : "wiring",
                10);
    }
    for (const Box& inner : box.inner) draw_groups(inner);
  }

  static const char* look_of(const Box& box) {
    return box.part == Part::package ? "package" : box.part == Part::numa ? "numa" : "wiring";
  }

  /// Draws the labels above the lines, on a patch of their box's colour.
  void draw_labels(const Box& box) {
    if (box.is_device()) return;
    double y = box.y + box.text_y;
    for (const Line& line : box.lines) {
      out("    <rect class=\"{} patch\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\"/>\n",
          look_of(box), box.x + 10, y, text_width(line) + 8, line_height(line.ink));
      y += line_height(line.ink);
      write(line, box.x + 14, y - 4);
    }
    for (const Box& inner : box.inner) draw_labels(inner);
  }

  bool is_taken(int nic) const {
    return std::any_of(view_.selection.choices.begin(), view_.selection.choices.end(),
                       [nic](const Choice& choice) { return choice.nic == nic; });
  }

  void draw_devices(const Box& box) {
    for (const Box& inner : box.inner) draw_devices(inner);
    if (!box.is_device()) return;
    if (box.part == Part::gpu)
      draw_rect(box, "gpu", 8);
    else if (!view_.verdict(box.index).usable)
      draw_rect(box, "nic unused", 8);
    else
      draw_rect(box, is_taken(box.index) ? "nic taken" : "nic", 8);
    if (box.part == Part::nic) out("    <g><title>{}</title>\n", xml_text(view_.reason(box.index)));
    double y = box.y + box.text_y;
    for (const Line& line : box.lines) {
      y += line_height(line.ink);
      write(line, box.x + box.width / 2, y - 3, "middle");
    }
    if (box.part == Part::nic) out("    </g>\n");
  }

  void draw_rails(const Choice& choice) {
    const auto gpu = gpus_.find(choice.gpu);
    if (gpu == gpus_.end()) return;
    // The chosen NIC is drawn last, above the others.
    for (const int nic : choice.rails)
      if (nic != choice.nic && nics_.contains(nic))
        draw_rail(*gpu->second, *nics_[nic], "rail equal", choice);
    if (nics_.contains(choice.nic)) draw_rail(*gpu->second, *nics_[choice.nic], "rail", choice);
  }

  void draw_rail(const Box& gpu, const Box& nic, const char* look, const Choice& choice) {
    const bool below = nic.y >= gpu.y;
    const double x1 = gpu.x + gpu.width / 2;
    const double y1 = below ? gpu.y + gpu.height : gpu.y;
    const double x2 = nic.x + nic.width / 2;
    const double y2 = below ? nic.y : nic.y + nic.height;
    const double bend = std::max(18.0, std::abs(y2 - y1) * 0.45) * (below ? 1 : -1);
    out("    <path class=\"{}\" d=\"M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\">"
        "<title>{}</title></path>\n",
        look, x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2, xml_text(in_both_units(choice.reason)));
  }

  struct Sample {
    const char* look;
    Line line;
  };

  static const std::vector<Sample>& samples() {
    static const std::vector<Sample> all{{"gpu", {"GPU"}},
                                         {"nic", {"NIC"}},
                                         {"nic unused", {"NIC that can't be used"}},
                                         {"rail", {"the NIC that a GPU gets"}},
                                         {"rail equal", {"as good a NIC"}}};
    return all;
  }

  static double legend_width() {
    double width = 0;
    for (const Sample& sample : samples()) width += 36 + text_width(sample.line) + 26;
    return width;
  }

  void draw_legend(double y) {
    double x = kMargin;
    for (const Sample& sample : samples()) {
      if (std::string_view(sample.look).starts_with("rail"))
        out("    <path class=\"{}\" d=\"M {:.1f} {:.1f} h 28\"/>\n", sample.look, x, y - 4);
      else
        out("    <rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"28\" height=\"16\" "
            "rx=\"4\"/>\n",
            sample.look, x, y - 13);
      write(sample.line, x + 36, y);
      x += 36 + text_width(sample.line) + 26;
    }
  }

  const View& view_;
  Theme theme_;
  std::string text_;
  std::map<int, const Box*> gpus_;
  std::map<int, const Box*> nics_;
};

}  // namespace

std::string as_svg(const View& view, Theme theme) { return Picture(view, theme).draw(); }

}  // namespace weft::topology::render
