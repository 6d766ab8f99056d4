#include "pslib/publication/wire.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft::pslib::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "integers travel in little-endian order");

/// A tensor's spec; its dimensions and its name follow.
struct SpecHead {
  std::uint8_t dtype = 0;
  std::uint8_t dims = 0;
  std::uint16_t name_bytes = 0;
  std::uint32_t unused = 0;
};
static_assert(std::has_unique_object_representations_v<SpecHead>);

template <typename T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Reads values from the front; false if too few bytes are left.
struct Source {
  std::span<const std::byte> rest;

  template <typename T>
  bool take(T& value) noexcept {
    if (rest.size() < sizeof value) return false;
    std::memcpy(static_cast<void*>(&value), rest.data(), sizeof value);
    rest = rest.subspan(sizeof value);
    return true;
  }
};

std::optional<Shape> take_shape(Source& source, std::size_t count) {
  std::array<std::int64_t, Shape::kMaxDims> dims{};
  if (count > dims.size()) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i)
    if (!source.take(dims[i])) return std::nullopt;
  try {
    return Shape(std::span<const std::int64_t>(dims).first(count));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<PublishedTensor> take_spec(Source& source) {
  SpecHead head;
  if (!source.take(head) || head.unused != 0 ||
      head.dtype > static_cast<std::uint8_t>(DType::boolean))
    return std::nullopt;
  const auto shape = take_shape(source, head.dims);
  if (!shape || source.rest.size() < head.name_bytes) return std::nullopt;
  const auto name = source.rest.first(head.name_bytes);
  source.rest = source.rest.subspan(head.name_bytes);
  return PublishedTensor{
      .name = std::string(reinterpret_cast<const char*>(name.data()), name.size()),
      .dtype = static_cast<DType>(head.dtype),
      .shape = *shape};
}

}  // namespace

Ask attach(std::string_view name) {
  Ask ask{.kind = Ask::Kind::attach};
  std::copy_n(name.begin(), std::min(name.size(), Ask::kMostName), ask.name.begin());
  return ask;
}

std::optional<std::string> Ask::attached_name() const {
  const auto* const end = std::find(name.begin(), name.end(), '\0');
  if (kind != Kind::attach || end == name.begin() || end == name.end()) return std::nullopt;
  return std::string(name.begin(), end);
}

bool makes_sense(const Head& head) noexcept {
  switch (head.kind) {
    case Head::Kind::description:
      return head.count <= kMostTensors && head.bytes <= kMostSpecs;
    case Head::Kind::unknown:
      return head.bytes <= kMostText;
    case Head::Kind::values:
      // A run has at least 1 byte.
      return head.version > 0 && head.from <= head.version && head.count <= head.bytes;
    case Head::Kind::end:
      return head.count == static_cast<std::uint32_t>(Head::End::left) ||
             head.count == static_cast<std::uint32_t>(Head::End::closed);
  }
  return false;
}

std::vector<std::byte> encode(std::span<const PublishedTensor> specs) {
  std::vector<std::byte> out;
  for (const PublishedTensor& spec : specs) {
    put(out, SpecHead{.dtype = static_cast<std::uint8_t>(spec.dtype),
                      .dims = static_cast<std::uint8_t>(spec.shape.dims()),
                      .name_bytes = static_cast<std::uint16_t>(spec.name.size())});
    for (std::size_t i = 0; i < spec.shape.dims(); ++i) put(out, spec.shape[i]);
    const auto name = std::as_bytes(std::span(spec.name));
    out.insert(out.end(), name.begin(), name.end());
  }
  return out;
}

std::optional<std::vector<PublishedTensor>> decode(std::span<const std::byte> bytes,
                                                   std::size_t count) {
  Source source{bytes};
  std::vector<PublishedTensor> specs;
  for (std::size_t i = 0; i < count; ++i) {
    auto spec = take_spec(source);
    if (!spec) return std::nullopt;
    specs.push_back(*std::move(spec));
  }
  if (!source.rest.empty()) return std::nullopt;
  return specs;
}

}  // namespace weft::pslib::wire
