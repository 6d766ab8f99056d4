#include "topology/parse/numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weft::topology {
namespace {

constexpr std::size_t kMostBits = 1 << 14;  // the largest known machines have about 2000 processors
constexpr int kWordBits = 32;

template <typename Number, typename... Base>
std::optional<Number> parse_all(std::string_view text, Base... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// Calls `each` with the parts between commas; returns false at the first part that `each` rejects.
template <typename Each>
bool split(std::string_view text, Each each) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (!each(text.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

std::optional<long> parse_whole(std::string_view text) { return parse_all<long>(text); }

std::optional<double> parse_fraction(std::string_view text) {
  const auto number = parse_all<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  return parse_all<std::uint64_t>(text, 16);
}

std::optional<std::vector<int>> parse_bitmap(std::string_view text) {
  std::vector<std::uint64_t> words;
  const bool good = split(text, [&](std::string_view word) {
    if (word == "0xf...f") return true;
    const auto value = word.empty() ? std::optional<std::uint64_t>(0) : parse_hex(word);
    if (!value || *value >> kWordBits != 0 || words.size() * kWordBits >= kMostBits) return false;
    words.push_back(*value);
    return true;
  });
  if (!good) return std::nullopt;
  std::vector<int> bits;
  for (std::size_t i = 0; i < words.size(); ++i)
    for (int bit = 0; bit < kWordBits; ++bit)
      if ((words[words.size() - 1 - i] >> bit & 1) != 0)
        bits.push_back(static_cast<int>(i) * kWordBits + bit);
  return bits;
}

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return cpus;
  const bool good = split(text, [&](std::string_view part) {
    const std::size_t dash = part.find('-');
    const auto first = parse_whole(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_whole(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= static_cast<long>(kMostBits) ||
        cpus.size() > kMostBits)
      return false;
    for (long cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    return true;
  });
  if (!good) return std::nullopt;
  return cpus;
}

}  // namespace weft::topology
