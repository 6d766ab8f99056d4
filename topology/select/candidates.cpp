#include "topology/select/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace weft::topology {
namespace {

/// Bandwidths within this ratio are equal, because sources round rates differently.
constexpr double kAlike = 0.99;

Path path_of(const Model& model, const HostRank& rank, const std::vector<int>& numa,
             const Nic& nic) {
  if (rank.gpu != kNone)
    return path_between(model, model.gpus[static_cast<std::size_t>(rank.gpu)], nic);
  // If the rank may run on several NUMA nodes, the one nearest to the NIC counts.
  Path best = path_to_numa(model, numa.empty() ? model.sole_numa() : numa.front(), nic);
  for (const int node : numa) {
    Path path = path_to_numa(model, node, nic);
    if (std::tie(path.path_class, path.across_packages, path.distance) <
        std::tie(best.path_class, best.across_packages, best.distance))
      best = std::move(path);
  }
  return best;
}

/// The second criterion of the comparison, after the path class.
struct Speed {
  double gbytes = 0;   // of the known parts
  bool whole = false;  // true if no part is missing that is known for other NICs
};

Speed speed_of(const Candidate& candidate, const NicVerdict& verdict, bool rates_known) {
  const double port = verdict.gbits / 8;
  const double links = candidate.path.second_gbytes;
  Speed speed;
  speed.gbytes = port > 0 && links > 0 ? std::min(port, links) : std::max(port, links);
  speed.whole = candidate.path.second_known && (port > 0 || !rates_known);
  return speed;
}

auto place(const Path& path) {
  return std::tuple(path.path_class, path.across_packages, path.distance);
}

std::string speed_text(double gbytes) {
  return gbytes > 0 ? fmt::format("{:.3g} GB/s", gbytes) : "speed not known";
}

class Ranking {
 public:
  Ranking(const Model& model, const std::vector<NicVerdict>& verdicts, Choice& choice)
      : model_(model), verdicts_(verdicts), all_(choice.candidates), rails_(choice.rails) {}

  void run() {
    weigh();
    std::stable_sort(all_.begin(), all_.end(), [](const Candidate& a, const Candidate& b) {
      if (a.accepted != b.accepted) return a.accepted;
      if (!a.accepted) return a.nic < b.nic;
      if (place(a.path) != place(b.path)) return place(a.path) < place(b.path);
      return std::tuple(-a.gbytes, a.nic) < std::tuple(-b.gbytes, b.nic);
    });
    for (Candidate& candidate : all_) {
      if (!candidate.accepted) break;
      const Candidate& best = all_.front();
      candidate.rail =
          place(candidate.path) == place(best.path) && candidate.gbytes >= kAlike * best.gbytes;
      explain(candidate, best);
      if (candidate.rail) rails_.push_back(candidate.nic);
    }
    std::sort(rails_.begin(), rails_.end());
  }

 private:
  const NicVerdict& verdict(const Candidate& candidate) const {
    return verdicts_[static_cast<std::size_t>(candidate.nic)];
  }

  /// Treats a partly known speed as at most the lowest fully known speed among NICs of the same
  /// path class and distance; if there is none, speed does not distinguish these NICs.
  void weigh() {
    const bool rates_known = std::any_of(all_.begin(), all_.end(), [&](const Candidate& c) {
      return c.accepted && verdict(c).gbits > 0;
    });
    std::vector<Speed> speeds;
    for (const Candidate& candidate : all_)
      speeds.push_back(speed_of(candidate, verdict(candidate), rates_known));
    for (std::size_t i = 0; i < all_.size(); ++i) {
      all_[i].gbytes = speeds[i].gbytes;
      if (speeds[i].whole || !all_[i].accepted) continue;
      double slowest = 0;
      for (std::size_t j = 0; j < all_.size(); ++j)
        if (all_[j].accepted && speeds[j].whole && place(all_[j].path) == place(all_[i].path))
          slowest = slowest > 0 ? std::min(slowest, speeds[j].gbytes) : speeds[j].gbytes;
      all_[i].partly_known = true;
      all_[i].gbytes =
          slowest > 0 && all_[i].gbytes > 0 ? std::min(slowest, all_[i].gbytes) : slowest;
    }
  }

  void explain(Candidate& candidate, const Candidate& best) const {
    const std::string_view name = topology::name(candidate.path.path_class);
    const std::string what =
        fmt::format("{} ({}), {}", name, candidate.path.text,
                    candidate.partly_known && candidate.gbytes <= 0 ? "speed not known"
                                                                    : speed_text(candidate.gbytes));
    if (candidate.rail)
      candidate.reason = what;
    else if (candidate.path.path_class != best.path.path_class)
      candidate.reason = fmt::format("{}: farther than {} by {}", what, best_name(best),
                                     topology::name(best.path.path_class));
    else if (place(candidate.path) != place(best.path))
      candidate.reason = fmt::format("{}: {} is nearer, {}", what, best_name(best), best.path.text);
    else
      candidate.reason =
          fmt::format("{}: slower than {} ({})", what, best_name(best), speed_text(best.gbytes));
  }

  const std::string& best_name(const Candidate& best) const {
    return model_.nics[static_cast<std::size_t>(best.nic)].name;
  }

  const Model& model_;
  const std::vector<NicVerdict>& verdicts_;
  std::vector<Candidate>& all_;
  std::vector<int>& rails_;
};

}  // namespace

std::size_t rank_candidates(const Model& model, const HostRank& rank,
                            const std::vector<NicVerdict>& verdicts, int forced,
                            const std::string& forced_by, Choice& choice) {
  const std::vector<int> numa =
      rank.gpu == kNone ? model.numa_of_cpus(rank.cpus) : std::vector<int>{};
  choice.candidates.reserve(model.nics.size());
  for (std::size_t i = 0; i < model.nics.size(); ++i) {
    Candidate candidate{.nic = static_cast<int>(i)};
    candidate.path = path_of(model, rank, numa, model.nics[i]);
    candidate.accepted = forced == kNone ? verdicts[i].usable : candidate.nic == forced;
    if (!candidate.accepted)
      candidate.reason = forced == kNone || !verdicts[i].usable
                             ? fmt::format("not used: {}", verdicts[i].reason)
                             : fmt::format("not used: {}", forced_by);
    choice.candidates.push_back(std::move(candidate));
  }
  Ranking(model, verdicts, choice).run();
  return choice.candidates.size();
}

}  // namespace weft::topology
