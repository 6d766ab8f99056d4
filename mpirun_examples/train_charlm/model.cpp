#include "model.hpp"

namespace charlm {
namespace {

template <typename Lookup>
LstmTensors<float> bind(Lookup&& tensor) {
  const auto floats = [&](const char* name) { return tensor(name).template as<float>(); };
  return {floats("embedding"), floats("input_weights"),  floats("hidden_weights"),
          floats("gate_bias"), floats("output_weights"), floats("output_bias")};
}

}  // namespace

std::vector<weft::pslib::TensorSpec> tensor_specs(const LstmSizes& s) {
  return {{"embedding", {s.vocabulary, s.embed}},       {"input_weights", {s.embed, 4 * s.hidden}},
          {"hidden_weights", {s.hidden, 4 * s.hidden}}, {"gate_bias", {4 * s.hidden}},
          {"output_weights", {s.hidden, s.vocabulary}}, {"output_bias", {s.vocabulary}}};
}

LstmTensors<float> bind_parameters(const weft::pslib::Table& table) {
  return bind([&](const char* name) { return table.parameter(name); });
}

LstmTensors<float> bind_gradients(const weft::pslib::Table& table) {
  return bind([&](const char* name) { return table.gradient(name); });
}

}  // namespace charlm
