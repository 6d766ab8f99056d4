// One tensor per call and the receiver's work on it, as in the paper's figure 7.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::bench {

/// Kinds of row: the tensor is put into the receiver's slot, or published and read in place.
inline constexpr std::string_view kByPut = "put";
inline constexpr std::string_view kByView = "view";
/// Further kinds of fig7: put from plain memory, staged (the paper's RDMA.cp); and called for, with
/// private buffers at both ends.
inline constexpr std::string_view kByCopy = "copied";
inline constexpr std::string_view kByRpc = "rpc";
inline constexpr std::array kKindsOfTransfer{kByPut, kByView, kByCopy, kByRpc};
/// For parameters: pulled into the worker's own tensor.
inline constexpr std::string_view kByPull = "pull";

/// The number of transfers before and within a measurement. Ranks on different hosts share no
/// flags, so the leader sends the number and every transfer is answered.
class TransferCount {
 public:
  static constexpr std::uint64_t kWarmUp = 3;
  static constexpr std::uint64_t kLeast = 5;
  static constexpr std::uint64_t kMost = 5000;

  /// Computed from the time of the last warm-up transfer, including all around it.
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

/// The leader's samples: kWarmUp transfers, then the number that fits the budget. `tell` sends that
/// number to the receiver; `transfer` fills the tensor with its argument's pattern and returns the
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
