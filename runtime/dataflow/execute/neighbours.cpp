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

std::optional<Neighbours::News> Neighbours::news_of(int rank, const Signal& signal) noexcept {
  const std::uint64_t value = signal.value();
  if (value == 0) return {};
  return News{rank, static_cast<int>((value & (kGone - 1)) - 1), (value & kGone) != 0,
              static_cast<NodeId>(value >> 32U) - 1};
}

std::optional<Neighbours::News> Neighbours::news() const noexcept {
  for (const auto& [rank, signal] : own_)
    if (const auto news = news_of(rank, signal)) return news;
  return {};
}

std::optional<Neighbours::News> Neighbours::news_from(int rank) const noexcept {
  const auto found = own_.find(rank);
  return found == own_.end() ? std::nullopt : news_of(rank, found->second);
}

void Neighbours::tell(const News& news) noexcept {
  const std::uint64_t value = (static_cast<std::uint64_t>(news.origin) + 1) |
                              (news.is_gone ? kGone : 0) |
                              (static_cast<std::uint64_t>(news.node) + 1) << 32U;
  // A neighbour that can't be told is dead or has left.
  for (auto& [rank, signal] : remote_) static_cast<void>(signal.add(value));
}

}  // namespace weft::dataflow
