// The news that a rank has ended a step, for those that must not end before.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/dataflow/execute/neighbours.hpp"
#include "weft/partition.hpp"
#include "weft/signal.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// The ends of an edge that wait, at the end of their rank, for the other end's last step.
enum class Stays : std::uint8_t {
  none,
  producer,  ///< its memory is read until then
  both       ///< the receiver too: the way's protocol needs it until then
};

/// A rank that has ended its last step is not needed for any other, but its memory may be. So each
/// rank tells those that wait for it how many steps it has ended, and waits at its end for others.
class StepEnds {
 public:
  /// `stays`: of each edge. Throws Error: as Signal::expose.
  StepEnds(World& world, const Plan& plan, std::string name,
           const std::function<Stays(const Edge&)>& stays);
  /// Attaches to the signals of the ranks that wait for this one. Throws Error.
  void attach(Deadline deadline);

  /// This rank has ended a step. The runner's thread.
  void tell_step() noexcept;
  /// This rank needs nothing of others any more, whatever steps it has ended. Called once, after
  /// the last tell_step().
  void tell_end() noexcept;
  /// Returns once all ranks that this one waits for have ended `steps` steps, have told their end
  /// or are gone; at once if a step has failed. Logs a rank that has not after WEFT_TIMEOUT.
  void await_others(std::uint64_t steps, const Neighbours& neighbours) noexcept;

 private:
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 62;

  std::string name_of(int teller) const;
  /// -1: there is none.
  int first_late(std::uint64_t steps) const noexcept;

  World& world_;
  const std::string name_;
  std::map<int, Signal> own_;           ///< by rank that this one waits for
  std::map<int, RemoteSignal> remote_;  ///< by rank that waits for this one
};

}  // namespace weft::dataflow
