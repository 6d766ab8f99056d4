#include "pslib/bsp/bsp_worker.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::pslib {
namespace {

// Another worker may finish the last step and leave, and the news of that may arrive before the
// servers' update. If it left before that step, the servers notice and end for that reason.
constexpr Needed kNeeded = Needed::until_it_leaves;

Status refuse_call(const char* operation, const char* message, const char* hint) noexcept {
  return refuse(Code::bad_argument, [&] { return bad_argument(operation, message, hint); });
}

}  // namespace

BspWorker::BspWorker(const Description& table, PushSlot& slot) : table_(table), slot_(slot) {
  slot_.also_needs(table.roles.others(), kNeeded);
}

Pulled BspWorker::pulled() const { return {version(), table_.roles.workers}; }

void BspWorker::attach(World& world, Deadline deadline) {
  const Roles& roles = table_.roles;
  const std::vector<int> needs = roles.others();
  const std::size_t width = size_of(table_.options.wire);
  for (const int rank : roles.servers) {
    Server& server = servers_.emplace_back();
    server.rank = rank;
    server.slot = world.attach_published(rank, table_.region(rank), deadline);
    server.slot.also_needs(needs, kNeeded);
    (void)server.slot.view(std::span<const SlotRun>(), deadline).value();  // it has no values yet
    for (const ShardPiece& piece : table_.pieces) {
      if (piece.server != rank) continue;
      const auto first = static_cast<std::size_t>(table_.layout.offset(piece.tensor) + piece.first);
      server.runs.push_back(
          {piece.shard_offset, piece.count, slot_.pulled().data() + first * width});
    }
  }
  // Each worker starts at a different server, so that they do not all read the same one at once.
  const auto self = std::ranges::find(roles.workers, roles.rank) - roles.workers.begin();
  const auto count = static_cast<std::ptrdiff_t>(servers_.size());
  std::rotate(servers_.begin(), servers_.begin() + self % count, servers_.end());
}

Status BspWorker::push_initial(Deadline deadline) noexcept {
  if (Status status = slot_.fill_initial(deadline); !status) return status;
  return publish(deadline);
}

Status BspWorker::push(Deadline deadline) noexcept {
  if (updated_ == 0)
    return refuse_call("push", "the table has no parameters yet", "call initialize() first");
  if (updated_ != pushed_)
    return refuse_call("push", "the last push has not been pulled yet",
                       "call pull() or wait_updated() after every push");
  if (Status status = slot_.fill(deadline); !status) return status;
  for (Server& server : servers_) server.viewed = {};
  return publish(deadline);
}

Status BspWorker::publish(Deadline deadline) noexcept {
  Status status = slot_.publish(deadline);
  if (status) ++pushed_;
  return status;
}

Status BspWorker::pull(Deadline deadline) noexcept {
  if (Status status = check_pushed("pull"); !status) return status;
  for (; servers_done_ < servers_.size(); ++servers_done_) {
    Server& server = servers_[servers_done_];
    if (Status status = server.slot.get(server.runs, deadline); !status) return status;
  }
  if (Status status = slot_.deliver(deadline); !status) return status;
  return reach_pushed(deadline);
}

Status BspWorker::wait_updated(Deadline deadline) noexcept {
  if (Status status = check_pushed("wait_updated"); !status) return status;
  for (; servers_done_ < servers_.size(); ++servers_done_) {
    Server& server = servers_[servers_done_];
    auto arrival = server.slot.view(deadline);
    if (!arrival) return arrival.status();
    server.viewed = *std::move(arrival);
  }
  return reach_pushed(deadline);
}

Result<std::span<const std::byte>> BspWorker::view(const ShardPiece& piece) const noexcept {
  if (updated_ == 0 || updated_ != pushed_)
    return refuse_call("view", "the parameters are being updated",
                       "call pull() or wait_updated() first");
  const auto server =
      std::ranges::find_if(servers_, [&](const Server& s) { return s.rank == piece.server; });
  if (server == servers_.end())
    return refuse_call("view", "the piece's server does not serve this table",
                       "take pieces from Table::pieces()");
  const std::size_t width = size_of(table_.options.wire);
  const auto bytes = static_cast<std::size_t>(piece.count) * width;
  if (server->viewed)
    return std::span<const std::byte>(
        server->viewed.tensor().data() + static_cast<std::size_t>(piece.shard_offset) * width,
        bytes);
  const auto first = static_cast<std::size_t>(table_.layout.offset(piece.tensor) + piece.first);
  return std::span<const std::byte>(slot_.pulled().data() + first * width, bytes);
}

Status BspWorker::check_pushed(const char* operation) const noexcept {
  if (updated_ != pushed_) return {};
  return refuse_call(operation, "nothing was pushed since the last pull() or wait_updated()",
                     "call push() first");
}

// From here on the application may write the gradients again.
Status BspWorker::reach_pushed(Deadline deadline) noexcept {
  if (Status status = slot_.reclaim(deadline); !status) return status;
  servers_done_ = 0;
  updated_ = pushed_;
  return {};
}

}  // namespace weft::pslib
