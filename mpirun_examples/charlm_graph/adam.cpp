#include "adam.hpp"

#include <cmath>
#include <span>
#include <vector>

namespace charlm {

using weft::dataflow::Definition;
using weft::dataflow::Inference;
using weft::dataflow::KernelCall;
using weft::dataflow::Reuse;
using weft::dataflow::TensorType;

Definition adam() {
  return {.name = "charlm.Adam",
          .inputs = {{"parameter"}, {"first"}, {"second"}, {"updates"}, {"gradient"}},
          .outputs = {{"new_parameter"}, {"new_first"}, {"new_second"}, {"new_updates"}},
          .attributes = {{"learning_rate", 0.001}},
          .infer = [](const Inference& in) -> std::vector<TensorType> {
            for (const std::size_t i : {1U, 2U, 4U})
              if (in.input(i) != in.input(0))
                in.refuse("moments and gradient are as the parameter");
            return {in.input(0), in.input(1), in.input(2), in.input(3)};
          },
          .reuses = {{0, 0, Reuse::Kind::must},
                     {1, 1, Reuse::Kind::must},
                     {2, 2, Reuse::Kind::must},
                     {3, 3, Reuse::Kind::must}}};
}

void compute_adam(KernelCall& call) {
  constexpr double kKeepFirst = 0.9F;
  constexpr double kKeepSecond = 0.999F;
  constexpr float kEpsilon = 1e-8F;
  const std::span<float> parameter = call.output(0).as<float>();
  const std::span<float> first = call.output(1).as<float>();
  const std::span<float> second = call.output(2).as<float>();
  float& updates = call.output(3).as<float>()[0];
  const std::span<const float> gradient = call.input(4).as<float>();
  updates += 1.0F;
  const double t = updates;
  const auto rate = static_cast<float>(call.attributes().number("learning_rate") /
                                       (1.0 - std::pow(kKeepFirst, t)));
  const auto second_scale = static_cast<float>(1.0 / (1.0 - std::pow(kKeepSecond, t)));
  const auto keep1 = static_cast<float>(kKeepFirst);
  const auto keep2 = static_cast<float>(kKeepSecond);
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const float g = gradient[i];
    first[i] = keep1 * first[i] + (1.0F - keep1) * g;
    second[i] = keep2 * second[i] + (1.0F - keep2) * g * g;
    parameter[i] -= rate * first[i] / (std::sqrt(second_scale * second[i]) + kEpsilon);
  }
}

}  // namespace charlm
