// Shapes with open sizes, and tensor types.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/fail.hpp"
#include "weft/definition.hpp"

namespace weft::dataflow {
namespace {

std::vector<std::int64_t> checked_sizes(std::span<const std::int64_t> dims) {
  std::vector<std::int64_t> known(dims.begin(), dims.end());
  for (std::int64_t& size : known) {
    if (size < kAnySize)
      throw_error(Code::bad_argument, "graph", fmt::format("a size of {} in a shape", size));
    if (size == kAnySize) size = 1;
  }
  // Refuses too many dimensions and elements.
  static_cast<void>(Shape(known));
  return {dims.begin(), dims.end()};
}

}  // namespace

PartialShape::PartialShape(std::initializer_list<std::int64_t> dims)
    : dims_(checked_sizes({dims.begin(), dims.size()})) {}

PartialShape::PartialShape(std::span<const std::int64_t> dims) : dims_(checked_sizes(dims)) {}

PartialShape::PartialShape(const Shape& shape) {
  for (std::size_t i = 0; i < shape.dims(); ++i) dims_.push_back(shape[i]);
}

bool PartialShape::known() const noexcept {
  return std::find(dims_.begin(), dims_.end(), kAnySize) == dims_.end();
}

Shape PartialShape::shape() const {
  if (!known()) throw_error(Code::bad_argument, "graph", text() + " has open sizes");
  return Shape(dims_);
}

bool PartialShape::fits(const PartialShape& shape) const noexcept {
  if (shape.dims() != dims()) return false;
  for (std::size_t i = 0; i < dims_.size(); ++i)
    if (dims_[i] != kAnySize && dims_[i] != shape[i]) return false;
  return true;
}

std::string PartialShape::text() const {
  std::string text = "[";
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (i > 0) text += ", ";
    text += dims_[i] == kAnySize ? "?" : std::to_string(dims_[i]);
  }
  return text + "]";
}

std::string TensorType::text() const { return std::string(weft::name(dtype)) + shape.text(); }

}  // namespace weft::dataflow
