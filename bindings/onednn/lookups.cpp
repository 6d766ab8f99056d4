// Embedding: rows by index.
#include <algorithm>
#include <cstring>

#include "bindings/onednn/arithmetic.hpp"
#include "bindings/onednn/indices.hpp"
#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/rows.hpp"

namespace weft::dataflow::onednn {
namespace {

/// Data as dimensions before the axis, rows along it, and dimensions behind it.
struct Table {
  Table(const Operands& operands, const Shape& data) {
    std::int64_t axis = operands.attributes().integer("axis");
    if (axis < 0) axis += static_cast<std::int64_t>(data.dims());
    for (std::size_t d = 0; d < data.dims(); ++d) {
      const auto at = static_cast<std::int64_t>(d);
      (at < axis ? outer : at == axis ? rows : inner) *= data[d];
    }
  }
  /// An index below 0 counts from the end.
  std::int64_t row(std::int64_t index) const { return index < 0 ? index + rows : index; }

  std::int64_t outer = 1, rows = 1, inner = 1;
};

void gather(const Operands& operands) {
  const Table table(operands, operands.shape(0));
  const std::size_t bytes = std::size_t(table.inner) * size_of(operands.dtype(0));
  const std::int64_t count = operands.shape(1).elements();
  const std::byte* const from = operands.input(0).data();
  std::byte* const to = operands.output(0).data();
  for_each_index(operands, 1, -table.rows, table.rows, [&](std::int64_t k, std::int64_t index) {
    if (bytes == 0) return;
    for (std::int64_t o = 0; o < table.outer; ++o)
      std::memcpy(to + std::size_t(o * count + k) * bytes,
                  from + std::size_t(o * table.rows + table.row(index)) * bytes, bytes);
  });
}

/// Inputs dY, indices, data: rows that were taken several times get a sum.
void gather_gradient(const Operands& operands) {
  const Table table(operands, operands.shape(2));
  const std::int64_t count = operands.shape(1).elements();
  const Tensor& result = operands.output(0);
  if (result.bytes() == 0) return;
  std::memset(result.data(), 0, result.bytes());
  with_number(operands, operands.dtype(0), [&]<typename T>(T) {
    const T* const g = reinterpret_cast<const T*>(operands.input(0).data());
    T* const to = reinterpret_cast<T*>(result.data());
    for_each_index(operands, 1, -table.rows, table.rows, [&](std::int64_t k, std::int64_t index) {
      for (std::int64_t o = 0; o < table.outer; ++o) {
        const T* const row = g + (o * count + k) * table.inner;
        T* const sums = to + (o * table.rows + table.row(index)) * table.inner;
        for (std::int64_t i = 0; i < table.inner; ++i) sums[i] = sum(sums[i], row[i]);
      }
    });
  });
}

}  // namespace

void add_lookups(KernelSet& set) {
  set.add_loops("Gather", gather);
  set.add_loops("weft.GatherGrad", gather_gradient);
}

}  // namespace weft::dataflow::onednn
