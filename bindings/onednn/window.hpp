// The attributes of convolutions and pools, as oneDNN takes them.
#pragma once

#include <algorithm>

#include "bindings/onednn/routine.hpp"

namespace weft::dataflow::onednn {

/// One value for each dimension after batch and channels.
struct Window {
  Dims kernel;
  Dims strides;
  Dims gaps;    ///< dilations less one: elements between two of the window
  Dims before;  ///< padding
  Dims after;
};

inline Dims values_of(const Attributes& attributes, const char* name, std::size_t first,
                      std::size_t count, std::int64_t otherwise) {
  const AttributeValue* const value = attributes.find(name);
  if (value == nullptr || std::get<Sizes>(*value).empty()) return Dims(count, otherwise);
  const auto from = std::get<Sizes>(*value).begin() + static_cast<std::ptrdiff_t>(first);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

/// `x`: the shape that the window moves over.
inline Window window_of(const Operands& operands, const Shape& x, Dims kernel) {
  if (x.dims() > 5) operands.refuse("weft::operators has windows of 1 to 3 dimensions");
  const std::size_t count = x.dims() - 2;
  const Attributes& attributes = operands.attributes();
  Window window{std::move(kernel), values_of(attributes, "strides", 0, count, 1),
                values_of(attributes, "dilations", 0, count, 1),
                values_of(attributes, "pads", 0, count, 0),
                values_of(attributes, "pads", count, count, 0)};
  for (std::int64_t& dilation : window.gaps) --dilation;
  return window;
}

}  // namespace weft::dataflow::onednn
