// Randomly damaged files: each is refused with one line, or understood; nothing else happens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/samples.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

constexpr std::array kWords{"",
                            "-1",
                            "0",
                            "4294967296",
                            "1e308",
                            "nan",
                            "0x",
                            "0xffffffffffffffff",
                            "\"",
                            "<",
                            ">",
                            "&amp;",
                            "&#0;",
                            "]]>",
                            "<!--",
                            "{",
                            "}",
                            "[",
                            "null",
                            "0000:01:00.0",
                            "ffff:ff:1f.7",
                            "</object>",
                            "<pci busid=\"0000:01:00.0\">",
                            "\xff\xfe",
                            "0-16383",
                            "parent",
                            "0604 [",
                            ","};

class Spoiler {
 public:
  explicit Spoiler(std::uint64_t seed) : random_(seed) {}

  std::string spoil(std::string text) {
    for (int times = number(1, 4); times > 0 && !text.empty(); --times) once(text);
    return text;
  }

 private:
  int number(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  std::size_t place(const std::string& text) {
    return std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random_);
  }

  void once(std::string& text) {
    const std::size_t at = place(text);
    const auto length = static_cast<std::size_t>(number(1, 80));
    switch (number(0, 6)) {
      case 0:
        text[at] = static_cast<char>(number(0, 255));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:  // a piece comes twice, elsewhere
        text.insert(place(text), text.substr(at, length));
        break;
      case 4:
        text.insert(at, kWords.at(static_cast<std::size_t>(number(0, kWords.size() - 1))));
        break;
      case 5:
        replace_value(text, at);
        break;
      default:  // two lines change places
        swap_lines(text, at, place(text));
        break;
    }
  }

  void replace_value(std::string& text, std::size_t at) {
    const std::size_t begin = text.find('"', at);
    const std::size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
    if (end == std::string::npos) return;
    text.replace(begin + 1, end - begin - 1,
                 kWords.at(static_cast<std::size_t>(number(0, kWords.size() - 1))));
  }

  static std::string line_at(const std::string& text, std::size_t at) {
    return text.substr(at, text.find('\n', at) - at);
  }

  static void swap_lines(std::string& text, std::size_t a, std::size_t b) {
    if (a > b) std::swap(a, b);
    const std::string first = line_at(text, a);
    const std::string second = line_at(text, b);
    if (a + first.size() > b) return;
    text.replace(b, second.size(), first);
    text.replace(a, first.size(), second);
  }

  std::mt19937_64 random_;
};

/// A file that was understood gives a model that can be queried, written and read again.
void use(const Model& model) {
  const Selection selection = select(model, spread_ranks(model, 5));
  ASSERT_EQ(selection.choices.size(), 5U);
  const Model again = import_text(to_json(model, selection), "again");
  ASSERT_EQ(summary(model, selection), summary(again, select(again, spread_ranks(again, 5))));
}

void try_one(const std::string& text) {
  Model model;
  try {
    model = import_text(text, "spoilt");
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), Code::bad_argument) << error.what();
    const std::string_view what = error.what();
    ASSERT_TRUE(what.find("spoilt, line ") != std::string_view::npos ||
                what.find("spoilt: describes ") != std::string_view::npos)
        << what;
    return;
  }
  use(model);
}

TEST(SpoiltFiles, AreRefusedOrUnderstood) {
  std::mt19937_64 random(1);
  const Model some = random_machine(random).build();
  const Model sample = import_text(kHwlocSample, "sample");
  const std::array<std::string, 4> whole{kHwlocSample, kNcclSample,
                                         to_json(some, select(some, rank_per_gpu(some))),
                                         to_json(sample, select(sample, rank_per_gpu(sample)))};
  const char* wanted = std::getenv("WEFT_TEST_SEED");
  const bool full = std::getenv("WEFT_TEST_FULL") != nullptr;
  // Seeds count from 1 in the ordinary run, so that each run is the same.
  std::uint64_t seed = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(full ? 60 : 2);
  constexpr std::uint64_t kOrdinary = 4000;
  const std::uint64_t first = seed;
  for (; std::chrono::steady_clock::now() < end && (full || seed < first + kOrdinary); ++seed) {
    SCOPED_TRACE(fmt::format("replay with WEFT_TEST_SEED={}", seed));
    try_one(Spoiler(seed).spoil(whole.at(seed % whole.size())));
    if (HasFailure()) return;
  }
  std::fprintf(stderr, "%llu spoilt files\n", static_cast<unsigned long long>(seed - first));
}

TEST(SpoiltFiles, AreRefusedWhereverTheyEnd) {
  for (const std::string whole : {kHwlocSample, kNcclSample})
    for (std::size_t length = 0; length < whole.size() - 1; length += 7)
      try_one(whole.substr(0, length));
}

}  // namespace
}  // namespace weft::topology
