#include "runtime/collective/schedule.hpp"

#include <algorithm>

#include "runtime/collective/rounds.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

int ranks_of(const Hosts& hosts) noexcept {
  std::size_t ranks = 0;
  for (const auto& host : hosts) ranks += host.size();
  return static_cast<int>(ranks);
}

std::vector<int> everybody(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) all[static_cast<std::size_t>(r)] = r;
  return all;
}

/// The n-th of `parts` parts that differ by at most one element.
ElementRange part_of(ElementRange whole, int n, int parts) noexcept {
  const auto begin = [&](int at) {
    return whole.count / parts * at + std::min<std::int64_t>(at, whole.count % parts);
  };
  return {whole.first + begin(n), begin(n + 1) - begin(n)};
}

std::vector<ElementRange> equal_parts(ElementRange whole, std::size_t parts) {
  std::vector<ElementRange> regions;
  for (std::size_t i = 0; i < parts; ++i)
    regions.push_back(part_of(whole, static_cast<int>(i), static_cast<int>(parts)));
  return regions;
}

/// The slice of each rank's part that travels in `channel`.
std::vector<ElementRange> slices_of(const std::vector<std::int64_t>& offsets, int channel,
                                    int channels) {
  std::vector<ElementRange> slices;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    slices.push_back(part_of({offsets[i], offsets[i + 1] - offsets[i]}, channel, channels));
  return slices;
}

/// True if there are several hosts, each with the same number of ranks, at least two.
bool has_two_levels(const Hosts& hosts) noexcept {
  return hosts.size() > 1 && hosts[0].size() > 1 &&
         std::all_of(hosts.begin(), hosts.end(),
                     [&](const auto& host) { return host.size() == hosts[0].size(); });
}

/// True if the ranks of each host are a branch of the group's tree.
bool are_branches(const Hosts& hosts) noexcept {
  int next = 0;
  for (const auto& host : hosts)
    for (const int rank : host)
      if (rank != next++) return false;
  return is_power_of_two(hosts[0].size());
}

/// A rank's position among the ranks of its host, and its counterparts on all hosts.
struct Levels {
  Members mates;
  Members across;
  std::vector<int> across_ranks;
};
void find_levels(const Hosts& hosts, int rank, Levels& levels) {
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const auto found = std::find(hosts[h].begin(), hosts[h].end(), rank);
    if (found == hosts[h].end()) continue;
    levels.mates = {hosts[h], static_cast<int>(found - hosts[h].begin())};
    levels.across.me = static_cast<int>(h);
  }
  for (const auto& host : hosts)
    levels.across_ranks.push_back(host[static_cast<std::size_t>(levels.mates.me)]);
  levels.across.ranks = levels.across_ranks;
}

class Maker {
 public:
  Maker(Algorithm algorithm, const ScheduleTask& task, const Hosts& hosts, int rank)
      : algorithm_(algorithm),
        task_(task),
        hosts_(hosts),
        rank_(rank),
        ranks_(everybody(ranks_of(hosts))),
        all_{ranks_, rank} {}

  std::optional<Schedule> make() {
    if (!goes_by_rounds(algorithm_, task_.kind) || ranks_.size() < 2) return std::nullopt;
    const int channels =
        static_cast<int>(std::clamp<std::int64_t>(task_.count, 1, std::max(1, task_.channels)));
    const bool parts = task_.kind == Kind::reduce_scatter || task_.kind == Kind::all_gather;
    for (int channel = 0; channel < channels; ++channel) {
      Rounds rounds(moves_, channel);
      if (!(parts ? add_parts(rounds, slices_of(task_.offsets, channel, channels))
                  : add(rounds, part_of({0, task_.count}, channel, channels))))
        return std::nullopt;
    }
    return Schedule(std::move(moves_), static_cast<int>(ranks_.size()), channels);
  }

 private:
  bool add(Rounds& rounds, ElementRange region) {
    switch (task_.kind) {
      case Kind::barrier:
        gather_round(rounds, all_);
        return true;
      case Kind::broadcast:
        return add_broadcast(rounds, region);
      default:
        return add_all_reduce(rounds, region);
    }
  }

  /// Adds a ring over `parts`, one per rank.
  bool add_parts(Rounds& rounds, const std::vector<ElementRange>& parts) {
    if (task_.kind == Kind::all_gather) {
      gather_by_ring(rounds, all_, parts, Step::Place::in);
      return true;
    }
    if (!task_.any_order) return false;
    Step::Place own = Step::Place::in;
    for (const ElementRange& part : parts) own = begin(rounds, part);
    scatter_by_ring(rounds, all_, parts, own);
    rounds.finish(parts[static_cast<std::size_t>(rank_)]);
    return true;
  }

  Step::Place begin(Rounds& rounds, ElementRange region) const {
    if (!task_.widens) return Step::Place::in;
    rounds.upcast(region);
    return Step::Place::sum;
  }

