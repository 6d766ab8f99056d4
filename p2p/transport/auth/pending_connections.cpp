#include "p2p/transport/auth/pending_connections.hpp"

#include <algorithm>
#include <new>

namespace weft::p2p {

PendingConnections::Id PendingConnections::enter(const Source& source, Clock::time_point now) {
  const Connection connection{.source = source, .since = now};
  count_in(connection);
  try {
    connections_.emplace_hint(connections_.end(), ++last_, connection);
  } catch (const std::bad_alloc&) {
    count_out(connection);
    throw;
  }
  return last_;
}

void PendingConnections::spoke(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.spoke) return;
  Connection speaker = found->second;
  speaker.spoke = true;
  count_in(speaker);
  count_out(found->second);
  found->second = speaker;
}

void PendingConnections::leave(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  count_out(found->second);
  connections_.erase(found);
}

void PendingConnections::count_in(const Connection& connection) {
  ++counts_[connection.spoke][connection.source];
  ++totals_[connection.spoke];
}

void PendingConnections::count_out(const Connection& connection) {
  Counts& counts = counts_[connection.spoke];
  const auto count = counts.find(connection.source);
  if (--count->second == 0) counts.erase(count);
  --totals_[connection.spoke];
}

std::optional<PendingConnections::Id> PendingConnections::oldest_of_most(bool spoke) const {
  const Counts& counts = counts_[spoke];
  const auto largest =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == counts.end()) return std::nullopt;
  const auto oldest =
      std::find_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
        return entry.second.spoke == spoke && entry.second.source == largest->first;
      });
  return oldest->first;
}

std::optional<PendingConnections::Id> PendingConnections::surplus(const Limits& limits) const {
  if (totals_[0] > limits.silent) return oldest_of_most(false);
  if (totals_[1] > limits.spoken) return oldest_of_most(true);
  return std::nullopt;
}

std::optional<PendingConnections::Id> PendingConnections::spare() const {
  const auto silent = oldest_of_most(false);
  return silent ? silent : oldest_of_most(true);
}

std::vector<PendingConnections::Id> PendingConnections::late(
    Clock::time_point now, std::chrono::nanoseconds patience) const {
  std::vector<Id> late;
  for (const auto& [id, connection] : connections_) {
    if (now - connection.since < patience) break;
    late.push_back(id);
  }
  return late;
}

}  // namespace weft::p2p
