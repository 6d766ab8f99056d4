#include "benchmarks/harness/limit.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/kernels/copy.hpp"
#include "benchmarks/harness/statistics.hpp"

namespace weft::bench {

namespace {

// Where ranks share processors, polling keeps the awaited rank from running.
constexpr Idle kYieldSoon{200, [] { sched_yield(); }};

}  // namespace

std::vector<int> partners_of(const World& world) {
  if (world.rank() != 0) return {0};
  std::vector<int> followers(static_cast<std::size_t>(world.size() - 1));
  std::iota(followers.begin(), followers.end(), 1);
  return followers;
}

bool share_memory(const World& world) {
  const Report report = world.report();
  return std::ranges::all_of(report.paths,
                             [](const PathReport& path) { return path.fabric == "shm"; });
}

SharedMemory::SharedMemory(World& world, const RunOptions& options, const std::string& name,
                           std::size_t bytes)
    : slot_(world.expose_published(
          {.name = name,
           .dtype = DType::u8,
           .shape = Shape{static_cast<std::int64_t>(sizeof(FlagArea) + bytes)}})),
      buffer_(slot_.next().value()),
      flags_(reinterpret_cast<FlagArea*>(buffer_.data())),
      idle_(options.crowded ? kYieldSoon : kYield) {
  std::memset(buffer_.data(), 0, buffer_.bytes());
  slot_.publish().or_throw();
  for (const int partner : partners_of(world)) {
    remotes_.push_back(world.attach_published(partner, name));
    theirs_.push_back(remotes_.back().view().value());
    partners_.push_back(reinterpret_cast<const FlagArea*>(theirs_.back().tensor().data()));
  }
}

void limit_copy(std::uint32_t variant, void* to, const void* from, std::size_t bytes) noexcept {
  if (variant == kLimitStreamed)
    kernels::copy_streamed(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

RunRow compared(std::size_t size, std::string_view kind, std::span<const double> weft,
                std::span<const double> limit) {
  return {.size = size,
          .kind = std::string(kind),
          .values = {{"weft", median(weft)},
                     {"limit", median(limit)},
                     {"weft/limit", median(ratios(weft, limit))}},
          .figures = {}};
}

RunRow measure_against_limit(Conductor& conductor, std::span<const std::uint32_t> ways,
                             const Pace& pace, std::size_t size, std::string_view kind,
                             const RunBlock& run,
                             const std::map<std::string, std::uint32_t>& others) {
  // A weft block before each limit block, so that each finds its buffers unused for equally long.
  std::vector<std::uint32_t> round;
  for (const std::uint32_t way : ways) round.insert(round.end(), {kWeft, way});
  const std::size_t compared_with_limit = round.size();
  for (const auto& [name, variant] : others) round.push_back(variant);
  const auto samples = conductor.lead(round, pace, run);

  std::vector<double> weft;
  std::map<std::string, double> by_way;
  std::size_t best = 1;
  for (std::size_t i = 1; i < compared_with_limit; i += 2) {
    weft.insert(weft.end(), samples[i - 1].begin(), samples[i - 1].end());
    if (median(samples[i]) < median(samples[best])) best = i;
    by_way[round[i] == kLimitStreamed ? "limit_streamed" : "limit_memcpy"] = median(samples[i]);
  }
  RunRow row = compared(size, kind, samples[best - 1], samples[best]);
  row.values["weft"] = median(weft);
  if (ways.size() > 1) row.values.insert(by_way.begin(), by_way.end());
  std::size_t place = compared_with_limit;
  for (const auto& [name, variant] : others) {
    const auto& other = samples[place++];
    row.figures[name + "_us"] = median(other);
    row.figures["weft/" + name] = median(ratios(samples[compared_with_limit - 2], other));
  }
  return row;
}

}  // namespace weft::bench
