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
  if (variant == kLimitStreamed)
    kernels::copy_streamed(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

RunRow measure_against_limit(Conductor& conductor, std::span<const std::uint32_t> ways,
                             const Pace& pace, std::size_t size, std::string_view kind,
                             const RunBlock& run) {
  // weft before each of the limit's ways: every one finds its buffers equally long unused.
  std::vector<std::uint32_t> round;
  for (const std::uint32_t way : ways) round.insert(round.end(), {kWeft, way});
  const auto samples = conductor.lead(round, pace, run);

  RunRow row{size, std::string(kind), {}};
  std::vector<double> weft;
  std::size_t best = 1;
  for (std::size_t i = 1; i < round.size(); i += 2) {
    weft.insert(weft.end(), samples[i - 1].begin(), samples[i - 1].end());
    if (median(samples[i]) < median(samples[best])) best = i;
    if (ways.size() > 1)
      row.values[round[i] == kLimitStreamed ? "limit_streamed" : "limit_memcpy"] =
          median(samples[i]);
  }
  row.values["weft"] = median(weft);
  row.values["limit"] = median(samples[best]);
  row.values["weft/limit"] = median(ratios(samples[best - 1], samples[best]));
  return row;
}

}  // namespace weft::bench
