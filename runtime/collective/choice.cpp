#include "runtime/collective/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/collective/signature.hpp"
#include "weft/error.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

constexpr std::array kAll{Algorithm::direct,   Algorithm::allgather_then_reduce,
                          Algorithm::ring,     Algorithm::halving,
                          Algorithm::doubling, Algorithm::two_level};

/// The work of the busiest host in a call.
struct Load {
  double hops_between = 0;
  double hops_within = 0;
  double messages = 0;       ///< of the busiest rank
  double bytes_between = 0;  ///< sent by the host
  double bytes_within = 0;
  double bytes_combined = 0;  ///< by the busiest rank
  double bytes_placed = 0;    ///< copied to their places, by the busiest rank
};

/// The part of the time to combine a byte that it takes to copy one.
constexpr double kOfCombining = 0.85;

double time_of(const Load& load, const Choices& choices) noexcept {
  return load.hops_between * choices.between.latency + load.hops_within * choices.within.latency +
         load.messages * choices.between.message + load.bytes_between / choices.between.bandwidth +
         load.bytes_within / choices.within.bandwidth +
         (load.bytes_combined + kOfCombining * load.bytes_placed) / choices.combine;
}

/// The load of one or two exchanges of all ranks with each other, or of a root with all ranks.
Load load_of_exchanges(bool whole, const Choosing& choosing, const Hosts& hosts) noexcept {
  double ranks = 0;
  double mates = 0;
  for (const auto& host : hosts) {
    ranks += static_cast<double>(host.size());
    mates = std::max(mates, static_cast<double>(host.size()));
  }
  const Kind kind = choosing.task.kind;
  const auto bytes =
      static_cast<double>(choosing.task.count) * static_cast<double>(choosing.element);
  const bool shares = combines(kind) && !whole;
  const bool twice = shares && kind != Kind::reduce_scatter;
  const double exchanges = twice ? 2 : 1;
  const bool from_one = kind == Kind::broadcast || kind == Kind::scatter || kind == Kind::gather;
  const double senders = from_one ? 1 : mates;
  const double comers = kind == Kind::broadcast || kind == Kind::scatter ? 1 : ranks - 1;
  const double each = whole || kind == Kind::broadcast ? bytes : bytes / ranks;
  const bool spread = hosts.size() > 1;
  return {.hops_between = spread ? exchanges : 0,
          .hops_within = spread ? 0 : exchanges,
          .messages = exchanges * (ranks - 1),
          .bytes_between = exchanges * senders * (ranks - mates) * each,
          .bytes_within = exchanges * senders * (mates - 1) * each,
          .bytes_combined = combines(kind) ? comers * each : 0,
          .bytes_placed = (twice || !combines(kind) ? 1 : 0) * comers * each};
}

/// The ranks of `host` whose schedules stand for all of its ranks': all, or a few if there are
/// many, since making a schedule may take a step for each rank of the group.
std::vector<int> samples_of(const std::vector<int>& host, int root) {
  constexpr std::size_t kMost = 32;
  constexpr std::size_t kFew = 8;
  if (host.size() <= kMost) return host;
  std::vector<int> samples;
  for (std::size_t i = 0; i < kFew; ++i)
    samples.push_back(host[i * (host.size() - 1) / (kFew - 1)]);
  const bool has_root = std::ranges::find(host, root) != host.end();
  if (has_root && std::ranges::find(samples, root) == samples.end()) samples.push_back(root);
  return samples;
}

/// The load of the schedules of one host's ranks: the root's host, or the first.
Load load_of_programs(Algorithm algorithm, const Choosing& choosing, const Hosts& hosts) {
  const auto has = [&](const std::vector<int>& host, int rank) {
    return std::find(host.begin(), host.end(), rank) != host.end();
  };
  const auto busiest = std::find_if(
      hosts.begin(), hosts.end(), [&](const auto& host) { return has(host, choosing.task.root); });
  std::vector<bool> is_near;
  for (const int rank : *busiest) {
    is_near.resize(std::max(is_near.size(), static_cast<std::size_t>(rank) + 1));
    is_near[static_cast<std::size_t>(rank)] = true;
  }
  Load load;
  std::set<int> between;
  std::set<int> within;
  const std::vector<int> samples = samples_of(*busiest, choosing.task.root);
  for (const int rank : samples) {
    ScheduleTask in_one = choosing.task;
    in_one.channels = 1;
    const auto schedule = make_schedule(algorithm, in_one, hosts, rank);
    double messages = 0;
    double combined = 0;
    double placed = 0;
    for (const Step& move : schedule->moves()) {
      const bool sum = move.what == Step::What::recv_reduce || move.place == Step::Place::sum;
      const auto bytes = static_cast<double>(move.region.count) *
                         static_cast<double>(sum ? choosing.wide_element : choosing.element);
      if (move.what == Step::What::recv_reduce) combined += bytes;
      if (move.what == Step::What::recv) placed += bytes;
      if (move.peer < 0) continue;
      const auto peer = static_cast<std::size_t>(move.peer);
      const bool near = peer < is_near.size() && is_near[peer];
      (near ? within : between).insert(move.round);
      if (move.what != Step::What::send) continue;
      messages += 1;
      (near ? load.bytes_within : load.bytes_between) += bytes;
    }
    load.messages = std::max(load.messages, messages);
    load.bytes_combined = std::max(load.bytes_combined, combined);
    load.bytes_placed = std::max(load.bytes_placed, placed);
  }
  const double each = static_cast<double>(busiest->size()) / static_cast<double>(samples.size());
  load.bytes_between *= each;
  load.bytes_within *= each;
  load.hops_between = static_cast<double>(between.size());
  for (const int round : within) load.hops_within += between.contains(round) ? 0 : 1;
  if (choosing.task.kind == Kind::broadcast && algorithm != Algorithm::doubling) {
    // The last rank of a chain receives its first piece after all ranks before it have received it.
    const auto links = static_cast<double>(hosts.size() - 1);
    const auto bytes =
        static_cast<double>(choosing.task.count) * static_cast<double>(choosing.element);
    load.hops_between = links;
    load.bytes_between += (links - 1) * bytes / std::max(1, choosing.task.channels);
  }
  return load;
}

