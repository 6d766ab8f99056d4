// Injects the faults of a plan into a job's ranks.
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
  /// Shell command, run with CHAOS_ACTION (its two values are in --help), CHAOS_RANK and CHAOS_PID.
  std::string command;
  bool by_nft = false;  ///< drop all packets in the rank's network namespace
};

/// Executes a plan. Not thread-safe.
class Chaos {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Say = std::function<void(const std::string&)>;

  Chaos(std::vector<Step> plan, JobRanks ranks, CutOptions cut, Moment began, Say say);
  Chaos(const Chaos&) = delete;
  Chaos& operator=(const Chaos&) = delete;
  /// Ends all lasting faults: stopped ranks continue, and cut ranks are reconnected.
  ~Chaos();

  /// Executes the steps that are due. Returns the latest time at which to call again.
  Moment turn(Moment now);

 private:
  /// A fault that is in effect.
  struct Lasting {
    Step step;
    Moment until;
    bool stopped = false;
    Moment next;  ///< of `slow`: the next time to stop or continue the rank
  };

  void begin(const Step& step, Moment now);
  void end(const Lasting& lasting);
  Moment keep_slow(Lasting& lasting, Moment now);
  bool signal(int rank, int number);
  /// False, after a line that says why, if it did not happen.
  bool cut(int rank, bool mend);
  Moment at(double seconds) const;

  std::vector<Step> plan_;  ///< remaining steps
  std::vector<Lasting> lasting_;
  JobRanks ranks_;
  const CutOptions cut_;
  const Moment began_;
  const Say say_;
};

}  // namespace weft::tool
