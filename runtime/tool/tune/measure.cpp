#include "runtime/tool/tune/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/kernels/combine.hpp"

namespace weft::tune {
namespace {

using Timer = std::chrono::steady_clock;

constexpr int kTurns = 7;
constexpr int kPings = 100;
constexpr int kWindow = 64;
constexpr std::int64_t kLarge = 4 << 20;
constexpr std::uint64_t kTag = 1;

double seconds_since(Timer::time_point start) {
  return std::chrono::duration<double>(Timer::now() - start).count();
}

/// The median of kTurns samples, which other work on the machine disturbs least.
template <typename Measure>
double middle(Measure measure) {
  std::array<double, kTurns> samples{};
  for (double& sample : samples) sample = measure();
  std::nth_element(samples.begin(), samples.begin() + kTurns / 2, samples.end());
  return samples[kTurns / 2];
}

class Pair {
 public:
  Pair(World& world, Messages& messages, int peer)
      : messages_(messages),
        peer_(peer),
        leads_(world.rank() < peer),
        small_(world.allocate(DType::u8, {8})),
        large_(world.allocate(DType::u8, {kLarge})) {
    std::memset(large_.data(), 1, large_.bytes());
  }

  double latency() {
    const auto start = Timer::now();
    for (int i = 0; i < kPings; ++i) {
      pass(small_, leads_);
      pass(small_, !leads_);
    }
    return seconds_since(start) / (2.0 * kPings);
  }
  /// Processor time per message, without the latency.
  double message() {
    const auto start = Timer::now();
    for (int i = 0; i < kWindow; ++i) pass(small_, leads_);
    const double spent = seconds_since(start) / kWindow;
    pass(small_, !leads_);
    return spent;
  }
  double large() {
    const auto start = Timer::now();
    pass(large_, leads_);
    pass(small_, !leads_);
    return seconds_since(start);
  }
  double agreed(double value) {
    std::memcpy(small_.data(), &value, sizeof value);
    pass(small_, leads_);
    std::memcpy(&value, small_.data(), sizeof value);
    return value;
  }

 private:
  void pass(const Tensor& tensor, bool sends) {
    if (sends)
      messages_.send(peer_, kTag, tensor).or_throw();
    else
      messages_.recv(peer_, kTag, tensor).status().or_throw();
  }

  Messages& messages_;
  const int peer_;
  const bool leads_;
  const Tensor small_;
  const Tensor large_;
};

}  // namespace

detail::LinkCost measure_link(World& world, Messages& messages, int peer) {
  Pair pair(world, messages, peer);
  (void)pair.latency();
  (void)pair.large();
  const double latency = pair.agreed(middle([&] { return pair.latency(); }));
  const double message = pair.agreed(middle([&] { return pair.message(); }));
  const double large = pair.agreed(middle([&] { return pair.large(); }));
  const double bytes_alone = std::max(large - 2 * latency, large / 2);
  return {latency, message, static_cast<double>(kLarge) / bytes_alone};
}

double measure_sum() {
  constexpr std::size_t kCount = 1 << 18;
  std::vector<float> a(kCount, 1.0F);
  std::vector<float> b(kCount, 2.0F);
  const auto add = kernels::combine_for(DType::f32, kernels::Combination::sum);
  const double spent = middle([&] {
    const auto start = Timer::now();
    add(reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<const std::byte*>(a.data()),
        reinterpret_cast<const std::byte*>(b.data()), kCount);
    return seconds_since(start);
  });
  return kCount * sizeof(float) / spent;
}

}  // namespace weft::tune