bool is_served(Algorithm algorithm, const ScheduleTask& task, const Hosts& hosts) {
  if (algorithm == Algorithm::direct) return true;
  if (algorithm == Algorithm::allgather_then_reduce) return serves_allgather_then_reduce(task.kind);
  return make_schedule(algorithm, task, hosts, hosts[0][0]).has_value();
}

bool makes_sense(const LinkCost& cost) noexcept {
  return cost.latency >= 0 && std::isfinite(cost.latency) && cost.message >= 0 &&
         std::isfinite(cost.message) && cost.bandwidth > 0 && std::isfinite(cost.bandwidth);
}

bool makes_sense(const CollectiveRule& rule) noexcept {
  return rule.kind <= CollectiveKind::scan && rule.algorithm <= Algorithm::two_level;
}

}  // namespace

bool Choices::makes_sense() const noexcept {
  return count <= kMostRules && detail::makes_sense(within) && detail::makes_sense(between) &&
         combine > 0 && std::isfinite(combine) && piece >= Piece::kUsual && piece <= Piece::kLong &&
         piece % Piece::kUsual == 0 &&
         std::all_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const CollectiveRule& rule) { return detail::makes_sense(rule); });
}

bool serves_by_nodes(CollectiveKind kind) noexcept {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter ||
         kind == Kind::broadcast || kind == Kind::all_gather;
}

bool serves_allgather_then_reduce(CollectiveKind kind) noexcept {
  return kind == Kind::reduce || kind == Kind::all_reduce || kind == Kind::scan;
}

Algorithm ruled(const Choices& choices, CollectiveKind kind, std::uint64_t bytes,
                const std::function<bool(Algorithm)>& serves) {
  for (std::size_t i = 0; i < choices.count; ++i) {
    const CollectiveRule& rule = choices.rules[i];
    if (rule.kind == kind && rule.from <= bytes && bytes <= rule.to && serves(rule.algorithm))
      return rule.algorithm;
  }
  return Algorithm::automatic;
}

double expected_time(Algorithm algorithm, const Choosing& choosing, const Hosts& hosts,
                     const Choices& choices) {
  if (!is_served(algorithm, choosing.task, hosts)) return -1;
  const bool whole = algorithm == Algorithm::allgather_then_reduce;
  if (whole || algorithm == Algorithm::direct)
    return time_of(load_of_exchanges(whole, choosing, hosts), choices);
  return time_of(load_of_programs(algorithm, choosing, hosts), choices);
}

Algorithm choose(const Choosing& choosing, const Hosts& hosts, const Choices& choices) {
  const Kind kind = choosing.task.kind;
  if (choosing.asked != Algorithm::automatic) {
    if (is_served(choosing.asked, choosing.task, hosts)) return choosing.asked;
    throw Error(ErrorDetail{
        .code = Code::bad_argument,
        .operation = name(kind),
        .message =
            fmt::format("algorithm {} cannot serve this call in this group", name(choosing.asked)),
        .hint = "leave the algorithm automatic, or use direct, which serves every call"});
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(choosing.task.count) * choosing.element;
  const Algorithm told = ruled(choices, kind, bytes, [&](Algorithm algorithm) {
    return is_served(algorithm, choosing.task, hosts);
  });
  if (told != Algorithm::automatic) return told;
  Algorithm best = Algorithm::direct;
  double least = expected_time(best, choosing, hosts, choices);
  for (const Algorithm algorithm : kAll) {
    const double time = expected_time(algorithm, choosing, hosts, choices);
    if (time < 0 || time >= least) continue;
    best = algorithm;
    least = time;
  }
  return best;
}

}  // namespace weft::detail
