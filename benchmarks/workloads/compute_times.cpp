#include "benchmarks/workloads/compute_times.hpp"

#include <stdexcept>
#include <string>

namespace weft::bench {
namespace {

struct Times {
  std::string_view model;
  double of_one;
  double of_32;
};

// 690.1 x 4.3 / 8, 172.5 x 7.9 / 8 and 84.4 x 5 / 8, rounded; the GRU has the LSTM's ratio.
constexpr Times kTimes[] = {{"alexnet", 7.61, 7.61}, {"inception", 68.32, 170},
                            {"vgg-16", 30.92, 371},  {"lstm", 33.33, 53},
                            {"gru", 30.44, 48},      {"fcn-5", 4.88, 4.88}};

const Times& times_of(const Model& model) {
  for (const Times& times : kTimes)
    if (times.model == model.name) return times;
  throw std::logic_error("the paper has no times of " + std::string(model.name));
}

}  // namespace

double sample_ms(const Model& model) { return times_of(model).of_one; }

double compute_ms(const Model& model, std::size_t batch) {
  const Times& times = times_of(model);
  return times.of_one + (times.of_32 - times.of_one) * (static_cast<double>(batch) - 1) / 31;
}

std::vector<LayerTime> layer_times(const Model& model, std::size_t batch) {
  const std::vector<Layer> layers = layers_of(model);
  double all = 0;
  for (const Layer& layer : layers) all += layer.multiplications;
  std::vector<LayerTime> times;
  for (const Layer& layer : layers) {
    const double ms = compute_ms(model, batch) * layer.multiplications / all;
    times.push_back({ms / 3, ms * 2 / 3});
  }
  return times;
}

}  // namespace weft::bench
