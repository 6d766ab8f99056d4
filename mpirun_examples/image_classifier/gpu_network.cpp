#include "gpu_network.hpp"

#include <algorithm>
#include <numeric>

#include "network.hpp"

namespace images {

using weft::DType;
using weft::Memory;
using weft::Tensor;

Tensor GpuNetwork::on_gpu(long elements) {
  return world_.allocate(DType::f32, {elements}, Memory::gpu());
}

GpuNetwork::Layer GpuNetwork::layer(int inputs, int outputs, int height, int width) {
  const kernels::Shape shape{batch_, inputs, outputs, height, width};
  return {shape,
          on_gpu(shape.values()),
          on_gpu(shape.pooled()),
          on_gpu(shape.values()),
          on_gpu(shape.pooled()),
          on_gpu(batch_ * (shape.weights() + outputs))};
}

GpuNetwork::GpuNetwork(weft::World& world, Gpu& gpu, const Images& all, int batch)
    : world_(world),
      gpu_(gpu),
      all_(all),
      batch_(batch),
      images_here_(world.allocate(DType::f32, {batch, static_cast<long>(all.size_of_one())})),
      wanted_here_(world.allocate(DType::f32, {batch})),
      losses_here_(world.allocate(DType::f32, {batch})),
      images_(world.allocate(DType::f32, images_here_.shape(), Memory::gpu())),
      wanted_(on_gpu(batch)),
      losses_(on_gpu(batch)),
      first_(layer(all.channels, Network::kFirst, all.height, all.width)),
      second_(layer(Network::kFirst, Network::kSecond, all.height / 2, all.width / 2)),
      scores_(on_gpu(long{batch} * kClasses)),
      slopes_(on_gpu(long{batch} * kClasses)) {}

void GpuNetwork::set(std::span<const std::size_t> numbers) {
  float* to = images_here_.as<float>().data();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto image = all_.image(numbers[i]);
    to = std::ranges::copy(image, to).out;
    wanted_here_.as<float>()[i] = all_.classes[numbers[i]];
  }
}

void GpuNetwork::forward(const Layer& layer, const Tensor& from, const Tensor& weights,
                         const Tensor& bias) {
  gpu_.run(kernels::Convolve{layer.shape, floats(from), floats(weights), floats(bias),
                             floats(layer.values)});
  gpu_.run(kernels::Pool{layer.shape, floats(layer.values), floats(layer.pooled)});
}

void GpuNetwork::backward(const Layer& layer, const Tensor& from, const Tensor& of_weights,
                          const Tensor& of_bias) {
  gpu_.run(kernels::Unpool{layer.shape, floats(layer.values), floats(layer.pooled),
                           floats(layer.pooled_slopes), floats(layer.slopes)});
  gpu_.run(kernels::ImageGradients{layer.shape, floats(from), floats(layer.slopes),
                                   floats(layer.parts)});
  gpu_.run(kernels::AddGradients{batch_, floats(layer.parts), floats(of_weights), floats(of_bias)});
}

void GpuNetwork::train(std::span<const Tensor> parameters, std::span<const Tensor> gradients) {
  const Tensor& classes = parameters[4];
  const int features = static_cast<int>(second_.shape.pooled() / batch_);
  world_.copy(images_here_, images_, gpu_.stream());
  world_.copy(wanted_here_, wanted_, gpu_.stream());
  forward(first_, images_, parameters[0], parameters[1]);
  forward(second_, first_.pooled, parameters[2], parameters[3]);
  gpu_.run(kernels::Score{batch_, kClasses, features, floats(second_.pooled), floats(classes),
                          floats(parameters[5]), floats(scores_)});
  gpu_.run(kernels::Judge{batch_, kClasses, floats(scores_), floats(wanted_), floats(losses_),
                          floats(slopes_)});
  gpu_.run(kernels::ClassGradients{batch_, kClasses, features, floats(second_.pooled),
                                   floats(slopes_), floats(gradients[4]), floats(gradients[5])});
  gpu_.run(kernels::FeatureSlopes{batch_, kClasses, features, floats(slopes_), floats(classes),
                                  floats(second_.pooled_slopes)});
  backward(second_, first_.pooled, gradients[2], gradients[3]);
  gpu_.run(kernels::InputSlopes{second_.shape, floats(second_.slopes), floats(parameters[2]),
                                floats(first_.pooled_slopes)});
  backward(first_, images_, gradients[0], gradients[1]);
  world_.copy(losses_, losses_here_, gpu_.stream());
}

double GpuNetwork::loss() {
  gpu_.wait();
  const auto losses = losses_here_.as<float>();
  return std::accumulate(losses.begin(), losses.end(), 0.0) / batch_;
}

}  // namespace images
