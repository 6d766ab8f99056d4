// Parts of pushes: what a shard reads alone is what it would read in the whole.
#include "pslib/compression/push_cut.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "pslib/table/layout.hpp"

namespace weft::pslib {
namespace {

constexpr std::size_t kWord = 64;

/// A push of bytes that follow a pattern, or what a view of the runs alone has of it.
class Push {
 public:
  Push(const PushFormat& format, const std::vector<std::uint32_t>& places) : format_(format) {
    bytes_.resize(format.bytes() + kWord);
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<std::byte>(i * 2654435761U >> 13);
    if (format.kind() == Compression::Kind::int8 || !format.is_compressed()) return;
    for (std::size_t i = 0; i < format.sent(0); ++i)
      std::memcpy(bytes_.data() + format.places(0) + 4 * i, &places[i], 4);
  }
  Tensor whole() { return Tensor::wrap(bytes_.data(), dtype(), Shape{elements()}); }
  Tensor view(const PushCut& cut) {
    packed_.clear();
    for (const SlotRun& run : cut.runs())
      packed_.insert(packed_.end(), bytes_.data() + byte(run.first),
                     bytes_.data() + byte(run.first + run.count));
    return Tensor::wrap(packed_.data(), dtype(),
                        Shape{static_cast<std::int64_t>(packed_.size() / width())});
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(bytes_.size() / width()); }

 private:
  DType dtype() const { return format_.is_compressed() ? DType::u8 : format_.wire(); }
  std::size_t width() const { return size_of(dtype()); }
  std::ptrdiff_t byte(std::int64_t element) const {
    return element * static_cast<std::int64_t>(width());
  }

  const PushFormat& format_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> packed_;
};

std::vector<std::byte> bytes_of(const Source& source, const ShardPiece& piece, DType wire) {
  if (source.format == nullptr) {
    const auto bytes = static_cast<std::size_t>(piece.count) * size_of(wire);
    return {source.at, source.at + bytes};
  }
  std::vector<float> values(static_cast<std::size_t>(piece.count));
  source.format->read(values.data(), source.at, piece.tensor, piece.first, values.size());
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

RC_GTEST_PROP(PushCuts, HaveOfTheirShardsWhatTheWholeHas, ()) {
  std::vector<TensorSpec> specs;
  const auto tensors = *rc::gen::inRange(1, 8);
  for (int i = 0; i < tensors; ++i)
    specs.push_back({std::to_string(i), Shape{*rc::gen::inRange<std::int64_t>(1, 5000)}});
  TableOptions options(Optimizer::sgd(1.0F));
  options.compression =
      *rc::gen::element(Compression{}, Compression::int8(), Compression::top_k(0.1F));
  options.wire = *rc::gen::element(DType::f32, DType::bf16);
  std::vector<int> servers(*rc::gen::inRange<std::size_t>(1, 6));
  std::iota(servers.begin(), servers.end(), 3);
  const Layout layout(specs);
  const PushFormat format(specs, layout.offsets(), layout.elements(), options);
  const auto pieces = make_shard_map(specs, servers, *rc::gen::element(64U, 4096U));
  std::vector<std::uint32_t> places(5000);
  std::iota(places.begin(), places.end(), *rc::gen::inRange<std::uint32_t>(0, 100));
  Push push(format, places);
  std::vector<int> own;
  for (const int server : servers)
    if (*rc::gen::arbitrary<bool>()) own.push_back(server);

  const PushCut cut(format, pieces, own, push.elements());
  const Tensor whole = push.whole();
  const Tensor part = push.view(cut);
  RC_ASSERT(std::memcmp(cut.words(whole), cut.words(part), kWord) == 0);
  std::int64_t needed = 0;
  for (const ShardPiece& piece : pieces) {
    if (std::ranges::find(own, piece.server) == own.end()) continue;
    needed += piece.count;
    const Source there = cut.source(whole, piece.tensor, piece.first);
    const Source here = cut.source(part, piece.tensor, piece.first);
    RC_ASSERT(bytes_of(here, piece, options.wire) == bytes_of(there, piece, options.wire));
  }
  if (!format.is_compressed()) {
    // A line at each end of a piece, and the gaps that are read along.
    const auto most = needed * static_cast<std::int64_t>(size_of(options.wire)) +
                      static_cast<std::int64_t>(pieces.size()) * 384 + 512;
    RC_ASSERT(static_cast<std::int64_t>(part.bytes()) <= most);
  }
}

}  // namespace
}  // namespace weft::pslib
