#include "pslib/publication/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/fail.hpp"

namespace weft::pslib {
namespace {

PublishedLayout::Placed place(const PublishedTensor& spec, std::size_t offset) {
  // Below the address space, so that no sum overflows.
  constexpr auto kMost = std::numeric_limits<std::size_t>::max() >> 17;
  const auto elements = static_cast<std::size_t>(spec.shape.elements());
  PublishedLayout::Placed placed{.offset = offset};
  if (elements == 0) return placed;
  const bool has_rows = spec.shape.dims() > 1;
  const std::size_t rows = has_rows ? static_cast<std::size_t>(spec.shape[0]) : 0;
  if (elements <= kMost / size_of(spec.dtype)) {
    placed.bytes = elements * size_of(spec.dtype);
    placed.row_bytes = has_rows ? placed.bytes / rows : PublishedLayout::kLine;
    const std::size_t count = (placed.bytes + placed.row_bytes - 1) / placed.row_bytes;
    if (count <= std::numeric_limits<std::uint32_t>::max()) {
      placed.rows = static_cast<std::uint32_t>(count);
      return placed;
    }
  }
  throw_error(
      Code::bad_argument, "publication",
      fmt::format("tensor '{}' is too large: {}", spec.name, spec.shape.text()),
      "at most 2^32 - 1 rows of the first dimension; parts of it may be tensors of their own");
}

/// First row after the run.
std::uint64_t end_of(const RowRun& run) noexcept { return run.first + run.rows; }

bool before(const RowRun& a, const RowRun& b) noexcept {
  return a.tensor != b.tensor ? a.tensor < b.tensor : a.first < b.first;
}

}  // namespace

PublishedLayout::PublishedLayout(std::span<const PublishedTensor> specs) {
  for (const PublishedTensor& spec : specs) {
    tensors_.push_back(place(spec, buffer_));
    bytes_ += tensors_.back().bytes;
    buffer_ += (tensors_.back().bytes + kLine - 1) / kLine * kLine;
  }
}

std::size_t PublishedLayout::offset(const RowRun& run) const noexcept {
  return run.first * tensors_[run.tensor].row_bytes;
}

std::size_t PublishedLayout::bytes(const RowRun& run) const noexcept {
  const Placed& tensor = tensors_[run.tensor];
  return std::min(end_of(run) * tensor.row_bytes, tensor.bytes) - offset(run);
}

std::size_t PublishedLayout::bytes(std::span<const RowRun> runs) const noexcept {
  std::size_t sum = 0;
  for (const RowRun& run : runs) sum += bytes(run);
  return sum;
}

RowRuns PublishedLayout::all() const {
  RowRuns runs;
  for (std::uint32_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].rows > 0) runs.push_back({.tensor = i, .rows = tensors_[i].rows});
  return runs;
}

bool PublishedLayout::valid(std::span<const RowRun> runs) const noexcept {
  const RowRun* last = nullptr;
  for (const RowRun& run : runs) {
    if (run.tensor >= tensors_.size() || run.rows == 0) return false;
    const std::uint64_t rows = tensors_[run.tensor].rows;
    if (run.first >= rows || run.rows > rows - run.first) return false;
    if (last != nullptr &&
        (run.tensor < last->tensor || (run.tensor == last->tensor && run.first < end_of(*last))))
      return false;
    last = &run;
  }
  return true;
}

RowRuns unite(std::span<const RowRun> a, std::span<const RowRun> b) {
  RowRuns both;
  both.reserve(a.size() + b.size());
  while (!a.empty() || !b.empty()) {
    const bool from_a = b.empty() || (!a.empty() && before(a.front(), b.front()));
    auto& from = from_a ? a : b;
    const RowRun next = from.front();
    from = from.subspan(1);
    RowRun* last = both.empty() ? nullptr : &both.back();
    if (last == nullptr || last->tensor != next.tensor || next.first > end_of(*last))
      both.push_back(next);
    else if (end_of(next) > end_of(*last))
      last->rows = static_cast<std::uint32_t>(end_of(next) - last->first);
  }
  return both;
}

}  // namespace weft::pslib
