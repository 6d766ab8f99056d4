// The network on a GPU: its activations, and the kernels of a step.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpu.hpp"
#include "images.hpp"
#include "weft/weft.hpp"

namespace images {

/// Computes what Network computes, a batch at once. One thread.
class GpuNetwork {
 public:
  /// For batches of `batch` of the images. `world`, `gpu` and `all` must outlive this object.
  GpuNetwork(weft::World& world, Gpu& gpu, const Images& all, int batch);

  /// Sets the images of the next step. The GPU must have done the last one.
  void set(std::span<const std::size_t> numbers);
  /// Puts on the stream what computes the mean gradients of these images. The tensors lie on the
  /// GPU, in the order of Weights.
  void train(std::span<const weft::Tensor> parameters, std::span<const weft::Tensor> gradients);
  /// Waits for the GPU, and returns the images' mean loss, in nats.
  double loss();

 private:
  /// A convolution with ReLU and 2 x 2 max pooling, as Network has it.
  struct Layer {
    kernels::Shape shape;
    weft::Tensor values, pooled, slopes, pooled_slopes, parts;
  };

  Layer layer(int inputs, int outputs, int height, int width);
  weft::Tensor on_gpu(long elements);
  void forward(const Layer& layer, const weft::Tensor& from, const weft::Tensor& weights,
               const weft::Tensor& bias);
  void backward(const Layer& layer, const weft::Tensor& from, const weft::Tensor& of_weights,
                const weft::Tensor& of_bias);

  weft::World& world_;
  Gpu& gpu_;
  const Images& all_;
  const int batch_;
  // In host memory, for the copies.
  weft::Tensor images_here_, wanted_here_, losses_here_;
  weft::Tensor images_, wanted_, losses_;
  Layer first_, second_;
  weft::Tensor scores_, slopes_;
};

}  // namespace images
