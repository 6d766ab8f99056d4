#include "pslib/compression/push_cut.hpp"

#include <algorithm>

namespace weft::pslib {
namespace {

/// `joined`: one range for each tensor.
std::vector<TensorRange> ranges_of(std::span<const ShardPiece> pieces, std::span<const int> servers,
                                   bool joined) {
  std::vector<TensorRange> ranges;
  for (const ShardPiece& piece : pieces) {
    if (std::ranges::find(servers, piece.server) == servers.end()) continue;
    const std::int64_t end = piece.first + piece.count;
    if (joined && !ranges.empty() && ranges.back().tensor == piece.tensor)
      ranges.back().end = end;
    else
      ranges.push_back({piece.tensor, piece.first, end});
  }
  return ranges;
}

}  // namespace

PushCut::PushCut(const PushFormat& pushes, std::span<const ShardPiece> pieces,
                 std::span<const int> servers, std::int64_t elements)
    : pushes_(pushes),
      width_(pushes.is_compressed() ? 1 : size_of(pushes.wire())),
      cut_(elements, width_) {
  const auto end = static_cast<std::int64_t>(pushes.bytes() / width_);
  const auto ranges = ranges_of(pieces, servers, pushes.is_compressed());
  pushes.add_to(cut_, ranges);
  cut_.add(end, elements - end);
  if (pushes.is_compressed()) format_.emplace(pushes.packed(cut_, ranges));
}

std::byte* PushCut::data(const Tensor& viewed, std::int64_t element) const noexcept {
  return viewed.data() + static_cast<std::size_t>(cut_.place(viewed, element)) * width_;
}

Source PushCut::source(const Tensor& viewed, std::size_t tensor,
                       std::int64_t first) const noexcept {
  if (format_) return {viewed.data(), cut_.is_whole(viewed) ? &pushes_ : &*format_};
  return {data(viewed, static_cast<std::int64_t>(pushes_.offset(tensor)) + first), nullptr};
}

const std::byte* PushCut::words(const Tensor& viewed) const noexcept {
  return data(viewed, static_cast<std::int64_t>(pushes_.bytes() / width_));
}

}  // namespace weft::pslib
