#include "runtime/dataflow/execute/step_ends.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "runtime/world/services.hpp"

namespace weft::dataflow {

StepEnds::StepEnds(World& world, const Plan& plan, std::string name,
                   const std::function<Stays(const Edge&)>& stays)
    : world_(world), name_(std::move(name)) {
  const auto add = [&](int waiting, int other) {
    if (waiting == world.rank() && !own_.contains(other))
      own_[other] = Signal::expose(world, name_of(other));
    if (other == world.rank()) remote_[waiting];
  };
  for (const Edge& edge : plan.edges) {
    const Stays who = stays(edge);
    if (who != Stays::none) add(edge.from, edge.to);
    if (who == Stays::both) add(edge.to, edge.from);
  }
}

std::string StepEnds::name_of(int teller) const {
  return fmt::format("{}/ended steps of {}", name_, teller);
}

void StepEnds::attach(Deadline deadline) {
  for (auto& [rank, signal] : remote_)
    signal = RemoteSignal::attach(world_, rank, name_of(world_.rank()), deadline);
}

void StepEnds::tell_step() noexcept {
  // A rank that can't be told is dead or has left.
  for (auto& [rank, signal] : remote_) static_cast<void>(signal.add(1));
}

void StepEnds::tell_end() noexcept {
  for (auto& [rank, signal] : remote_) static_cast<void>(signal.add(kEnd));
}

int StepEnds::first_late(std::uint64_t steps) const noexcept {
  for (const auto& [rank, signal] : own_)
    if (signal.value() < steps && world_.alive(std::array{rank}).ok()) return rank;
  return -1;
}

void StepEnds::await_others(std::uint64_t steps, const Neighbours& neighbours) noexcept {
  if (first_late(steps) < 0) return;
  const auto is_over = [&] { return first_late(steps) < 0 || neighbours.news().has_value(); };
  static_cast<void>(wait_any(world_, {.woken = is_over}, {}));
  if (!is_over())
    log_of(world_)->warn(Subsystem::slot,
                         "executor '{}' ends though rank {} has not ended the same steps", name_,
                         first_late(steps));
}

}  // namespace weft::dataflow
