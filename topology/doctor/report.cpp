#include "topology/doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "topology/render/labels.hpp"

namespace weft::doctor {
namespace {

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::not_applicable:
      return "\033[2m";
    case Verdict::ok:
      return "\033[32m";
    case Verdict::warn:
      return "\033[33m";
    case Verdict::fail:
      return "\033[1;31m";
  }
  return "";
}

const char* short_name(Verdict verdict) {
  return verdict == Verdict::not_applicable ? "n/a" : name(verdict).data();
}

}  // namespace

std::string as_text(std::span<const Finding> findings, bool colour) {
  std::string text;
  std::array<int, 4> counts{};
  std::size_t width = 0;
  for (const Finding& finding : findings)
    width = std::max(width, finding.check.size() + finding.subject.size() + 1);
  for (const Finding& finding : findings) {
    ++counts[static_cast<std::size_t>(finding.verdict)];
    const auto where =
        finding.subject.empty() ? finding.check : finding.check + " " + finding.subject;
    fmt::format_to(std::back_inserter(text), "{}{:<4}{}  {:<{}}  {}\n",
                   colour ? colour_of(finding.verdict) : "", short_name(finding.verdict),
                   colour ? "\033[0m" : "", where, width,
                   topology::render::in_both_units(finding.says));
    if (!finding.fix.empty())
      fmt::format_to(std::back_inserter(text), "{:{}}fix: {}\n", "", width + 8, finding.fix);
  }
  fmt::format_to(std::back_inserter(text), "\n{} fail, {} warn, {} ok, {} not applicable\n",
                 counts[3], counts[2], counts[1], counts[0]);
  return text;
}

std::string as_json(std::span<const Finding> findings) {
  auto list = nlohmann::ordered_json::array();
  auto worst = Verdict::ok;
  for (const Finding& finding : findings) {
    worst = std::max(worst, finding.verdict);
    list.push_back({{"check", finding.check},
                    {"subject", finding.subject},
                    {"verdict", name(finding.verdict)},
                    {"says", finding.says},
                    {"fix", finding.fix}});
  }
  const nlohmann::ordered_json whole{
      {"schema", "weft-doctor/1"}, {"verdict", name(worst)}, {"findings", std::move(list)}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace weft::doctor
