// One tensor in one call, and the receiver's work on it: as the paper's figure 7 has it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::bench {

/// Kinds of row: the tensor is put into the receiver's slot, or published and read where it lies.
inline constexpr std::string_view kByPut = "put";
inline constexpr std::string_view kByView = "view";
/// Or, of parameters, moved into the worker's own tensor.
inline constexpr std::string_view kByPull = "pull";

/// How often a transfer is made before and within a measurement. Ranks on different hosts share no
/// flags: the leader tells the number, and every transfer is answered.
class TransferCount {
 public:
  static constexpr std::uint64_t kWarmUp = 3;
  static constexpr std::uint64_t kLeast = 5;
  static constexpr std::uint64_t kMost = 5000;

  /// From what the last of the warm-up took, with everything around it.
  static std::uint64_t within(std::chrono::nanoseconds budget, std::chrono::nanoseconds one);
};

/// Microseconds that `work` takes.
template <typename Work>
double timed(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// The leader's samples: kWarmUp transfers, then as many as fit into the budget. `tell` gives the
/// receiver that number; `transfer` fills the tensor with its argument's pattern and returns the
/// microseconds of one transfer.
template <typename Tell, typename Transfer>
std::vector<double> lead_transfers(std::chrono::nanoseconds budget, Tell&& tell,
                                   Transfer&& transfer) {
  std::uint64_t iteration = 0;
  auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < TransferCount::kWarmUp; ++i) {
    start = std::chrono::steady_clock::now();
    transfer(++iteration);
  }
  const auto count = TransferCount::within(budget, std::chrono::steady_clock::now() - start);
  tell(count);
  std::vector<double> samples;
  samples.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) samples.push_back(transfer(++iteration));
  return samples;
}

}  // namespace weft::bench
