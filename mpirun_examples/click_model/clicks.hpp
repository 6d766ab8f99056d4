// Advertisements that were shown, and whether they were clicked: read from a file, or made up.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace clicks {

/// A file that is not what it should be: one line, with file and line number.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One that was shown, with Criteo's columns: a label, 13 numbers, 26 categories.
struct Impression {
  static constexpr std::size_t kNumbers = 13;
  static constexpr std::size_t kCategories = 26;

  float clicked = 0.0F;
  std::array<float, kNumbers> numbers{};  ///< log(1 + n); 0 for a missing one
  /// A hash of (column, category): a row of the sparse table. A missing category is one too.
  std::array<std::uint64_t, kCategories> categories{};
};

/// Lines of label, I1 to I13, C1 to C26, between tabs or commas; a first line of names is passed
/// over. Throws DataError.
std::vector<Impression> read(const std::filesystem::path& file);

/// Categories by popularity, clicks that depend on some of them: a function of the seed alone.
std::vector<Impression> made_up(std::size_t count, std::uint64_t seed);
/// Writes the same as a file. Throws DataError.
void generate(const std::filesystem::path& file, std::size_t count, std::uint64_t seed);

/// The loss of who knows the share of clicks and nothing else, in nats.
double entropy(const std::vector<Impression>& impressions);

}  // namespace clicks
