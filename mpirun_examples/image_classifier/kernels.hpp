// The kernels: for each its arguments, and the work of one thread. kernels.cu makes kernels of
// them; a plain C++ compiler makes functions of the same, to try them without a GPU. Every sum has
// its order, that of network.cpp, so that runs repeat, and agree with the processor's.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define IMAGES_ANYWHERE __host__ __device__
#else
#define IMAGES_ANYWHERE
#endif

namespace images::kernels {

/// Elements in the GPU's memory.
struct Floats {
  float* data = nullptr;
  long count = 0;

  IMAGES_ANYWHERE float& operator[](long i) const { return data[i]; }
};

/// A 3 x 3 convolution of a batch, and the 2 x 2 pooling behind it. Tensors are
/// [image][channel][row][column].
struct Shape {
  int images, inputs, outputs, height, width;

  IMAGES_ANYWHERE long plane() const { return long{height} * width; }
  IMAGES_ANYWHERE long values() const { return long{images} * outputs * plane(); }
  IMAGES_ANYWHERE long pooled() const {
    return long{images} * outputs * (height / 2) * (width / 2);
  }
  IMAGES_ANYWHERE long weights() const { return long{outputs} * inputs * 9; }
  /// Whether a window's place (dy, dx), as seen from (y, x), is in the image.
  IMAGES_ANYWHERE bool has(int y, int x) const {
    return y >= 0 && y < height && x >= 0 && x < width;
  }
};

/// The convolution and ReLU; a thread for each value.
struct Convolve {
  static constexpr const char* kName = "images_convolve";
  Shape shape;
  Floats from, weights, bias, values;

  IMAGES_ANYWHERE long threads() const { return shape.values(); }
  IMAGES_ANYWHERE void operator()(long i) const {
    const int x = static_cast<int>(i % shape.width);
    const int y = static_cast<int>(i / shape.width % shape.height);
    const long out = i / shape.plane() % shape.outputs;
    const long image = i / shape.plane() / shape.outputs;
    float sum = bias[out];
    for (int in = 0; in < shape.inputs; ++in)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
          if (shape.has(y + dy, x + dx))
            sum +=
                weights[(out * shape.inputs + in) * 9 + (dy + 1) * 3 + dx + 1] *
                from[(image * shape.inputs + in) * shape.plane() + (y + dy) * shape.width + x + dx];
    values[i] = sum > 0.0F ? sum : 0.0F;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(from), act(weights), act(bias), act(values);
  }
};

/// The place of the first value of a pooling window.
IMAGES_ANYWHERE inline long corner(const Shape& shape, long pooled) {
  const int width = shape.width / 2;
  const int height = shape.height / 2;
  const long plane = pooled / (long{width} * height);
  const long row = pooled / width % height;
  return (plane * shape.height + 2 * row) * shape.width + 2 * (pooled % width);
}

/// The largest of each window; a thread for each.
struct Pool {
  static constexpr const char* kName = "images_pool";
  Shape shape;
  Floats values, pooled;

  IMAGES_ANYWHERE long threads() const { return shape.pooled(); }
  IMAGES_ANYWHERE void operator()(long i) const {
    const long at = corner(shape, i);
    const long below = at + shape.width;
    const float upper = values[at] > values[at + 1] ? values[at] : values[at + 1];
    const float lower = values[below] > values[below + 1] ? values[below] : values[below + 1];
    pooled[i] = upper > lower ? upper : lower;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(values), act(pooled);
  }
};

/// The linear layer; a thread for each image's score of a class.
struct Score {
  static constexpr const char* kName = "images_score";
  int images, classes, features;
  Floats from, weights, bias, scores;

  IMAGES_ANYWHERE long threads() const { return long{images} * classes; }
  IMAGES_ANYWHERE void operator()(long i) const {
    const long k = i % classes;
    float sum = bias[k];
    for (long f = 0; f < features; ++f)
      sum += weights[k * features + f] * from[i / classes * features + f];
    scores[i] = sum;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(from), act(weights), act(bias), act(scores);
  }
};

/// The loss of the wanted class, in nats, and its gradients by the scores; a thread for each image.
struct Judge {
  static constexpr const char* kName = "images_judge";
  int images, classes;
  Floats scores, wanted, losses, slopes;

