// Parsers for the values of settings.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/config.hpp"

namespace weft {
namespace {

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

struct Unit {
  std::string_view name;
  std::int64_t worth;
};

constexpr std::array kTimeUnits{Unit{"ns", 1},
                                Unit{"us", 1'000},
                                Unit{"ms", 1'000'000},
                                Unit{"s", 1'000'000'000},
                                Unit{"m", 60'000'000'000},
                                Unit{"h", 3'600'000'000'000}};

constexpr std::array kSizeUnits{Unit{"", 1}, Unit{"k", 1LL << 10}, Unit{"m", 1LL << 20},
                                Unit{"g", 1LL << 30}, Unit{"t", 1LL << 40}};

std::optional<std::int64_t> worth(std::span<const Unit> units, std::string_view name) {
  const auto unit =
      std::find_if(units.begin(), units.end(), [name](const Unit& u) { return u.name == name; });
  if (unit == units.end()) return std::nullopt;
  return unit->worth;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Removes the leading digits of `text` and returns their value. nullopt if there are none or they
/// overflow.
std::optional<std::int64_t> take_digits(std::string_view& text) {
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
  return number;
}

/// Shortens "4MiB"'s and "4mb"'s unit to "m".
std::string short_unit(std::string_view unit) {
  std::string name(unit);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (name.size() == 3 && name.ends_with("ib"))
    name.resize(1);
  else if (name.ends_with('b'))
    name.pop_back();
  return name;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_time(std::string_view text) {
  const auto whole = take_digits(text);
  if (!whole) return std::nullopt;
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto* const end = std::find_if_not(text.begin(), text.end(), is_digit);
    fraction = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    if (fraction.empty()) return std::nullopt;
    text.remove_prefix(fraction.size());
  }
  const auto unit = worth(kTimeUnits, text);
  if (!unit || *whole > kMost / 2 / *unit) return std::nullopt;
  std::int64_t number = *whole * *unit;
  std::int64_t place = *unit;
  for (const char digit : fraction) {
    place /= 10;
    number += place * (digit - '0');
  }
  return std::chrono::nanoseconds(number);
}

std::optional<std::size_t> parse_size(std::string_view text) {
  const auto number = take_digits(text);
  if (!number) return std::nullopt;
  const auto unit = worth(kSizeUnits, short_unit(text));
  if (!unit || *number > kMost / *unit) return std::nullopt;
  return static_cast<std::size_t>(*number * *unit);
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const auto number = take_digits(text);
  if (!text.empty()) return std::nullopt;
  return number;
}

}  // namespace weft
