// A step of a model by hand, the limit of the benchmarks that replay models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/models.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Microseconds per step, after the warm-up steps.
template <typename Step>
double time_of_steps(std::uint64_t steps, Step&& step) {
  for (std::uint64_t i = 0; i < kReplayWarmUp; ++i) step();
  const double spent = timed([&] {
    for (std::uint64_t i = 0; i < steps; ++i) step();
  });
  return spent / static_cast<double>(steps);
}

/// A rank's memory holds its gradients and its half of the parameters. Two ranks.
class BareReplay {
 public:
  /// `pulls`: parameters are copied to the reader's own memory before it reads them.
  BareReplay(World& world, const RunOptions& options, const std::string& name, std::size_t bytes,
             bool pulls);

  void step();

 private:
  void meet();
  void read(const float* from, std::size_t first, std::size_t count);

  std::size_t count_;
  std::size_t half_;
  bool upper_;
  SharedMemory bare_;
  std::vector<float> own_;
  std::uint64_t steps_ = 0;
  std::uint64_t meetings_ = 0;
};

}  // namespace weft::bench