  IMAGES_ANYWHERE long threads() const { return images; }
  IMAGES_ANYWHERE void operator()(long image) const {
    const long first = image * classes;
    float highest = scores[first];
    for (long k = 1; k < classes; ++k)
      if (scores[first + k] > highest) highest = scores[first + k];
    double sum = 0.0;
    for (long k = 0; k < classes; ++k) sum += expf(scores[first + k] - highest);
    const long right = static_cast<long>(wanted[image]);
    for (long k = 0; k < classes; ++k) {
      const auto chance = static_cast<float>(expf(scores[first + k] - highest) / sum);
      slopes[first + k] =
          (chance - (k == right ? 1.0F : 0.0F)) * (1.0F / static_cast<float>(images));
    }
    losses[image] = static_cast<float>(log(sum) + highest - scores[first + right]);
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(scores), act(wanted), act(losses), act(slopes);
  }
};

/// Gradients of the linear layer; a thread for each weight, then for each bias.
struct ClassGradients {
  static constexpr const char* kName = "images_class_gradients";
  int images, classes, features;
  Floats from, slopes, of_weights, of_bias;

  IMAGES_ANYWHERE long threads() const { return long{classes} * (features + 1); }
  IMAGES_ANYWHERE void operator()(long i) const {
    const long weights = long{classes} * features;
    const bool is_weight = i < weights;
    const long k = is_weight ? i / features : i - weights;
    float sum = 0.0F;
    for (long image = 0; image < images; ++image)
      sum +=
          slopes[image * classes + k] * (is_weight ? from[image * features + i % features] : 1.0F);
    (is_weight ? of_weights[i] : of_bias[k]) = sum;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(from), act(slopes), act(of_weights), act(of_bias);
  }
};

/// Gradients by the linear layer's input; a thread for each.
struct FeatureSlopes {
  static constexpr const char* kName = "images_feature_slopes";
  int images, classes, features;
  Floats slopes, weights, of_from;

  IMAGES_ANYWHERE long threads() const { return long{images} * features; }
  IMAGES_ANYWHERE void operator()(long i) const {
    float sum = 0.0F;
    for (long k = 0; k < classes; ++k)
      sum += slopes[i / features * classes + k] * weights[k * features + i % features];
    of_from[i] = sum;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(slopes), act(weights), act(of_from);
  }
};

/// Passes each pooled gradient to the largest value of its window, if ReLU is active there; a
/// thread for each window.
struct Unpool {
  static constexpr const char* kName = "images_unpool";
  Shape shape;
  Floats values, pooled, pooled_slopes, slopes;

  IMAGES_ANYWHERE long threads() const { return shape.pooled(); }
  IMAGES_ANYWHERE void operator()(long i) const {
    const long first = corner(shape, i);
    bool is_passed = false;
    for (int part = 0; part < 4; ++part) {
      const long at = first + part / 2 * shape.width + part % 2;
      const bool takes = !is_passed && values[at] == pooled[i] && values[at] > 0.0F;
      slopes[at] = takes ? pooled_slopes[i] : 0.0F;
      is_passed = is_passed || takes;
    }
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(values), act(pooled), act(pooled_slopes), act(slopes);
  }
};

/// Each image's part of a convolution's gradients, [image][weights, then biases]; a thread for
/// each.
struct ImageGradients {
  static constexpr const char* kName = "images_image_gradients";
  Shape shape;
  Floats from, slopes, parts;

  IMAGES_ANYWHERE long each() const { return shape.weights() + shape.outputs; }
  IMAGES_ANYWHERE long threads() const { return shape.images * each(); }
  IMAGES_ANYWHERE void operator()(long i) const {
    const long image = i / each();
    const long weight = i % each();
    const bool is_bias = weight >= shape.weights();
    const long out = is_bias ? weight - shape.weights() : weight / 9 / shape.inputs;
    const long in = is_bias ? 0 : weight / 9 % shape.inputs;
    const int dy = is_bias ? 0 : static_cast<int>(weight / 3 % 3) - 1;
    const int dx = is_bias ? 0 : static_cast<int>(weight % 3) - 1;
    const long slope = (image * shape.outputs + out) * shape.plane();
    const long source = (image * shape.inputs + in) * shape.plane() + dy * shape.width + dx;
    float sum = 0.0F;
    for (int y = 0; y < shape.height; ++y)
      for (int x = 0; x < shape.width; ++x) {
        const long at = y * shape.width + x;
        if (is_bias)
          sum += slopes[slope + at];
        else if (shape.has(y + dy, x + dx))
          sum += slopes[slope + at] * from[source + at];
      }
    parts[i] = sum;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(from), act(slopes), act(parts);
  }
};

/// Adds the images' parts, in their order; a thread for each weight, then for each bias.
struct AddGradients {
  static constexpr const char* kName = "images_add_gradients";
  int images;
  Floats parts, of_weights, of_bias;

