#include "clicks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

namespace clicks {
namespace {

constexpr std::size_t kColumns = 1 + Impression::kNumbers + Impression::kCategories;

std::uint64_t hash(std::size_t column, std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325ULL + column;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return value;
}

std::vector<std::string_view> split(std::string_view line) {
  const char separator = line.find('\t') != line.npos ? '\t' : ',';
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find(separator);
    fields.push_back(line.substr(0, end));
    if (end == line.npos) return fields;
    line.remove_prefix(end + 1);
  }
}

float number(std::string_view field, const std::string& where) {
  if (field.empty()) return 0.0F;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size())
    throw DataError(fmt::format("{}: \"{}\" is no number", where, field));
  return static_cast<float>(std::log1p(std::max(value, 0.0)));
}

Impression parse(std::string_view line, const std::string& where) {
  const auto fields = split(line);
  if (fields.size() != kColumns)
    throw DataError(fmt::format("{}: {} columns; {} are expected: label, I1 to I13, C1 to C26",
                                where, fields.size(), kColumns));
  if (fields[0] != "0" && fields[0] != "1")
    throw DataError(fmt::format("{}: the label is \"{}\"; 0 or 1 is expected", where, fields[0]));
  Impression one;
  one.clicked = fields[0] == "1" ? 1.0F : 0.0F;
  for (std::size_t i = 0; i < Impression::kNumbers; ++i)
    one.numbers[i] = number(fields[1 + i], where);
  for (std::size_t i = 0; i < Impression::kCategories; ++i)
    one.categories[i] = hash(i, fields[1 + Impression::kNumbers + i]);
  return one;
}

// A category's contribution to the probability of a click: uniform in [-1.5, 1.5], or 0 for half of
// the columns.
double appeal(std::size_t column, std::uint32_t category) {
  if (column % 2 == 1) return 0.0;
  const std::uint64_t mixed = hash(column, fmt::format("{}", category)) * 0x9e3779b97f4a7c15ULL;
  return 3.0 * static_cast<double>(mixed >> 11) * 0x1.0p-53 - 1.5;
}

// One line of a data file.
std::string draw(std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit;
  double score = -1.0;
  std::string columns;
  for (std::size_t k = 0; k < Impression::kNumbers; ++k) {
    const int value = static_cast<int>(std::exp(3.0 * unit(random)));
    if (k < 3) score += 0.3 * (std::log1p(value) - 2.0);
    columns += fmt::format(",{}", value);
  }
  for (std::size_t k = 0; k < Impression::kCategories; ++k) {
    // Squaring a uniform number makes small ones the most frequent.
    const double u = unit(random);
    const auto category = static_cast<std::uint32_t>(static_cast<double>(10U << (k % 6)) * u * u);
    score += appeal(k, category);
    columns += fmt::format(",{:08x}", category * 2654435761U);
  }
  const bool clicked = unit(random) < 1.0 / (1.0 + std::exp(-score));
  return (clicked ? "1" : "0") + columns;
}

}  // namespace

std::vector<Impression> read(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw DataError(fmt::format("{}: can't be opened", file.string()));
  std::vector<Impression> impressions;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (number == 1 && line.front() != '0' && line.front() != '1')) continue;
    impressions.push_back(parse(line, fmt::format("{}:{}", file.string(), number)));
  }
  if (impressions.empty()) throw DataError(fmt::format("{}: has no lines", file.string()));
  return impressions;
}

std::vector<Impression> made_up(std::size_t count, std::uint64_t seed) {
  std::vector<Impression> impressions;
  impressions.reserve(count);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) impressions.push_back(parse(draw(random), "made up"));
  return impressions;
}

void generate(const std::filesystem::path& file, std::size_t count, std::uint64_t seed) {
  std::ofstream out(file);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) out << draw(random) << '\n';
  out.close();
  if (!out) throw DataError(fmt::format("{}: can't be written", file.string()));
}

double entropy(const std::vector<Impression>& impressions) {
  double clicked = 0;
  for (const Impression& one : impressions) clicked += one.clicked;
  const double p = clicked / static_cast<double>(impressions.size());
  return p <= 0.0 || p >= 1.0 ? 0.0 : -(p * std::log(p) + (1 - p) * std::log(1 - p));
}

}  // namespace clicks
