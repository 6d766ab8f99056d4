#include "benchmarks/workloads/layers.hpp"

#include <stdexcept>
#include <string>

namespace weft::bench {
namespace {

/// The places of the output of each layer that is a window or a matrix, in layer order.
using Places = std::vector<std::size_t>;

constexpr std::size_t kRecurrentSteps = 80;

void repeat(Places& places, std::size_t times, std::size_t side) {
  places.insert(places.end(), times, side * side);
}

Places of_inception() {
  Places places;
  for (const std::size_t side : {149, 147, 147, 73, 71}) repeat(places, 1, side);
  repeat(places, 3 * 7, 35);
  for (const std::size_t side : {17, 35, 35, 17}) repeat(places, 1, side);
  repeat(places, 4 * 10, 17);
  for (const std::size_t side : {5, 1, 1}) repeat(places, 1, side);
  for (const std::size_t side : {17, 8, 17, 17, 17, 8}) repeat(places, 1, side);
  repeat(places, 2 * 9, 8);
  repeat(places, 1, 1);
  return places;
}

Places places_of(const Model& model) {
  if (model.name == "inception") return of_inception();
  Places places;
  if (model.name == "alexnet")
    for (const std::size_t side : {54, 26, 12, 12, 12, 1, 1, 1}) repeat(places, 1, side);
  if (model.name == "vgg-16") {
    for (const std::size_t side : {224, 224, 112, 112}) repeat(places, 1, side);
    for (const std::size_t side : {56, 28, 14}) repeat(places, 3, side);
    repeat(places, 3, 1);
  }
  if (model.name == "fcn-5") repeat(places, 5, 1);
  return places;
}

double weights_of(const Model& model, std::size_t first, std::size_t end) {
  double weights = 0;
  for (std::size_t i = first; i < end; ++i)
    if (model.shapes[i].size() > 1) weights += static_cast<double>(model.elements(i));
  return weights;
}

/// All gates are one layer, and the words' scores another.
std::vector<Layer> of_recurrent(const Model& model) {
  const std::size_t gates = model.shapes.size() - 2;
  return {{0, gates, weights_of(model, 0, gates) * kRecurrentSteps},
          {gates, 2, weights_of(model, gates, gates + 2) * kRecurrentSteps}};
}

}  // namespace

std::vector<Layer> layers_of(const Model& model) {
  const Places places = places_of(model);
  if (places.empty()) return of_recurrent(model);
  if (places.size() * 2 != model.shapes.size())
    throw std::logic_error("the layers of " + std::string(model.name) + " are not these");
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < places.size(); ++i)
    layers.push_back(
        {2 * i, 2, weights_of(model, 2 * i, 2 * i + 2) * static_cast<double>(places[i])});
  return layers;
}

}  // namespace weft::bench
