// Puts through simulated time: taken at once, read late, there later, ended last.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "p2p/transport/sim/sim_channel.hpp"

namespace weft::p2p::sim {
namespace {

constexpr double kPlanted = 0.1;

using Runs = std::vector<std::span<const std::byte>>;

Runs runs_of(const PutWork& work) {
  if (work.parts.empty()) return {{work.source, work.bytes}};
  Runs runs;
  for (const Tensor& part : work.parts)
    for_each_run(part,
                 [&](const std::byte* from, std::size_t bytes) { runs.emplace_back(from, bytes); });
  return runs;
}

std::vector<std::byte> content(const Runs& runs) {
  std::vector<std::byte> bytes;
  for (const auto run : runs) bytes.insert(bytes.end(), run.begin(), run.end());
  return bytes;
}

}  // namespace

struct SimChannel::UnderWay {
  Runs runs;                     ///< the source; none once it was read
  std::vector<std::byte> bytes;  ///< when it was posted; from then on, as it was read
  Time ends{};                   ///< when this rank knows
  bool vanished = false;
  bool ended_early = false;  ///< planted
};

void SimChannel::check_source(const PutWork& work) const {
  for (const auto run : runs_of(work))
    if (!run.empty() && !rank_.local()->reachable(run.data(), run.size()))
      network_.defect(fmt::format("rank {} puts {} bytes from memory that no NIC reaches",
                                  path_->from, run.size()));
}

// The channel may be gone by then.
void SimChannel::read_source(Network& network, const Path& path, UnderWay& put) {
  SimRank& rank = network.rank(path.from);
  // Nothing is read for a path that is lost, nor by a rank that is dead.
  if (!rank.alive() || network.scheduler().now() > path.ends) return;
  const Runs runs = std::exchange(put.runs, {});
  if (rank.local() == nullptr)
    return network.defect(fmt::format("the world of rank {} went with a put under way", path.from));
  std::vector<std::byte> now = content(runs);
  if (now != put.bytes && !put.ended_early)
    network.defect(
        fmt::format("the source of a put of rank {} to rank {} was written before it "
                    "had ended",
                    path.from, path.to));
  put.bytes = std::move(now);
}

Status SimChannel::put(PutWork& work) noexcept {
  rank_.count_step();
  if (!rank_.alive()) return {};
  check_source(work);
  Scheduler& scheduler = network_.scheduler();
  Random& random = scheduler.random();
  const SimOptions& options = network_.options();
  if (random.chance(options.faults.full_queue))
    return Status(ErrorDetail{.code = Code::exhausted,
                              .operation = "put",
                              .message = "the queue is full",
                              .peer = path_->to});
  // A late one is not waited for by the messages after it.
  const bool late = options.plant == Plant::late_put && random.chance(kPlanted);
  const bool torn = random.chance(options.faults.torn);
  const auto begin =
      network_.arrival(*path_) + (late ? 20 * options.faults.longest : Time::duration{});
  auto whole = begin;
  const auto put = std::make_shared<UnderWay>();
  put->runs = runs_of(work);
  put->bytes = content(put->runs);
  work.source_is_free = random.chance(options.faults.unlent);
  if (work.source_is_free) {
    put->runs.clear();
  } else {
    const auto now = scheduler.now();
    scheduler.at(now + random.between({}, begin - now - std::chrono::nanoseconds(1)),
                 [&network = network_, path = path_, put] { read_source(network, *path, *put); });
  }
  for (const auto& [first, end] : pieces_of(work.bytes, torn, random)) {
    const auto when = torn ? begin + network_.latency() : begin;
    whole = std::max(whole, when);
    network_.arrive(path_, when, {work.payload.address + first, work.payload.key},
                    [put, first = first, end = end](std::byte* to) {
                      std::memcpy(to, put->bytes.data() + first, end - first);
                    });
  }
  if (options.plant == Plant::torn_put && random.chance(kPlanted))
    whole = scheduler.now() + options.faults.typical / 4;
  // Puts with one notification id arrive in order, and so do writes to one word.
  Time& last = path_->signals[work.notification_id];
  const auto in_order = std::max(whole, last) + std::chrono::nanoseconds(1);
  const auto seen = last = word_arrival(work.sequence_word, in_order);
  scheduler.at(seen,
               [&network = network_, path = path_, put, notification_id = work.notification_id,
                sequence = work.sequence, word = work.sequence_word] {
                 put->vanished = !network.notify(*path, notification_id, sequence, word);
               });
  network_.ring(path_, seen + std::chrono::nanoseconds(1));
  if (!late) path_->settled = std::max({path_->settled, whole, seen});
  put->ends = seen + network_.latency();
  scheduler.at(put->ends, [&rank = rank_] { rank.ring(); });
  if (options.plant == Plant::early_end && random.chance(kPlanted)) {
    put->ended_early = true;
    put->ends = scheduler.now();
  }
  work.posted = ++last_posted_;
  under_way_.emplace(work.posted, put);
  return {};
}

std::optional<Status> SimChannel::poll_put(std::uint64_t posted) noexcept {
  const auto found = under_way_.find(posted);
  if (found == under_way_.end()) return Status{};
  const Time now = network_.scheduler().now();
  const UnderWay& put = *found->second;
  if (now >= put.ends && !put.vanished) {
    under_way_.erase(found);
    return Status{};
  }
  if (now > path_->ends || put.vanished) return lost("put");
  return std::nullopt;
}

}  // namespace weft::p2p::sim
