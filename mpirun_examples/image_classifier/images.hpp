// Images with their classes: read from files, or drawn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace images {

/// A file that is not what it should be: one line with its name.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kClasses = 10;

struct Images {
  int channels = 1;
  int height = 28;
  int width = 28;
  std::vector<float> pixels;  ///< [image][channel][row][column], about 0
  std::vector<std::uint8_t> classes;

  std::size_t count() const { return classes.size(); }
  std::size_t size_of_one() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height * width);
  }
  std::span<const float> image(std::size_t i) const {
    return std::span(pixels).subspan(i * size_of_one(), size_of_one());
  }
};

/// MNIST's and Fashion-MNIST's format (IDX), not compressed. Throws DataError.
Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);
/// CIFAR-10's binary batches, one after the other. Throws DataError.
Images read_cifar(const std::vector<std::string>& batches);

/// `count` digits of seven segments, 28 x 28, with noise, of any place, size and slant: image i is
/// a function of the seed and i alone.
Images draw(std::size_t count, std::uint64_t seed);

}  // namespace images
