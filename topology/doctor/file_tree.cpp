#include "topology/doctor/file_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <tuple>

namespace weft::doctor {
namespace fs = std::filesystem;
namespace {

/// "mlx5_10" as ("mlx5_", 10).
std::pair<std::string_view, std::uint64_t> split_number(std::string_view name) {
  const auto last = name.find_last_not_of("0123456789");
  const auto stem = name.substr(0, last == name.npos ? 0 : last + 1);
  std::uint64_t number = 0;
  std::from_chars(name.data() + stem.size(), name.data() + name.size(), number);
  return {stem, number};
}

}  // namespace

std::optional<std::string> read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  line.erase(line.find_last_not_of(" \t\r\n") + 1);
  return line;
}

std::string read_bytes(const fs::path& file, std::size_t most) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(most, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

std::optional<double> leading_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::optional<double> read_number(const fs::path& file) {
  const auto line = read_line(file);
  return line ? leading_number(*line) : std::nullopt;
}

std::vector<std::string> list_folder(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::tuple(split_number(a), a) < std::tuple(split_number(b), b);
  });
  return names;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path below(const fs::path& root, const fs::path& absolute) {
  return root / absolute.relative_path();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return fmt::format("{:.4g} {}", amount, kUnits[unit]);
}

}  // namespace weft::doctor
