#include "runtime/dataflow/execute/neighbours.hpp"

#include <fmt/format.h>

namespace weft::dataflow {

Neighbours::Neighbours(World& world, const Plan& plan, const std::string& name)
    : world_(world), name_(name) {
  const int own = world.rank();
  for (const Edge& edge : plan.edges) {
    if (edge.from != own && edge.to != own) continue;
    const int other = edge.from == own ? edge.to : edge.from;
    if (!own_.contains(other)) own_[other] = Signal::expose(world, name_of(other));
  }
}

std::string Neighbours::name_of(int from) const {
  return fmt::format("{}/failed step of {}", name_, from);
}

void Neighbours::attach(Deadline deadline) {
  for (const auto& [rank, signal] : own_)
    remote_[rank] = RemoteSignal::attach(world_, rank, name_of(world_.rank()), deadline);
}

std::optional<Neighbours::News> Neighbours::news() const noexcept {
  for (const auto& [rank, signal] : own_)
    if (const std::uint64_t value = signal.value(); value != 0)
      return News{rank, static_cast<int>((value & ~kGone) - 1), (value & kGone) != 0};
  return {};
}

void Neighbours::tell(const News& news) noexcept {
  const std::uint64_t value =
      (static_cast<std::uint64_t>(news.origin) + 1) | (news.is_gone ? kGone : 0);
  // A neighbour that can't be told is dead or has left.
  for (auto& [rank, signal] : remote_) static_cast<void>(signal.add(value));
}

}  // namespace weft::dataflow