  IMAGES_ANYWHERE long threads() const { return of_weights.count + of_bias.count; }
  IMAGES_ANYWHERE void operator()(long i) const {
    float sum = 0.0F;
    for (long image = 0; image < images; ++image) sum += parts[image * threads() + i];
    (i < of_weights.count ? of_weights[i] : of_bias[i - of_weights.count]) = sum;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(parts), act(of_weights), act(of_bias);
  }
};

/// Gradients by a convolution's input; a thread for each.
struct InputSlopes {
  static constexpr const char* kName = "images_input_slopes";
  Shape shape;
  Floats slopes, weights, of_from;

  IMAGES_ANYWHERE long threads() const { return long{shape.images} * shape.inputs * shape.plane(); }
  IMAGES_ANYWHERE void operator()(long i) const {
    const int x = static_cast<int>(i % shape.width);
    const int y = static_cast<int>(i / shape.width % shape.height);
    const long in = i / shape.plane() % shape.inputs;
    const long image = i / shape.plane() / shape.inputs;
    float sum = 0.0F;
    for (int out = 0; out < shape.outputs; ++out)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
          if (shape.has(y - dy, x - dx))
            sum += slopes[(long{image} * shape.outputs + out) * shape.plane() +
                          (y - dy) * shape.width + x - dx] *
                   weights[(long{out} * shape.inputs + in) * 9 + (dy + 1) * 3 + dx + 1];
    of_from[i] = sum;
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(slopes), act(weights), act(of_from);
  }
};

/// Adam with bias correction, by the ranks' summed gradients; a thread for each parameter. Source:
/// Kingma, Ba 2015.
struct Adam {
  static constexpr const char* kName = "images_adam";
  static constexpr float kBeta1 = 0.9F;
  static constexpr float kBeta2 = 0.999F;
  static constexpr float kEpsilon = 1e-8F;
  float share;  ///< 1 / ranks
  /// Learning rate / (1 - beta1^step), and 1 / (1 - beta2^step): in memory, since a graph that is
  /// launched again has the same arguments.
  Floats rates;
  Floats gradients, parameters, first, second;

  IMAGES_ANYWHERE long threads() const { return parameters.count; }
  IMAGES_ANYWHERE void operator()(long i) const {
    const float gradient = gradients[i] * share;
    first[i] = kBeta1 * first[i] + (1.0F - kBeta1) * gradient;
    second[i] = kBeta2 * second[i] + (1.0F - kBeta2) * (gradient * gradient);
    parameters[i] -= rates[0] * (first[i] / (sqrtf(rates[1] * second[i]) + kEpsilon));
  }
  template <typename Act>
  void for_each_array(const Act& act) {
    act(rates), act(gradients), act(parameters), act(first), act(second);
  }
};

}  // namespace images::kernels

/// All of them.
#define IMAGES_KERNELS(KERNEL)                   \
  KERNEL(images_convolve, Convolve)              \
  KERNEL(images_pool, Pool)                      \
  KERNEL(images_score, Score)                    \
  KERNEL(images_judge, Judge)                    \
  KERNEL(images_class_gradients, ClassGradients) \
  KERNEL(images_feature_slopes, FeatureSlopes)   \
  KERNEL(images_unpool, Unpool)                  \
  KERNEL(images_image_gradients, ImageGradients) \
  KERNEL(images_add_gradients, AddGradients)     \
  KERNEL(images_input_slopes, InputSlopes)       \
  KERNEL(images_adam, Adam)
