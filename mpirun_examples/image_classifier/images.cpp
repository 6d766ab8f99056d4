#include "images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

namespace images {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DataError(fmt::format("{}: can't be opened", file.string()));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::uint32_t big_endian(const Bytes& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | bytes[at + i];
  return value;
}

// Returns the sizes of an IDX file of bytes with `dims` dimensions, after checking that all its
// data are present.
std::vector<std::uint32_t> idx_sizes(const std::filesystem::path& file, const Bytes& bytes,
                                     std::size_t dims) {
  const std::size_t head = 4 + 4 * dims;
  if (bytes.size() < head || big_endian(bytes, 0) != 0x800U + dims)
    throw DataError(fmt::format(
        "{}: no IDX file of bytes in {} dimensions; is it still compressed?", file.string(), dims));
  std::vector<std::uint32_t> sizes;
  std::size_t elements = 1;
  for (std::size_t i = 0; i < dims; ++i) {
    sizes.push_back(big_endian(bytes, 4 + 4 * i));
    elements *= sizes.back();
  }
  if (bytes.size() - head != elements)
    throw DataError(fmt::format("{}: {} bytes of data; its head says {}", file.string(),
                                bytes.size() - head, elements));
  return sizes;
}

float scaled(std::uint8_t byte) { return static_cast<float>(byte) / 127.5F - 1.0F; }

void add_class(Images& to, std::uint8_t value, const std::string& file) {
  if (value >= kClasses)
    throw DataError(fmt::format("{}: class {}; 0 to {} are expected", file, value, kClasses - 1));
  to.classes.push_back(value);
}

struct Point {
  float x, y;
};

// The end points of the segments A to G of a digit in a box of 1 by 2, and the segments of each
// digit.
constexpr std::array<std::array<Point, 2>, 7> kSegments{{{{{0, 0}, {1, 0}}},
                                                         {{{1, 0}, {1, 1}}},
                                                         {{{1, 1}, {1, 2}}},
                                                         {{{0, 2}, {1, 2}}},
                                                         {{{0, 1}, {0, 2}}},
                                                         {{{0, 0}, {0, 1}}},
                                                         {{{0, 1}, {1, 1}}}}};
constexpr std::array<std::uint8_t, kClasses> kLit{0x3f, 0x06, 0x5b, 0x4f, 0x66,
                                                  0x6d, 0x7d, 0x07, 0x7f, 0x6f};

float distance(Point p, Point a, Point b) {
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  const float along =
      std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / (dx * dx + dy * dy), 0.0F, 1.0F);
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

void draw_digit(int digit, std::mt19937_64& random, float* pixels) {
  const auto between = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(random() >> 40) * 0x1.0p-24F;
  };
  const float size = between(6.0F, 9.0F);
  const float slant = between(-0.3F, 0.3F);
  const float left = between(4.0F, 24.0F - size);
  const float top = between(3.0F, 25.0F - 2.0F * size);
  const float thickness = between(0.8F, 1.6F);
  const auto placed = [&](Point p) {
    return Point{left + size * p.x + slant * size * (1.0F - p.y), top + size * p.y};
  };
  for (int y = 0; y < 28; ++y)
    for (int x = 0; x < 28; ++x) {
      float nearest = 100.0F;
      for (std::size_t i = 0; i < kSegments.size(); ++i)
        if ((kLit[static_cast<std::size_t>(digit)] >> i & 1) != 0)
          nearest = std::min(nearest, distance({static_cast<float>(x), static_cast<float>(y)},
                                               placed(kSegments[i][0]), placed(kSegments[i][1])));
      const float ink = std::clamp(thickness + 0.5F - nearest, 0.0F, 1.0F);
      pixels[y * 28 + x] = 2.0F * ink - 1.0F + between(-0.6F, 0.6F);
    }
}

}  // namespace

Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels) {
  const Bytes pixels = contents(images);
  const Bytes classes = contents(labels);
  const auto sizes = idx_sizes(images, pixels, 3);
  if (idx_sizes(labels, classes, 1)[0] != sizes[0])
    throw DataError(
        fmt::format("{}: not as many labels as {} has images", labels.string(), images.string()));
  Images all;
  all.height = static_cast<int>(sizes[1]);
  all.width = static_cast<int>(sizes[2]);
  std::transform(pixels.begin() + 16, pixels.end(), std::back_inserter(all.pixels), scaled);
  for (std::size_t i = 8; i < classes.size(); ++i) add_class(all, classes[i], labels.string());
  return all;
}

Images read_cifar(const std::vector<std::string>& batches) {
  Images all{.channels = 3, .height = 32, .width = 32, .pixels = {}, .classes = {}};
  const auto record = static_cast<std::ptrdiff_t>(1 + all.size_of_one());
  for (const std::string& file : batches) {
    const Bytes bytes = contents(file);
    const auto size = static_cast<std::ptrdiff_t>(bytes.size());
    if (size == 0 || size % record != 0)
      throw DataError(
          fmt::format("{}: {} bytes are no whole number of records of {}", file, size, record));
    for (auto at = bytes.begin(); at != bytes.end(); at += record) {
      add_class(all, *at, file);
      std::transform(at + 1, at + record, std::back_inserter(all.pixels), scaled);
    }
  }
  return all;
}

Images draw(std::size_t count, std::uint64_t seed) {
  Images all;
  all.pixels.resize(count * all.size_of_one());
  for (std::size_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15ULL + i);
    const auto digit = static_cast<std::uint8_t>(random() % kClasses);
    all.classes.push_back(digit);
    draw_digit(digit, random, all.pixels.data() + i * all.size_of_one());
  }
  return all;
}

}  // namespace images
