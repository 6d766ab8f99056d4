#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/fail.hpp"
#include "base/log_levels.hpp"
#include "base/nearest_setting.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

constexpr std::string_view kPrefix = "WEFT_";
constexpr std::string_view kTestPrefix = "WEFT_TEST_";  // settings of weft's own tests

std::size_t index(Setting setting) { return static_cast<std::size_t>(setting); }

const SettingSpec& spec_of(Setting setting) { return setting_table()[index(setting)]; }

[[noreturn]] void refuse(const SettingSpec& spec, std::string_view value, std::string_view why) {
  throw_error(Code::bad_config, "config",
              std::string(spec.variable) + "=\"" + std::string(value) + "\": " + std::string(why),
              "accepted: " + std::string(spec.accepts));
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

/// True for the values of WEFT_PS_SERVERS that make sense in some job.
bool says_servers(std::string_view value) {
  return value == "all" || value == "host" || parse_integer(value).value_or(0) > 0;
}

/// The value as a number: ns, bytes, the integer, or 0 and 1; 0 if the type is text.
std::int64_t parse(const SettingSpec& spec, std::string_view value) {
  const auto in_range = [&](std::int64_t number) {
    if (number < spec.least) refuse(spec, value, "too small");
    if (number > spec.most) refuse(spec, value, "too large");
    return number;
  };
  switch (spec.type) {
    case SettingType::time:
      if (const auto time = parse_time(value)) return in_range(time->count());
      refuse(spec, value, "not a time");
    case SettingType::size:
      if (const auto size = parse_size(value)) return in_range(static_cast<std::int64_t>(*size));
      refuse(spec, value, "not a size");
    case SettingType::integer:
      if (const auto number = parse_integer(value)) return in_range(*number);
      refuse(spec, value, "not a whole number");
    case SettingType::boolean:
      if (!is_choice(spec.accepts, value)) refuse(spec, value, "neither on nor off");
      return value == "1" || value == "on" ? 1 : 0;
    case SettingType::choice:
      if (!is_choice(spec.accepts, value)) refuse(spec, value, "not one of the choices");
      return 0;
    case SettingType::log_levels:
      if (!parse_log_levels(value)) refuse(spec, value, "not a list of levels");
      return 0;
    case SettingType::text:
      if (spec.setting == Setting::ps_servers && !says_servers(value))
        refuse(spec, value, "neither a word for servers nor a number of ranks");
      return 0;
  }
  return 0;
}

}  // namespace

Config::Config() {
  for (const auto& spec : setting_table()) values_.push_back(read_value(spec, spec.fallback));
}

Config::Value Config::read_value(const SettingSpec& spec, std::string_view text) {
  Value value;
  value.text = text;
  value.is_auto = spec.accepts_auto && text == spec.no_value;
  if (!value.is_auto) value.number = parse(spec, text);
  return value;
}

Config Config::read(const char* const* environment) {
  Config config;
  std::vector<std::pair<const FormerName*, std::string_view>> former;  // with their values
  for (const char* const* at = environment != nullptr ? environment : environ; *at != nullptr;
       ++at) {
    const std::string_view entry = *at;
    const auto variable = entry.substr(0, entry.find('='));
    if (!variable.starts_with(kPrefix) || variable.starts_with(kTestPrefix) ||
        variable.size() == entry.size())
      continue;
    const auto table = setting_table();
    const auto spec = std::find_if(table.begin(), table.end(),
                                   [&](const SettingSpec& s) { return s.variable == variable; });
    if (spec == table.end()) {
      const auto names = former_names();
      const auto name = std::find_if(names.begin(), names.end(),
                                     [&](const FormerName& n) { return n.variable == variable; });
      if (name != names.end()) {
        former.emplace_back(&*name, entry.substr(variable.size() + 1));
        continue;
      }
      config.warnings_.push_back(std::string(variable) +
                                 " is not a variable of weft and has no effect; the nearest is " +
                                 std::string(nearest_setting(variable)));
      continue;
    }
    auto& value = config.values_[index(spec->setting)];
    if (value.from_environment) continue;  // the first of several counts, as for getenv
    value = read_value(*spec, entry.substr(variable.size() + 1));
    value.from_environment = true;
  }
  // Former names are read last, so that a setting's own name takes precedence wherever it stands.
  for (const auto& [name, text] : former) config.read_former(*name, text);
  return config;
}

void Config::read_former(const FormerName& name, std::string_view text) {
  if (!name.setting) {
    warnings_.push_back(std::string(name.variable) +
                        " was removed and has no effect: " + std::string(name.instead) +
                        "; the old name is accepted until weft " + std::string(name.until));
    return;
  }
  SettingSpec spec = spec_of(*name.setting);
  auto& value = values_[index(*name.setting)];
  if (value.from_environment) {
    warnings_.push_back(std::string(name.variable) + " has no effect: " +
                        std::string(spec.variable) + ", its new name, is set too");
    return;
  }
  warnings_.push_back(std::string(name.variable) + " is now called " + std::string(spec.variable) +
                      "; the old name is accepted until weft " + std::string(name.until));
  spec.variable = name.variable;  // an error names what the user wrote
  value = read_value(spec, text);
  value.from_environment = true;
}

Config Config::with(Setting setting, std::string_view text) const {
  Config config = *this;
  auto& value = config.values_[index(setting)];
  value = read_value(spec_of(setting), text);
  value.from_environment = true;
  return config;
}

std::optional<std::chrono::nanoseconds> Config::time(Setting setting) const {
  assert(spec_of(setting).type == SettingType::time);
  const auto& value = values_[index(setting)];
  if (value.is_auto) return std::nullopt;
  return std::chrono::nanoseconds(value.number);
}

std::optional<std::size_t> Config::size(Setting setting) const {
  assert(spec_of(setting).type == SettingType::size);
  const auto& value = values_[index(setting)];
  if (value.is_auto) return std::nullopt;
  return static_cast<std::size_t>(value.number);
}

std::optional<std::int64_t> Config::integer(Setting setting) const {
  assert(spec_of(setting).type == SettingType::integer);
  const auto& value = values_[index(setting)];
  if (value.is_auto) return std::nullopt;
  return value.number;
}

bool Config::flag(Setting setting) const {
  assert(spec_of(setting).type == SettingType::boolean);
  return values_[index(setting)].number != 0;
}

const std::string& Config::text(Setting setting) const { return values_[index(setting)].text; }

std::string_view Config::source(Setting setting) const {
  return values_[index(setting)].from_environment ? "environment" : "default";
}

}  // namespace weft
