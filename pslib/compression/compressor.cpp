#include "pslib/compression/compressor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "base/kernels/combine.hpp"
#include "pslib/compression/kernels.hpp"

namespace weft::pslib {
namespace {

constexpr std::size_t kBlock = 4096;
static_assert(kBlock % kernels::kQuantumBlock == 0);

}  // namespace

Compressor::Compressor(const PushFormat& format, std::span<const TensorSpec> specs,
                       std::string table)
    : format_(format), specs_(specs), table_(std::move(table)) {
  const std::size_t elements = format.elements();
  residual_ = hwy::AllocateAligned<float>(elements);
  if (!residual_) throw std::bad_alloc();
  std::fill_n(residual_.get(), elements, 0.0F);
  if (format.wire() != DType::f32) widened_.resize(kBlock);
}

Status Compressor::compress(const Tensor& gradients, std::byte* push) noexcept {
  const Clock::time_point since = Clock::now();
  if (Status status = check(gradients.data()); !status) return status;
  double squares = 0.0;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    squares += format_.kind() == Compression::Kind::int8 ? quantise(i, gradients.data(), push)
                                                         : select(i, gradients.data(), push);
  statistics_.bytes_spared += format_.bytes_before() - format_.bytes();
  statistics_.residual_norm = std::sqrt(squares);
  statistics_.nanoseconds +=
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - since).count());
  return {};
}

// Calls act(gradients, residual, first element, count) for each block of a tensor.
template <typename Act>
void Compressor::for_each_block(std::size_t tensor, const std::byte* gradients,
                                const Act& act) noexcept {
  const DType wire = format_.wire();
  const auto offset = format_.offset(tensor);
  const auto count = static_cast<std::size_t>(specs_[tensor].shape.elements());
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t size = std::min(kBlock, count - first);
    const std::byte* const from = gradients + (offset + first) * size_of(wire);
    if (wire != DType::f32) weft::kernels::widen(widened_.data(), from, wire, size);
    act(wire == DType::f32 ? reinterpret_cast<const float*>(from) : widened_.data(),
        residual_.get() + offset + first, first, size);
  }
}

// Checks all values before any residual changes.
Status Compressor::check(const std::byte* gradients) noexcept {
  Status status;
  for (std::size_t i = 0; i < specs_.size() && status; ++i)
    for_each_block(
        i, gradients,
        [&](const float* gradient, const float* residual, std::size_t first, std::size_t count) {
          if (!status) return;
          const std::size_t at = kernels::find_not_finite(gradient, residual, count);
          if (at < count) status = refuse_value(i, first + at, gradient[at] + residual[at]);
        });
  return status;
}

double Compressor::quantise(std::size_t tensor, const std::byte* gradients,
                            std::byte* push) noexcept {
  auto* const codes = reinterpret_cast<std::int8_t*>(push + format_.codes(tensor));
  auto* const scales = reinterpret_cast<float*>(push + format_.scales(tensor));
  double squares = 0.0;
  for_each_block(tensor, gradients,
                 [&](const float* gradient, float* residual, std::size_t first, std::size_t count) {
                   squares +=
                       kernels::quantise(codes + first, scales + first / kernels::kQuantumBlock,
                                         gradient, residual, count);
                 });
  return squares;
}

double Compressor::select(std::size_t tensor, const std::byte* gradients,
                          std::byte* push) noexcept {
  const auto add = weft::kernels::combine_for(DType::f32, weft::kernels::Combination::sum);
  for_each_block(tensor, gradients,
                 [&](const float* gradient, float* residual, std::size_t, std::size_t count) {
                   auto* const sum = reinterpret_cast<std::byte*>(residual);
                   add(sum, sum, reinterpret_cast<const std::byte*>(gradient), count);
                 });
  float* const values = residual_.get() + format_.offset(tensor);
  const auto count = static_cast<std::size_t>(specs_[tensor].shape.elements());
  const std::size_t sent = format_.sent(tensor);
  return kernels::take_largest(reinterpret_cast<std::uint32_t*>(push + format_.places(tensor)),
                               reinterpret_cast<float*>(push + format_.values(tensor)), values,
                               count, sent, kernels::kth_magnitude(values, count, sent));
}

Status Compressor::refuse_value(std::size_t tensor, std::size_t element,
                                float value) const noexcept {
  return refuse(Code::bad_argument, [&] {
    return bad_argument(
        "push",
        fmt::format("table \"{}\" is compressed, and element {} of the gradient of \"{}\", with "
                    "the residual of earlier pushes, is {}",
                    table_, element, specs_[tensor].name, value),
        "push finite gradients: zeros for a step that is to be skipped; nothing was sent");
  });
}

}  // namespace weft::pslib
