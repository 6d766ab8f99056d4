// Tensors of indices.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "bindings/onednn/operands.hpp"

namespace weft::dataflow::onednn {

/// Calls act(k, index) for each element of input `i`, i64 or i32. Refuses an index outside
/// [least, size).
template <typename Act>
void for_each_index(const Operands& operands, std::size_t i, std::int64_t least, std::int64_t size,
                    const Act& act) {
  const auto each = [&](const auto& indices) {
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const auto index = static_cast<std::int64_t>(indices[k]);
      if (index < least || index >= size)
        operands.refuse(fmt::format("element {} of input {} is {}, outside [{}, {})", k, i, index,
                                    least, size));
      act(static_cast<std::int64_t>(k), index);
    }
  };
  const Tensor& tensor = operands.input(i);
  tensor.dtype() == DType::i64 ? each(tensor.as<std::int64_t>()) : each(tensor.as<std::int32_t>());
}

}  // namespace weft::dataflow::onednn
