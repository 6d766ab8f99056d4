// Making the plan's faults happen.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/tool/chaos/job_ranks.hpp"
#include "runtime/tool/chaos/plan.hpp"

namespace weft::tool {

struct CutOptions {
  std::string command;  ///< by a shell, with CHAOS_ACTION=cut or mend, CHAOS_RANK, CHAOS_PID
  bool by_nft = false;  ///< drop all packets in the rank's network namespace
};

/// Carries out a plan. Not for several threads.
class Chaos {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Say = std::function<void(const std::string&)>;

  Chaos(std::vector<Step> plan, JobRanks ranks, CutOptions cut, Moment began, Say say);
  Chaos(const Chaos&) = delete;
  Chaos& operator=(const Chaos&) = delete;
  /// Whoever is stopped or cut off goes on.
  ~Chaos();

  /// Does what is due; returns when to be called again at the latest.
  Moment turn(Moment now);

 private:
  /// Something that lasts.
  struct Lasting {
    Step step;
    Moment until;
    bool stopped = false;
    Moment next;  ///< slow: when it is stopped, or goes on
  };

  void begin(const Step& step, Moment now);
  void end(const Lasting& lasting);
  Moment keep_slow(Lasting& lasting, Moment now);
  bool signal(int rank, int number);
  void cut(int rank, bool mend);
  Moment at(double seconds) const;

  std::vector<Step> plan_;  ///< what is still to be done
  std::vector<Lasting> lasting_;
  JobRanks ranks_;
  const CutOptions cut_;
  const Moment began_;
  const Say say_;
};

}  // namespace weft::tool
