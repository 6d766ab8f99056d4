#include "benchmarks/output/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string_view>

namespace weft::bench {
namespace {

struct Point {
  double size = 0;
  double us = 0;
};

struct Line {
  std::string name;
  std::vector<Point> points;  // by size
  bool dashed = false;        // what weft is compared with at best
};

// The drawing's own units.
constexpr double kLeft = 64;
constexpr double kTop = 40;
constexpr double kWidth = 560;
constexpr double kHeight = 380;
constexpr double kLegend = 190;
constexpr double kLegendStep = 20;
// Told apart with any kind of sight, on white and on black.
constexpr std::array<std::string_view, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#56b4e9", "#e69f00", "#8a8a00", "#7f7f7f"};

/// A logarithmic axis over whole powers of `base`.
class Axis {
 public:
  Axis(double least, double most, double base, double from, double to)
      : base_(base),
        first_(std::floor(std::log(least) / std::log(base) + 1e-9)),
        last_(std::max(first_ + 1, std::ceil(std::log(most) / std::log(base) - 1e-9))),
        from_(from),
        to_(to) {}

  double place(double value) const {
    return from_ + (to_ - from_) * (std::log(value) / std::log(base_) - first_) / (last_ - first_);
  }
  /// No more of them than can be read.
  std::vector<double> ticks() const {
    constexpr double kMost = 10;
    const double step = std::ceil((last_ - first_) / kMost);
    std::vector<double> values;
    for (double power = first_; power <= last_; power += step)
      values.push_back(std::pow(base_, power));
    return values;
  }

 private:
  double base_;
  double first_;
  double last_;
  double from_;
  double to_;
};

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:g} s", us / 1e6);
  if (us >= 1e3) return fmt::format("{:g} ms", us / 1e3);
  return us >= 1 ? fmt::format("{:g} us", us) : fmt::format("{:g} ns", us * 1e3);
}

void add(std::vector<Line>& lines, const std::string& name, Point point, bool dashed) {
  auto found =
      std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return line.name == name; });
  if (found == lines.end()) found = lines.insert(lines.end(), Line{name, {}, dashed});
  found->points.push_back(point);
}

std::vector<Line> lines_of(const std::vector<Row>& rows) {
  std::set<std::string> kinds;
  for (const Row& row : rows) kinds.insert(row.kind);
  const auto named = [&](const std::string& program, const std::string& kind) {
    return kinds.size() == 1 ? program : program + ", " + kind;
  };
  std::vector<Line> lines;
  for (const Row& row : rows) {
    const auto size = static_cast<double>(row.size);
    add(lines, named("weft", row.kind), {size, row.weft_us}, false);
    add(lines, named("limit", row.kind), {size, row.limit.us}, true);
    for (const auto& [name, comparison] : row.peers)
      add(lines, named(name, row.kind), {size, comparison.us}, false);
  }
  for (Line& line : lines)
    std::sort(line.points.begin(), line.points.end(),
              [](const Point& a, const Point& b) { return a.size < b.size; });
  // What stands beside every kind alike is drawn once, under the program's name.
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string program = lines[i].name.substr(0, lines[i].name.find(", "));
    const auto same = [&](const Line& other) {
      return other.name.starts_with(program + ", ") &&
             std::equal(lines[i].points.begin(), lines[i].points.end(), other.points.begin(),
                        other.points.end(), [](const Point& a, const Point& b) {
                          return a.size == b.size && a.us == b.us;
                        });
    };
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto kept = std::remove_if(begin, lines.end(), same);
    if (kept == lines.end()) continue;
    lines.erase(kept, lines.end());
    lines[i].name = program;
  }
  return lines;
}

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

std::string grid(const Axis& across, const Axis& up) {
  std::string drawn;
  for (const double size : across.ticks()) {
    const double x = across.place(size);
    drawn += fmt::format("<path class=\"grid\" d=\"M{:.1f} {} v{}\"/>\n", x, kTop, kHeight);
    drawn += text_at(x, kTop + kHeight + 18, "middle", size_text(static_cast<std::size_t>(size)));
  }
  for (const double us : up.ticks()) {
    const double y = up.place(us);
    drawn += fmt::format("<path class=\"grid\" d=\"M{} {:.1f} h{}\"/>\n", kLeft, y, kWidth);
    drawn += text_at(kLeft - 6, y + 4, "end", time_text(us));
  }
  return drawn;
}

std::string drawn(const Line& line, std::size_t number, const Axis& across, const Axis& up) {
  const std::string_view colour = kColours[number % kColours.size()];
  std::string path;
  std::string marks;
  for (const Point& point : line.points) {
    const double x = across.place(point.size);
    const double y = up.place(point.us);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y);
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {} in {}</title>"
        "</circle>\n",
        x, y, colour, line.name, size_text(static_cast<std::size_t>(point.size)),
        time_text(point.us));
  }
  const double y = kTop + 8 + kLegendStep * static_cast<double>(number);
  const std::string style =
      fmt::format("stroke=\"{}\"{}", colour, line.dashed ? " stroke-dasharray=\"5 4\"" : "");
  return fmt::format("<path class=\"line\" {} d=\"{}\"/>\n", style, path) + marks +
         fmt::format("<path class=\"line\" {} d=\"M{:.1f} {:.1f} h24\"/>\n", style,
                     kLeft + kWidth + 16, y) +
         text_at(kLeft + kWidth + 46, y + 4, "start", line.name);
}

}  // namespace

std::string svg(const std::string& benchmark, const std::vector<Row>& rows) {
  const auto lines = lines_of(rows);
  Point least{1e300, 1e300};
  Point most{0, 0};
  for (const Line& line : lines)
    for (const Point& point : line.points) {
      least = {std::min(least.size, point.size), std::min(least.us, point.us)};
      most = {std::max(most.size, point.size), std::max(most.us, point.us)};
    }
  if (lines.empty()) throw std::runtime_error("there are no rows to draw");
  const Axis across(least.size, most.size, 2, kLeft, kLeft + kWidth);
  const Axis up(least.us, most.us, 10, kTop + kHeight, kTop);

  const double width = kLeft + kWidth + kLegend;
  const double height =
      std::max(kTop + kHeight, kTop + kLegendStep * static_cast<double>(lines.size())) + 44;
  std::string picture = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\">\n"
      "<style>text{{font:12px sans-serif;fill:#808080}} .grid{{stroke:#808080;stroke-opacity:.3}} "
      ".line{{fill:none;stroke-width:2}}</style>\n",
      width, height);
  picture += text_at(kLeft, kTop - 16, "start", benchmark + ": time of one operation");
  picture += grid(across, up);
  picture += text_at(kLeft + kWidth / 2, kTop + kHeight + 38, "middle", "bytes");
  for (std::size_t i = 0; i < lines.size(); ++i) picture += drawn(lines[i], i, across, up);
  return picture + "</svg>\n";
}

void write_svg(const std::string& file, const std::string& benchmark,
               const std::vector<Row>& rows) {
  std::ofstream out(file);
  out << svg(benchmark, rows);
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}; is its folder there?", file));
}

}  // namespace weft::bench
