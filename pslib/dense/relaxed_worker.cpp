#include "pslib/dense/relaxed_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "pslib/dense/relaxed_words.hpp"
#include "pslib/refusal.hpp"

namespace weft::pslib {
namespace {

Status refuse_call(const char* operation, const char* message, const char* hint) noexcept {
  return refuse(Code::bad_argument, [&] { return bad_argument(operation, message, hint); });
}

}  // namespace

RelaxedWorker::RelaxedWorker(World& world, const Description& table)
    : table_(table),
      self_(static_cast<std::size_t>(std::ranges::find(table.roles.workers, table.roles.rank) -
                                     table.roles.workers.begin())),
      slot_(world.expose(table.gradients())),
      buffer_(slot_.next().value()),
      parameters_(world.allocate(table.options.wire, Shape{table.layout.elements()})) {
  std::memset(parameters_.data(), 0, parameters_.bytes());
  clear_gradients();
}

void RelaxedWorker::attach(World& world, Deadline deadline) {
  const std::size_t width = size_of(table_.options.wire);
  const std::size_t workers = table_.roles.workers.size();
  const std::int64_t header = table_.region_words();
  for (const int rank : table_.roles.servers) {
    Server& server = servers_.emplace_back();
    server.state = world.attach(rank, table_.state(), deadline);
    server.region = world.attach(rank, table_.region(rank), deadline);
    server.known.resize(StateWords::count(workers));
    server.words.resize(static_cast<std::size_t>(header) * width);
    server.runs.push_back({0, header, server.words.data()});
    for (const Piece& piece : table_.pieces) {
      if (piece.server != rank) continue;
      const auto first = static_cast<std::size_t>(table_.layout.offset(piece.tensor) + piece.first);
      server.runs.push_back(
          {header + piece.shard_offset, piece.count, parameters_.data() + first * width});
    }
  }
}

Pulled RelaxedWorker::pulled() const {
  Pulled pulled{.version = version_, .contributors = {}};
  const auto& workers = table_.roles.workers;
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (std::ranges::any_of(servers_, [&](const Server& server) {
          const std::uint64_t mask = load_word(server.words.data(), RegionWords::kMask + i / 64);
          return (mask >> (i % 64) & 1) != 0;
        }))
      pulled.contributors.push_back(workers[i]);
  return pulled;
}

Status RelaxedWorker::push_initial(bool is_first) noexcept {
  if (is_first) std::memcpy(buffer_.data(), parameters_.data(), parameters_.bytes());
  return publish();
}

void RelaxedWorker::clear_gradients() noexcept { std::memset(buffer_.data(), 0, buffer_.bytes()); }

Status RelaxedWorker::push() noexcept {
  if (settled_ == 0)
    return refuse_call("push", "the table has no parameters yet", "call initialize() first");
  if (settled_ != pushed_)
    return refuse_call("push", "the last push has not been pulled yet",
                       "call pull() after every push");
  return publish();
}

Status RelaxedWorker::publish() noexcept {
  store_word(buffer_.data() + parameters_.bytes(), GradientWords::kBase, version_);
  Status status = slot_.publish();
  if (status) ++pushed_;
  return status;
}

Status RelaxedWorker::pull(Deadline deadline) noexcept {
  if (settled_ == pushed_)
    return refuse_call("pull", "nothing was pushed since the last pull()", "call push() first");
  for (; servers_done_ < servers_.size(); ++servers_done_) {
    Server& server = servers_[servers_done_];
    if (Status status = await_permit(server, deadline); !status) return status;
    const std::uint64_t published = server.known[StateWords::kVersion];
    if (server.has_pulled && load_word(server.words.data(), RegionWords::kVersion) >= published)
      continue;
    if (Status status = server.region.get(server.runs, deadline); !status) return status;
    server.has_pulled = true;
  }
  // From here on the gradients are the user's to write again.
  auto buffer = slot_.next();
  if (!buffer) return buffer.status();
  servers_done_ = 0;
  settled_ = pushed_;
  version_ = load_word(servers_.front().words.data(), RegionWords::kVersion);
  for (const Server& server : servers_)
    version_ = std::min(version_, load_word(server.words.data(), RegionWords::kVersion));
  return {};
}

Status RelaxedWorker::await_permit(Server& server, Deadline deadline) noexcept {
  auto& known = server.known;
  while (known[StateWords::kDone + self_] < pushed_ || known[StateWords::kPermit] < pushed_) {
    const auto arrival = server.state.view(deadline);
    if (!arrival) return name_the_slowest(server, arrival.status());
    std::memcpy(known.data(), arrival->tensor().data(), known.size() * sizeof(std::uint64_t));
  }
  return {};
}

// A worker that waits for a permit waits for another worker, not for the server.
Status RelaxedWorker::name_the_slowest(const Server& server, Status status) const noexcept {
  const auto& known = server.known;
  if (status.code() != Code::timeout || known[StateWords::kDone + self_] < pushed_) return status;
  return refuse(Code::timeout, [&] {
    const auto done = std::span(known).subspan(StateWords::kDone);
    const auto slowest = static_cast<std::size_t>(std::ranges::min_element(done) - done.begin());
    ErrorDetail detail = status.detail();
    detail.operation = "pull";
    detail.peer = table_.roles.workers[slowest];
    detail.message = fmt::format(
        "rank {} has made {} steps, this worker {}: the table allows {} more", detail.peer,
        done[slowest] - 1, pushed_ - 1, table_.options.consistency.staleness);
    detail.hint = "let the slower worker go on, or close its table";
    return detail;
  });
}

Status RelaxedWorker::wait_updated(Deadline) noexcept {
  return refuse_call("wait_updated", "this table's shards go on while workers compute",
                     "call pull(); only a bsp table's parameters are read where they lie");
}

Result<std::span<const std::byte>> RelaxedWorker::view(const Piece&) const noexcept {
  return refuse_call("view", "this table's shards go on while workers compute",
                     "call pull(); only a bsp table's parameters are read where they lie");
}

}  // namespace weft::pslib
