// Labelled images: read from files or drawn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace images {

/// A malformed data file. The text is one line with the file's name.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kClasses = 10;

struct Images {
  int channels = 1;
  int height = 28;
  int width = 28;
  std::vector<float> pixels;  ///< [image][channel][row][column], centred on 0
  std::vector<std::uint8_t> classes;

  std::size_t count() const { return classes.size(); }
  std::size_t size_of_one() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height * width);
  }
  std::span<const float> image(std::size_t i) const {
    return std::span(pixels).subspan(i * size_of_one(), size_of_one());
  }
};

/// Reads uncompressed files in the IDX format of MNIST and Fashion-MNIST. Throws DataError.
Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);
/// Reads binary batches of CIFAR-10, in the given order. Throws DataError.
Images read_cifar(const std::vector<std::string>& batches);

/// Draws `count` seven-segment digits, 28 x 28, with noise and with random position, size and
/// slant. Image i is a function of `seed` and i alone.
Images draw(std::size_t count, std::uint64_t seed);

}  // namespace images
