#include "pslib/compression/push_format.hpp"

#include <algorithm>
#include <cmath>

#include "pslib/compression/kernels.hpp"

namespace weft::pslib {
namespace {

constexpr std::size_t in_lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

std::size_t share(std::int64_t elements, float ratio) {
  const double wanted = std::round(static_cast<double>(ratio) * static_cast<double>(elements));
  return std::max<std::size_t>(1, static_cast<std::size_t>(wanted));
}

}  // namespace

PushFormat::PushFormat(std::span<const TensorSpec> specs, std::span<const std::int64_t> offsets,
                       std::int64_t elements, const TableOptions& options)
    : compression_(options.compression),
      wire_(options.wire),
      elements_(static_cast<std::size_t>(elements)),
      offsets_(offsets.begin(), offsets.end()),
      bytes_before_(elements_ * size_of(options.wire)),
      bytes_(bytes_before_) {
  if (compression_.kind == Compression::Kind::int8) lay_codes(specs);
  if (compression_.kind == Compression::Kind::top_k) lay_places(specs);
}

void PushFormat::lay_codes(std::span<const TensorSpec> specs) {
  bytes_ = in_lines(elements_);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto elements = static_cast<std::size_t>(specs[i].shape.elements());
    tensors_.push_back({offsets_[i], bytes_, elements});
    bytes_ += (elements + kernels::kQuantumBlock - 1) / kernels::kQuantumBlock * sizeof(float);
  }
  bytes_ = in_lines(bytes_);
}

void PushFormat::lay_places(std::span<const TensorSpec> specs) {
  bytes_ = 0;
  for (const TensorSpec& spec : specs) {
    const std::size_t sent = share(spec.shape.elements(), compression_.ratio);
    tensors_.push_back({bytes_, bytes_ + sent * sizeof(std::uint32_t), sent});
    bytes_ += sent * (sizeof(std::uint32_t) + sizeof(float));
  }
  bytes_ = in_lines(bytes_);
}

// A block's scale is that of all its elements, and only a search finds a place.
std::size_t PushFormat::begin_of(const TensorRange& range) const noexcept {
  if (compression_.kind != Compression::Kind::int8) return 0;
  return static_cast<std::size_t>(range.first) / kernels::kQuantumBlock * kernels::kQuantumBlock;
}

void PushFormat::add_to(SlotCut& cut, std::span<const TensorRange> ranges) const {
  const auto add = [&](std::size_t from, std::size_t to) {
    cut.add(static_cast<std::int64_t>(from), static_cast<std::int64_t>(to - from));
  };
  for (const TensorRange& range : ranges) {
    const auto end = static_cast<std::size_t>(range.end);
    switch (compression_.kind) {
      case Compression::Kind::none:
        add(offset(range.tensor) + static_cast<std::size_t>(range.first),
            offset(range.tensor) + end);
        break;
      case Compression::Kind::int8:
        add(codes(range.tensor) + begin_of(range), codes(range.tensor) + end);
        break;
      case Compression::Kind::top_k:
        add(places(range.tensor), values(range.tensor) + sent(range.tensor) * sizeof(float));
        break;
    }
  }
  if (compression_.kind != Compression::Kind::int8) return;
  for (const TensorRange& range : ranges) {
    const std::size_t last = static_cast<std::size_t>(range.end - 1) / kernels::kQuantumBlock;
    add(scales(range.tensor) + begin_of(range) / kernels::kQuantumBlock * sizeof(float),
        scales(range.tensor) + (last + 1) * sizeof(float));
  }
}

PushFormat PushFormat::packed(const SlotCut& cut, std::span<const TensorRange> ranges) const {
  PushFormat format = *this;
  const auto place = [&](std::size_t at) {
    return static_cast<std::size_t>(cut.place(static_cast<std::int64_t>(at)));
  };
  for (const TensorRange& range : ranges) {
    Tensor& tensor = format.tensors_[range.tensor];
    tensor.begin = begin_of(range);
    if (compression_.kind == Compression::Kind::int8) {
      tensor.first = place(tensor.first + tensor.begin);
      tensor.second = place(tensor.second + tensor.begin / kernels::kQuantumBlock * sizeof(float));
    } else {
      tensor.first = place(tensor.first);
      tensor.second = place(tensor.second);
    }
  }
  return format;
}

void PushFormat::read(float* to, const std::byte* push, std::size_t tensor, std::int64_t first,
                      std::size_t count) const noexcept {
  const auto from = static_cast<std::size_t>(first);
  if (compression_.kind == Compression::Kind::int8) {
    kernels::dequantise(to, reinterpret_cast<const std::int8_t*>(push + codes(tensor)),
                        reinterpret_cast<const float*>(push + scales(tensor)),
                        from - tensors_[tensor].begin, count);
    return;
  }
  std::fill_n(to, count, 0.0F);
  const std::span all(reinterpret_cast<const std::uint32_t*>(push + places(tensor)), sent(tensor));
  const float* const sent_values = reinterpret_cast<const float*>(push + values(tensor));
  const auto begin = std::ranges::lower_bound(all, from) - all.begin();
  for (auto i = static_cast<std::size_t>(begin); i < all.size(); ++i) {
    // Read once: the worker may change it meanwhile.
    const std::size_t place = *static_cast<const volatile std::uint32_t*>(&all[i]);
    if (place - from >= count) return;  // wraps for an index before `from`
    to[place - from] = sent_values[i];
  }
}

}  // namespace weft::pslib
