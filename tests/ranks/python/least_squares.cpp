// The program of mpirun_examples/c_trainer/least_squares.c in C++: the same bits.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

constexpr int kLines = 1000;
constexpr int kSteps = 200;

float truth_of(int line) { return static_cast<float>(line % 7 - 3); }

void write_gradient(int rank, int step, std::span<const float> slopes, std::span<float> gradient) {
  for (int i = 0; i < kLines; ++i) {
    const float x = static_cast<float>((i * 37 + rank * 11 + step * 5) % 64 - 32) / 32.0F;
    const auto at = static_cast<std::size_t>(i);
    gradient[at] = (slopes[at] * x - truth_of(i) * x) * x;
  }
}

}  // namespace

int main() try {
  weft::World world = weft::World::join();
  weft::pslib::ParameterServer server(world);
  weft::pslib::Table table =
      server.table("fit", {{"slopes", {kLines}}}, weft::pslib::Optimizer::adam(0.05F));
  const auto slopes = table.parameter("slopes").as<float>();
  const auto gradient = table.gradient("slopes").as<float>();
  for (float& slope : slopes) slope = 0;
  table.initialize().or_throw();
  for (int step = 1; step <= kSteps; ++step) {
    write_gradient(world.rank(), step, slopes, gradient);
    table.push().or_throw();
    table.pull().or_throw();
  }
  std::uint64_t bits = 0;
  for (const float slope : slopes) {
    std::uint32_t one = 0;
    std::memcpy(&one, &slope, sizeof one);
    bits += one;
  }
  if (world.rank() == 0) std::printf("bits 0x%llx\n", static_cast<unsigned long long>(bits));
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
