// Parses and formats the text form of algorithm rules (WEFT_COLL) and of costs (weft-tune).
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>

#include "base/config.hpp"
#include "base/fail.hpp"
#include "base/os/named_file.hpp"
#include "runtime/collective/choice.hpp"
#include "runtime/collective/signature.hpp"
#include "weft/error.hpp"

namespace weft::detail {
namespace {

constexpr std::string_view kHeader = "weft-costs 1";

[[noreturn]] void refuse_rule(std::string_view rule, const std::string& why) {
  throw_error(Code::bad_config, "config", fmt::format("WEFT_COLL: \"{}\": {}", rule, why),
              "operation[@from..to]=algorithm, several with commas between: "
              "all_reduce@64k..1m=ring,broadcast=doubling");
}

/// Returns the text in front of `mark`; `text` keeps what follows `mark`.
std::string_view cut(std::string_view& text, std::string_view mark) noexcept {
  const auto at = text.find(mark);
  const std::string_view front = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + mark.size());
  return front;
}

template <typename Enum>
std::optional<Enum> named(std::string_view text, Enum last) noexcept {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (text == name(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

void set_range(CollectiveRule& rule, std::string_view text, std::string_view range) {
  const auto size = [&](std::string_view part, std::uint64_t open) -> std::uint64_t {
    if (part.empty()) return open;
    const auto bytes = parse_size(part);
    if (!bytes) refuse_rule(text, fmt::format("\"{}\" is no size", part));
    return *bytes;
  };
  if (range.find("..") == range.npos)
    refuse_rule(text, fmt::format("\"{}\" is no range, such as 64k..1m or 1m..", range));
  rule.from = size(cut(range, ".."), 0);
  rule.to = size(range, std::numeric_limits<std::uint64_t>::max());
  if (rule.from > rule.to) refuse_rule(text, "the range ends before it begins");
}

CollectiveRule parse_rule(std::string_view text) {
  std::string_view algorithm = text;
  std::string_view range = cut(algorithm, "=");
  const bool has_range = range.find('@') != range.npos;
  const std::string_view operation = cut(range, "@");
  CollectiveRule rule{.from = 0, .to = std::numeric_limits<std::uint64_t>::max()};
  const auto kind = named(operation, CollectiveKind::scan);
  if (!kind) refuse_rule(text, fmt::format("no operation is called \"{}\"", operation));
  if (algorithm == "whole") algorithm = "allgather_then_reduce";  // its name before 0.2
  const auto by = named(algorithm, Algorithm::two_level);
  if (!by) refuse_rule(text, fmt::format("no algorithm is called \"{}\"", algorithm));
  rule.kind = *kind;
  rule.algorithm = *by;
  const bool served =
      *by <= Algorithm::direct || goes_by_rounds(*by, *kind) ||
      (*by == Algorithm::allgather_then_reduce && serves_allgather_then_reduce(*kind)) ||
      (*by == Algorithm::two_level && serves_by_nodes(*kind));
  if (!served) refuse_rule(text, fmt::format("{} can't go by {}", operation, algorithm));
  if (has_range) set_range(rule, text, range);
  return rule;
}

/// Parses a number above 0 that is the whole of `text`.
std::optional<double> number(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 && value < 1e12 ? std::optional(value) : std::nullopt;
}

}  // namespace

Choices parse_rules(std::string_view text) {
  Choices choices;
  while (!text.empty()) {
    const std::string_view rule = cut(text, ",");
    if (choices.count == Choices::kMostRules)
      refuse_rule(rule, fmt::format("there are more than {} rules", Choices::kMostRules));
    choices.rules[choices.count++] = parse_rule(rule);
  }
  return choices;
}

Costs parse_costs(std::string_view text, const std::string& file) {
  Costs costs;
  int line = 0;
  const auto broken = [&](const std::string& why) {
    throw_error(Code::bad_config, "config",
                fmt::format("WEFT_COLL_COSTS: {}, line {}: {}", file, line, why),
                "write the file with weft-tune");
  };
  while (!text.empty()) {
    std::string_view rest = cut(text, "\n");
    if (++line == 1) {
      if (rest != kHeader) broken(fmt::format("the line is not \"{}\"", kHeader));
      continue;
    }
    if (rest.empty() || rest.front() == '#') continue;
    const std::string_view what = cut(rest, " ");
    std::array<double, 3> values{};
    std::size_t count = 0;
    while (!rest.empty()) {
      const std::string_view word = cut(rest, " ");
      const auto value = number(word);
      if (!value || count == values.size())
        broken(fmt::format("\"{}\" is one value too many, or not a number above 0", word));
      values[count++] = *value;
    }
    using p2p::FabricKind;
    const auto fabric = p2p::fabric_kind(what);
    const bool is_known =
        fabric == FabricKind::shm || fabric == FabricKind::verbs || fabric == FabricKind::tcp;
    LinkCost* link = is_known ? &costs.of(*fabric) : nullptr;
    if (link == nullptr && what != "combine")
      broken(fmt::format("\"{}\" is neither shm, verbs, tcp nor combine", what));
    if (count != (link == nullptr ? 1 : 3)) broken(fmt::format("{} numbers for {}", count, what));
    if (link == nullptr)
      costs.combine = values[0] * 1e9;
    else
      *link = {values[0] * 1e-6, values[1] * 1e-6, values[2] * 1e9};
  }
  if (line == 0) broken("the file is empty");
  return costs;
}

Costs read_costs(const std::string& file) {
  if (file.empty()) return {};
  constexpr std::size_t kMost = 1 << 20;
  std::string text;
  try {
    text = os::read_file(file, kMost, "costs");
  } catch (const Error& error) {
    throw_error(Code::bad_config, "config",
                fmt::format("WEFT_COLL_COSTS: {} can't be read", error.detail().message),
                "name a file that weft-tune has written, on every host");
  }
  return parse_costs(text, file);
}

std::string write_costs(const Costs& costs) {
  std::string text =
      fmt::format("{}\n# fabric  latency, us  message, us  bandwidth, GB/s\n", kHeader);
  const auto add = [&text](const char* fabric, const LinkCost& link) {
    text += fmt::format("{} {:.4g} {:.4g} {:.4g}\n", fabric, link.latency * 1e6, link.message * 1e6,
                        link.bandwidth / 1e9);
  };
  add("shm", costs.shm);
  add("verbs", costs.verbs);
  add("tcp", costs.tcp);
  return text + fmt::format("# adding one tensor to another, GB/s of a tensor\ncombine {:.4g}\n",
                            costs.combine / 1e9);
}

}  // namespace weft::detail
