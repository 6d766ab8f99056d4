// Random numbers that are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

namespace lessons {

/// A function of its seeds. Thread-safety: one thread at a time.
class Draws {
 public:
  explicit Draws(std::initializer_list<std::uint64_t> seeds) : random_(mixed(seeds)) {}

  /// A number in [0, 1).
  double unit() { return static_cast<double>(random_() >> 11U) * 0x1.0p-53; }
  /// A number in [0, count).
  int below(int count) { return static_cast<int>(unit() * count); }
  /// The same with small numbers more often than large ones, as the words of a language.
  int often_small(int count) {
    const double u = unit();
    return static_cast<int>(u * u * count);
  }
  template <typename Element>
  void shuffle(std::vector<Element>& all) {
    for (std::size_t left = all.size(); left > 1; --left)
      std::swap(all[left - 1], all[static_cast<std::size_t>(below(static_cast<int>(left)))]);
  }

 private:
  static std::uint64_t mixed(std::initializer_list<std::uint64_t> seeds) {
    std::uint64_t all = 0;
    for (const std::uint64_t seed : seeds) all = (all ^ seed) * 0x9e3779b97f4a7c15U + (all >> 29U);
    return all;
  }

  std::mt19937_64 random_;
};

}  // namespace lessons
