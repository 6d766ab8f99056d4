// Bulk-synchronous training steps on a small table that is spread over every rank.
#include "tests/faults/kill_random_rank/fault_worker.hpp"
#include "tests/pattern.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {

Status train_with_pslib(World& world, Deadline end) {
  pslib::ParameterServer server(world);
  auto table = server.table("model", {{"weights", {300, 100}}, {"bias", {100}}},
                            pslib::Optimizer::with_momentum(0.01F));
  for (auto& value : table.parameter("weights").as<float>()) value = 0.5F;
  for (auto& value : table.parameter("bias").as<float>()) value = 0.0F;
  if (const auto status = table.initialize(); !status.ok()) return status;
  while (!end.passed()) {
    for (const char* name : {"weights", "bias"})
      for (auto& value : table.gradient(name).as<float>()) value = 1e-3F;
    if (const auto status = table.push_pull(); !status.ok()) return status;
  }
  return {};
}

}  // namespace weft::tests
