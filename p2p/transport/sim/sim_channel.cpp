#include "p2p/transport/sim/sim_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

namespace weft::p2p::sim {
namespace {

constexpr double kPlanted = 0.1;

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> SimChannel::pieces_of(std::size_t bytes, bool torn,
                                                                       Random& random) {
  constexpr std::size_t kPieces = 4;
  std::vector<std::size_t> borders{0, bytes};
  if (torn && bytes > 8)
    for (std::size_t i = 1; i < kPieces; ++i) borders.push_back(random.below(bytes / 8 + 1) * 8);
  std::sort(borders.begin(), borders.end());
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  for (std::size_t i = 1; i < borders.size(); ++i)
    if (borders[i] > borders[i - 1]) pieces.emplace_back(borders[i - 1], borders[i]);
  return pieces;
}

SimChannel::SimChannel(Network& network, std::shared_ptr<Path> path)
    : Channel(FabricKind::sim, network.rank(path->from).local()->stats->path(path->to).counters,
              &path->expected),
      network_(network),
      rank_(network.rank(path->from)),
      path_(std::move(path)) {}

/// One piece of a get. Outlives one that is given up.
struct SimChannel::Reading {
  std::size_t left;
  std::byte* to;
};

void SimChannel::get(Get& get) noexcept {
  get.engine = this;
  get.piece = 0;
  get.end = {};
  get.is_over.store(get.pieces.empty());
  if (!get.pieces.empty()) read_next(get);
}

void SimChannel::read_next(Get& get) noexcept {
  const GetWork& piece = get.pieces[get.piece];
  const RemoteMemory from = piece.from;
  if (!rank_.local()->reachable(piece.to, piece.bytes))
    network_.defect(fmt::format("rank {} gets {} bytes into memory that no NIC reaches",
                                path_->from, piece.bytes));
  rank_.count_step();
  Random& random = network_.scheduler().random();
  const SimOptions& options = network_.options();
  const auto parts = pieces_of(piece.bytes, random.chance(options.faults.torn), random);
  const bool is_early =
      options.plant == Plant::early_get && parts.size() > 1 && random.chance(kPlanted);
  const auto reading = std::make_shared<Reading>(Reading{parts.size() - is_early, piece.to});
  get.kept = reading;
  for (const auto& [first, end] : parts)
    network_.arrive(path_, network_.scheduler().now() + network_.latency(),
                    {from.address + first, from.key},
                    [this, reading, first = first, end = end](std::byte* at) {
                      if (reading->to == nullptr) return;
                      // A planted defect may send it anywhere in this rank's own memory.
                      std::memmove(reading->to + first, at, end - first);
                      if (--reading->left != 0) return;
                      reading->to = nullptr;
                      rank_.ring();
                    });
  // Pieces that have not come by then never will: wakes the waiter, which sees that.
  const auto longest = std::max(options.faults.longest, 2 * options.faults.typical);
  network_.scheduler().at(network_.scheduler().now() + longest + std::chrono::nanoseconds(1),
                          [&rank = rank_] { rank.ring(); });
}

std::optional<Status> SimChannel::poll_get(Get& get) noexcept {
  if (get.is_over.load()) return get.end;
  auto& reading = *std::static_pointer_cast<Reading>(get.kept);
  if (reading.left != 0) {
    const bool is_lost =
        network_.scheduler().now() >= path_->ends || network_.rank(path_->to).local() == nullptr;
    if (!is_lost) return std::nullopt;
    reading.to = nullptr;
    get.end = lost("get");
  } else if (++get.piece < get.pieces.size()) {
    read_next(get);
    return std::nullopt;
  }
  get.is_over.store(true);
  return get.end;
}

bool SimChannel::cancel_get(Get& get) noexcept {
  if (get.kept) std::static_pointer_cast<Reading>(get.kept)->to = nullptr;
  return true;
}

void SimChannel::put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept {
  rank_.count_step();
  if (!rank_.alive()) return;
  Random& random = network_.scheduler().random();
  const SimOptions& options = network_.options();
  if (options.plant == Plant::lost_credit && random.chance(kPlanted)) return;
  const auto first = word_arrival(word, network_.arrival(*path_));
  write_at(first, word, value);
  if (notify != Notify::optional) network_.ring(path_, first + std::chrono::nanoseconds(1));
  path_->settled = std::max(path_->settled, first);
  if (!random.chance(options.faults.duplicated)) return;
  const auto again = word_arrival(word, first + network_.latency());
  write_at(again, word, value);
  path_->settled = std::max(path_->settled, again);
}

SimChannel::Time SimChannel::word_arrival(RemoteMemory word, Time when) {
  Time& last = path_->words[(std::uint64_t{word.key} << 38U) ^ word.address];
  return last = std::max(when, last + std::chrono::nanoseconds(1));
}

void SimChannel::write_at(Time when, RemoteMemory word, std::uint64_t value) {
  network_.arrive(path_, when, word, [value](std::byte* to) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(to)->store(value, std::memory_order_release);
  });
}

void SimChannel::notify() noexcept {
  if (rank_.alive()) network_.ring(path_, network_.scheduler().now() + network_.latency());
}

void SimChannel::send(std::span<const std::byte> message) {
  rank_.count_step();
  if (!rank_.alive()) return;
  counters().control_messages.add(1);
  network_.send(path_, message);
}

bool SimChannel::export_region(std::uint32_t chunk) {
  if (!rank_.alive() || !shared_.insert(chunk).second) return true;
  counters().control_messages.add(1);
  network_.share(path_, chunk, rank_.local()->arena_of(chunk)->chunk_bytes(chunk));
  return true;
}

Status SimChannel::lost(const char* operation) const {
  return Status(ErrorDetail{.code = Code::peer_failed,
                            .operation = operation,
                            .message = fmt::format("the path to rank {} is lost", path_->to),
                            .rank = path_->from,
                            .peer = path_->to});
}

}  // namespace weft::p2p::sim
