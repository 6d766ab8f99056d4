// Clicks: advertisements that were shown, and whether they were clicked; read from a file or made
// up.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace clicks {

/// A malformed data file. The text is one line with file and line number.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An advertisement that was shown, with Criteo's columns: a label, 13 numbers, 26 categories.
struct Impression {
  static constexpr std::size_t kNumbers = 13;
  static constexpr std::size_t kCategories = 26;

  float clicked = 0.0F;
  std::array<float, kNumbers> numbers{};  ///< log(1 + n); 0 if missing
  /// Hashes of (column, category), which are row ids of the sparse table. A missing category has a
  /// hash too.
  std::array<std::uint64_t, kCategories> categories{};
};

/// Reads lines of label, I1 to I13, C1 to C26, separated by tabs or commas. A first line of column
/// names is skipped. Throws DataError.
std::vector<Impression> read(const std::filesystem::path& file);

/// Impressions with categories by popularity and clicks that depend on some of them: a function of
/// `count` and `seed` alone.
std::vector<Impression> made_up(std::size_t count, std::uint64_t seed);
/// Writes the impressions of made_up() to a file. Throws DataError.
void generate(const std::filesystem::path& file, std::size_t count, std::uint64_t seed);

/// The loss, in nats, of a model that knows only the share of clicks.
double entropy(const std::vector<Impression>& impressions);

}  // namespace clicks
