#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "base/log_levels.hpp"
#include "base/nearest_knob.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

constexpr std::string_view kPrefix = "WEFT_";
constexpr std::string_view kTestPrefix = "WEFT_TEST_";  // settings of weft's own tests

std::size_t index(Knob knob) { return static_cast<std::size_t>(knob); }

const KnobSpec& spec_of(Knob knob) { return knob_table()[index(knob)]; }

[[noreturn]] void refuse(const KnobSpec& spec, std::string_view value, std::string_view why) {
  throw Error(ErrorDetail{.code = Code::bad_config,
                          .operation = "config",
                          .message = std::string(spec.variable) + "=\"" + std::string(value) +
                                     "\": " + std::string(why),
                          .hint = "accepted: " + std::string(spec.accepts)});
}

bool is_choice(std::string_view choices, std::string_view value) {
  constexpr std::string_view kBar = " | ";
  for (;;) {
    const auto bar = choices.find(kBar);
    if (choices.substr(0, bar) == value) return true;
    if (bar == choices.npos) return false;
    choices.remove_prefix(bar + kBar.size());
  }
}

/// The value as a number: ns, bytes, the integer, 0 or 1; 0 where text is all there is to it.
std::int64_t parse(const KnobSpec& spec, std::string_view value) {
  const auto in_range = [&](std::int64_t number) {
    if (number < spec.least) refuse(spec, value, "too small");
    if (number > spec.most) refuse(spec, value, "too large");
    return number;
  };
  switch (spec.type) {
    case KnobType::time:
      if (const auto time = parse_time(value)) return in_range(time->count());
      refuse(spec, value, "not a time");
    case KnobType::size:
      if (const auto size = parse_size(value)) return in_range(static_cast<std::int64_t>(*size));
      refuse(spec, value, "not a size");
    case KnobType::integer:
      if (const auto number = parse_integer(value)) return in_range(*number);
      refuse(spec, value, "not a whole number");
    case KnobType::boolean:
      if (!is_choice(spec.accepts, value)) refuse(spec, value, "neither on nor off");
      return value == "1" || value == "on" ? 1 : 0;
    case KnobType::choice:
      if (!is_choice(spec.accepts, value)) refuse(spec, value, "not one of the choices");
      return 0;
    case KnobType::log_levels:
      if (!parse_log_levels(value)) refuse(spec, value, "not a list of levels");
      return 0;
    case KnobType::text:
      return 0;
  }
  return 0;
}

}  // namespace

Config::Config() {
  for (const auto& spec : knob_table()) values_.push_back(read_value(spec, spec.fallback));
}

Config::Value Config::read_value(const KnobSpec& spec, std::string_view text) {
  Value value;
  value.text = text;
  value.is_auto = spec.accepts_auto && text == spec.no_value;
  if (!value.is_auto) value.number = parse(spec, text);
  return value;
}

Config Config::read(const char* const* environment) {
  Config config;
  for (const char* const* at = environment != nullptr ? environment : environ; *at != nullptr;
       ++at) {
    const std::string_view entry = *at;
    const auto variable = entry.substr(0, entry.find('='));
    if (!variable.starts_with(kPrefix) || variable.starts_with(kTestPrefix) ||
        variable.size() == entry.size())
      continue;
    const auto table = knob_table();
    const auto spec = std::find_if(table.begin(), table.end(),
                                   [&](const KnobSpec& s) { return s.variable == variable; });
    if (spec == table.end()) {
      config.warnings_.push_back(std::string(variable) +
                                 " is not a variable of weft and has no effect; the nearest is " +
                                 std::string(nearest_knob(variable)));
      continue;
    }
    auto& value = config.values_[index(spec->knob)];
    if (value.from_environment) continue;  // as for getenv, the first of several counts
    value = read_value(*spec, entry.substr(variable.size() + 1));
    value.from_environment = true;
  }
  return config;
}

Config Config::with(Knob knob, std::string_view text) const {
  Config config = *this;
  auto& value = config.values_[index(knob)];
  value = read_value(spec_of(knob), text);
  value.from_environment = true;
  return config;
}

std::optional<std::chrono::nanoseconds> Config::time(Knob knob) const {
  assert(spec_of(knob).type == KnobType::time);
  const auto& value = values_[index(knob)];
  if (value.is_auto) return std::nullopt;
  return std::chrono::nanoseconds(value.number);
}

std::optional<std::size_t> Config::size(Knob knob) const {
  assert(spec_of(knob).type == KnobType::size);
  const auto& value = values_[index(knob)];
  if (value.is_auto) return std::nullopt;
  return static_cast<std::size_t>(value.number);
}

std::optional<std::int64_t> Config::integer(Knob knob) const {
  assert(spec_of(knob).type == KnobType::integer);
  const auto& value = values_[index(knob)];
  if (value.is_auto) return std::nullopt;
  return value.number;
}

bool Config::flag(Knob knob) const {
  assert(spec_of(knob).type == KnobType::boolean);
  return values_[index(knob)].number != 0;
}

const std::string& Config::text(Knob knob) const { return values_[index(knob)].text; }

std::string_view Config::source(Knob knob) const {
  return values_[index(knob)].from_environment ? "environment" : "default";
}

}  // namespace weft