  bool add_broadcast(Rounds& rounds, ElementRange region) {
    if (algorithm_ == Algorithm::ring) {
      pass_on(rounds, all_, task_.root, region);
      return true;
    }
    if (algorithm_ == Algorithm::doubling) {
      spread(rounds, all_, task_.root, region);
      return true;
    }
    if (hosts_.size() < 2) return false;
    // The root passes the region on to the first rank of every other host, along a chain; then the
    // ranks of each host spread it.
    std::vector<int> heads;
    std::vector<int> mates;
    int own_host = 0;
    int root_host = 0;
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      const auto has = [&](int rank) {
        return std::find(hosts_[h].begin(), hosts_[h].end(), rank) != hosts_[h].end();
      };
      if (has(task_.root)) root_host = static_cast<int>(h);
      if (has(rank_)) {
        own_host = static_cast<int>(h);
        mates = hosts_[h];
      }
      heads.push_back(has(task_.root) ? task_.root : hosts_[h].front());
    }
    const int head = heads[static_cast<std::size_t>(own_host)];
    if (head == rank_) pass_on(rounds, {heads, own_host}, root_host, region);
    rounds.go_to(static_cast<int>(heads.size()));
    const auto place = [&](int rank) {
      return static_cast<int>(std::find(mates.begin(), mates.end(), rank) - mates.begin());
    };
    spread(rounds, {mates, place(rank_)}, place(head), region, rank_ == task_.root);
    return true;
  }

  bool add_all_reduce(Rounds& rounds, ElementRange region) {
    switch (algorithm_) {
      case Algorithm::ring:
        if (!task_.any_order) return false;
        reduce_by_ring(rounds, all_, region, begin(rounds, region));
        return true;
      case Algorithm::halving:
        if (!is_power_of_two(ranks_.size())) return false;
        reduce_by_halving(rounds, all_, region, begin(rounds, region));
        return true;
      case Algorithm::doubling:
        reduce_by_doubling(rounds, all_, region, begin(rounds, region));
        return true;
      default:
        return add_two_levels(rounds, region);
    }
  }

  static void reduce_by_ring(Rounds& rounds, Members members, ElementRange region,
                             Step::Place own) {
    const auto parts = equal_parts(region, members.ranks.size());
    scatter_by_ring(rounds, members, parts, own);
    rounds.finish(parts[static_cast<std::size_t>(members.me)]);
    gather_by_ring(rounds, members, parts, Step::Place::out);
  }

  static void reduce_by_halving(Rounds& rounds, Members members, ElementRange region,
                                Step::Place own) {
    const auto trail = scatter_by_halving(rounds, members, region, own);
    rounds.finish(trail.back().kept);
    gather_by_halving(rounds, members, trail);
  }

  bool add_two_levels(Rounds& rounds, ElementRange region) {
    if (!has_two_levels(hosts_)) return false;
    if (!task_.any_order && !are_branches(hosts_)) return false;
    Levels levels;
    find_levels(hosts_, rank_, levels);
    const Members& mates = levels.mates;
    const Step::Place own = begin(rounds, region);
    if (is_power_of_two(mates.ranks.size())) {
      const auto trail = scatter_by_halving(rounds, mates, region, own);
      reduce_across(rounds, levels.across, trail.back().kept);
      gather_by_halving(rounds, mates, trail);
    } else {
      const auto parts = equal_parts(region, mates.ranks.size());
      scatter_directly(rounds, mates, parts, own);
      reduce_across(rounds, levels.across, parts[static_cast<std::size_t>(mates.me)]);
      gather_directly(rounds, mates, parts);
    }
    return true;
  }

  void reduce_across(Rounds& rounds, const Members& across, ElementRange region) const {
    if (is_power_of_two(across.ranks.size()))
      reduce_by_halving(rounds, across, region, Step::Place::sum);
    else if (task_.any_order)
      reduce_by_ring(rounds, across, region, Step::Place::sum);
    else
      reduce_by_doubling(rounds, across, region, Step::Place::sum);
  }

  const Algorithm algorithm_;
  const ScheduleTask& task_;
  const Hosts& hosts_;
  const int rank_;
  const std::vector<int> ranks_;
  const Members all_;
  std::vector<Step> moves_;
};

}  // namespace

Schedule::Schedule(std::vector<Step> moves, int ranks, int channels)
    : moves_(std::move(moves)), ranks_(ranks), channels_(static_cast<std::size_t>(channels)) {
  std::stable_sort(moves_.begin(), moves_.end(), [](const Step& a, const Step& b) {
    return a.round != b.round ? a.round < b.round : a.channel < b.channel;
  });
  for (const Step& move : moves_)
    if (move.peer >= 0) peers_.push_back(move.peer);
  std::ranges::sort(peers_);
  peers_.erase(std::unique(peers_.begin(), peers_.end()), peers_.end());
  sends_.resize(peers_.size());
  takes_.resize(peers_.size());
  for (std::uint32_t i = 0; i < moves_.size(); ++i) {
    const Step& move = moves_[i];
    channels_[static_cast<std::size_t>(move.channel)].push_back(i);
    rounds_ = std::max(rounds_, move.round + 1);
    if (move.what == Step::What::send) sends_[place(move.peer)].push_back(i);
    if (move.comes()) takes_[place(move.peer)].push_back(i);
  }
}

std::size_t Schedule::place(int peer) const noexcept {
  const auto found = std::ranges::lower_bound(peers_, peer);
  return found == peers_.end() || *found != peer ? peers_.size()
                                                 : static_cast<std::size_t>(found - peers_.begin());
}

bool goes_by_rounds(Algorithm algorithm, CollectiveKind kind) noexcept {
  switch (kind) {
    case Kind::barrier:
      return algorithm == Algorithm::doubling;
    case Kind::broadcast:
      return algorithm == Algorithm::ring || algorithm == Algorithm::doubling ||
             algorithm == Algorithm::two_level;
    case Kind::all_reduce:
      return algorithm == Algorithm::ring || algorithm == Algorithm::doubling ||
             algorithm == Algorithm::halving || algorithm == Algorithm::two_level;
    case Kind::reduce_scatter:
    case Kind::all_gather:
      return algorithm == Algorithm::ring;
    default:
      return false;
  }
}

std::optional<Schedule> make_schedule(Algorithm algorithm, const ScheduleTask& task,
                                      const Hosts& hosts, int rank) {
  return Maker(algorithm, task, hosts, rank).make();
}

}  // namespace weft::detail
