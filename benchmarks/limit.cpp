#include "benchmarks/limit.hpp"

#include <cstring>

#include "base/kernels/copy.hpp"
#include "benchmarks/statistics.hpp"

namespace weft::bench {

SharedMemory::SharedMemory(World& world, int peer, const std::string& name, std::size_t bytes)
    : slot_(world.expose({.name = name,
                          .dtype = DType::u8,
                          .shape = Shape{static_cast<std::int64_t>(sizeof(FlagArea) + bytes)},
                          .writer = Writer::owner})),
      buffer_(slot_.next().value()),
      flags_(reinterpret_cast<FlagArea*>(buffer_.data())) {
  std::memset(buffer_.data(), 0, buffer_.bytes());
  slot_.publish().or_throw();
  remote_ = world.attach(peer, name);
  theirs_ = remote_.view().value();
  their_flags_ = reinterpret_cast<const FlagArea*>(theirs_.tensor().data());
}

void limit_copy(std::uint32_t variant, void* to, const void* from, std::size_t bytes) noexcept {
  switch (variant) {
    case kFirstLimit:
      std::memcpy(to, from, bytes);
      break;
    case kFirstLimit + 1:
      kernels::copy_cached(to, from, bytes);
      break;
    default:
      kernels::copy_streamed(to, from, bytes);
  }
}

RunRow measure_against_limit(Conductor& conductor, std::uint32_t limits, const Pace& pace,
                             std::size_t size, std::string_view kind, const RunBlock& run) {
  // weft before every one of the limit's ways: each finds its buffers equally long unused.
  std::vector<std::uint32_t> round;
  for (std::uint32_t way = 0; way < limits; ++way) {
    round.push_back(kWeft);
    round.push_back(kFirstLimit + way);
  }
  const auto samples = conductor.lead(round, pace, run);

  std::size_t best = 1;
  std::vector<double> weft;
  for (std::size_t i = 0; i < round.size(); i += 2) {
    weft.insert(weft.end(), samples[i].begin(), samples[i].end());
    if (median(samples[i + 1]) < median(samples[best])) best = i + 1;
  }
  const auto neighbours = ratios(samples[best - 1], samples[best]);
  return {size,
          std::string(kind),
          {{"weft", median(weft)},
           {"limit", median(samples[best])},
           {"weft/limit", median(neighbours)}}};
}

}  // namespace weft::bench
