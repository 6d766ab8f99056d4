#include "window_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace images {
namespace {

using weft::Tensor;
using weft::dataflow::KernelCall;
using weft::dataflow::Sizes;

int size(const Tensor& tensor, std::size_t dimension) {
  return static_cast<int>(tensor.shape()[dimension]);
}

const float* data(const Tensor& tensor) { return tensor.as<float>().data(); }

/// A convolution of stride 1: x [batch, inputs, height, width] with weights
/// [outputs, inputs, rows, columns] to y [batch, outputs, ...].
struct Convolution {
  int batch, inputs, height, width;
  int outputs, rows, columns;
  int top = 0, left = 0;
  int y_height, y_width;

  Convolution(const KernelCall& call, const Tensor& x, const Tensor& w, const Tensor& y)
      : batch(size(x, 0)),
        inputs(size(x, 1)),
        height(size(x, 2)),
        width(size(x, 3)),
        outputs(size(w, 0)),
        rows(size(w, 2)),
        columns(size(w, 3)),
        y_height(size(y, 2)),
        y_width(size(y, 3)) {
    const auto all_are_one = [&](const char* name) {
      return std::ranges::all_of(call.attributes().sizes(name), [](auto one) { return one == 1; });
    };
    if (!all_are_one("strides") || !all_are_one("dilations") ||
        call.attributes().integer("group") != 1)
      throw std::invalid_argument("this kernel knows strides, dilations and groups of 1 alone");
    const Sizes& pads = call.attributes().sizes("pads");
    if (pads.empty()) return;
    top = static_cast<int>(pads[0]);
    left = static_cast<int>(pads[1]);
  }

  int x_plane() const { return height * width; }
  int y_plane() const { return y_height * y_width; }

  /// Calls act(weight, first of a row of x, first of a row of y, elements) for all pairs of rows
  /// that a weight connects. The first three are offsets from the beginning of an image's memory.
  template <typename Act>
  void for_each_row(const Act& act) const {
    int weight = 0;
    for (int out = 0; out < outputs; ++out)
      for (int in = 0; in < inputs; ++in)
        for (int dy = -top; dy < rows - top; ++dy)
          for (int dx = -left; dx < columns - left; ++dx, ++weight) {
            const int first = std::max(0, -dx);
            const int count = std::min(y_width, width - dx) - first;
            for (int y = std::max(0, -dy); y < std::min(y_height, height - dy); ++y)
              act(weight, in * x_plane() + (y + dy) * width + dx + first,
                  out * y_plane() + y * y_width + first, count);
          }
  }
};

/// Calls act(element of y, first element of its window in x) for 2-D windows without pads.
template <typename Act>
void for_each_window(const KernelCall& call, const Tensor& x, const Tensor& y, const Act& act) {
  const Sizes& strides = call.attributes().sizes("strides");
  const Sizes& pads = call.attributes().sizes("pads");
  if (strides.size() != 2 || std::ranges::any_of(pads, [](auto one) { return one != 0; }) ||
      call.attributes().integer("ceil_mode") != 0)
    throw std::invalid_argument("this kernel knows windows of two dimensions without pads alone");
  const int planes = size(x, 0) * size(x, 1);
  int to = 0;
  for (int plane = 0; plane < planes; ++plane)
    for (int row = 0; row < size(y, 2); ++row)
      for (int column = 0; column < size(y, 3); ++column, ++to)
        act(to, (plane * size(x, 2) + row * static_cast<int>(strides[0])) * size(x, 3) +
                    column * static_cast<int>(strides[1]));
}

/// The place of the first of the largest elements of a window.
int largest(const KernelCall& call, const float* x, int width, int corner) {
  const Sizes& kernel = call.attributes().sizes("kernel_shape");
  int best = corner;
  for (int row = 0; row < kernel[0]; ++row)
    for (int column = 0; column < kernel[1]; ++column)
      if (const int at = corner + row * width + column; x[at] > x[best]) best = at;
  return best;
}

}  // namespace

void conv(KernelCall& call) {
  const Tensor& y = call.output(0);
  const Convolution c(call, call.input(0), call.input(1), y);
  const float* const w = data(call.input(1));
  for (int image = 0; image < c.batch; ++image) {
    const float* const x = data(call.input(0)) + image * c.inputs * c.x_plane();
    float* const to = y.as<float>().data() + image * c.outputs * c.y_plane();
    for (int out = 0; out < c.outputs; ++out)
      std::fill_n(to + out * c.y_plane(), c.y_plane(),
                  call.has(2) ? data(call.input(2))[out] : 0.0F);
    c.for_each_row([&](int weight, int from, int at, int count) {
      for (int i = 0; i < count; ++i) to[at + i] += w[weight] * x[from + i];
    });
  }
}

void conv_grad_input(KernelCall& call) {
  const Tensor& dx = call.output(0);
  const Tensor& dy = call.input(0);
  const Convolution c(call, dx, call.input(1), dy);
  const float* const w = data(call.input(1));
  std::ranges::fill(dx.as<float>(), 0.0F);
  for (int image = 0; image < c.batch; ++image) {
    float* const to = dx.as<float>().data() + image * c.inputs * c.x_plane();
    const float* const from = data(dy) + image * c.outputs * c.y_plane();
    c.for_each_row([&](int weight, int at, int y, int count) {
      for (int i = 0; i < count; ++i) to[at + i] += w[weight] * from[y + i];
    });
  }
}

void conv_grad_weight(KernelCall& call) {
  const Tensor& dw = call.output(0);
  const Tensor& dy = call.input(0);
  const Tensor& x = call.input(1);
  const Convolution c(call, x, dw, dy);
  const std::span<float> to = dw.as<float>();
  std::ranges::fill(to, 0.0F);
  for (int image = 0; image < c.batch; ++image) {
    const float* const from = data(x) + image * c.inputs * c.x_plane();
    const float* const slopes = data(dy) + image * c.outputs * c.y_plane();
    c.for_each_row([&](int weight, int at, int y, int count) {
      float sum = 0.0F;
      for (int i = 0; i < count; ++i) sum += slopes[y + i] * from[at + i];
      to[static_cast<std::size_t>(weight)] += sum;
    });
  }
}

void max_pool(KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& y = call.output(0);
  const float* const from = data(x);
  float* const to = y.as<float>().data();
  for_each_window(call, x, y, [&](int at, int corner) {
    to[at] = from[largest(call, from, size(x, 3), corner)];
  });
}

void max_pool_grad(KernelCall& call) {
  const Tensor& dy = call.input(0);
  const Tensor& x = call.input(1);
  const Tensor& dx = call.output(0);
  std::ranges::fill(dx.as<float>(), 0.0F);
  float* const to = dx.as<float>().data();
  for_each_window(call, x, dy, [&](int at, int corner) {
    to[largest(call, data(x), size(x, 3), corner)] += data(dy)[at];
  });
}

}  // namespace images
