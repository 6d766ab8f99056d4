// Tables whose workers have their tensors on a GPU or in host memory.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/stats/table_stats.hpp"
#include "tests/cuda/slots/fabrics.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {

using Floats = std::vector<float>;

/// Two tensors, the second split over shards of some bytes.
inline std::vector<pslib::TensorSpec> model() { return {{"a", {37}}, {"b", {40, 5}}}; }

/// The elements as f32, wherever the tensor lies and whatever its type.
inline Floats values_of(World& world, const Tensor& tensor) {
  const Tensor host = world.allocate(tensor.dtype(), tensor.shape());
  world.copy(tensor, host);
  Floats values(static_cast<std::size_t>(host.shape().elements()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = host.dtype() == DType::f32    ? host.as<float>()[i]
                : host.dtype() == DType::bf16 ? static_cast<float>(host.as<bf16>()[i])
                                              : static_cast<float>(host.as<f16>()[i]);
  return values;
}

inline void set_values(World& world, const Tensor& tensor, const Floats& values) {
  const Tensor host = world.allocate(tensor.dtype(), tensor.shape());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (host.dtype() == DType::f32)
      host.as<float>()[i] = values[i];
    else if (host.dtype() == DType::bf16)
      host.as<bf16>()[i] = bf16(values[i]);
    else
      host.as<f16>()[i] = f16(values[i]);
  world.copy(host, tensor);
}

/// Gradients that follow from the parameters, the rank and the step.
inline void set_gradients(World& world, const pslib::Table& table, int step) {
  for (const auto& spec : table.specs()) {
    Floats values = values_of(world, table.parameter(spec.name));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.5F * values[i] + 0.01F * static_cast<float>(i % 7) -
                  0.02F * static_cast<float>(world.rank() + step % 3);
    set_values(world, table.gradient(spec.name), values);
  }
}

inline Floats parameters_of(World& world, const pslib::Table& table) {
  Floats all;
  for (const auto& spec : table.specs()) {
    const Floats values = values_of(world, table.parameter(spec.name));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Fills a worker's first parameters.
inline void begin(World& world, const pslib::Table& table) {
  for (const auto& spec : table.specs())
    set_values(world, table.parameter(spec.name),
               counted(static_cast<std::size_t>(spec.shape.elements()), 1));
}

/// The pages of this process's tables.
inline std::vector<stats::TableView> table_pages() {
  std::vector<stats::TableView> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto name = std::filesystem::read_symlink(entry.path(), gone).native();
    if (!name.starts_with("/memfd:weft-table")) continue;
    const os::Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (auto view = stats::TableView::open(file)) found.push_back(std::move(view));
  }
  return found;
}

}  // namespace weft::tests
