#include "pslib/bsp/bsp_shard.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/kernels/combine.hpp"

namespace weft::pslib {

BspShard::BspShard(World& world, const Description& table)
    : table_(table),
      region_(world.expose_published(table.region(table.roles.rank))),
      buffer_(region_.next().value()),
      cut_(table.cut(std::span(&table.roles.rank, 1))),
      workers_(table.roles.workers.size()),
      sources_(workers_.size()),
      updater_(table.options, table.specs.size(), buffer_.shape().elements(), workers_.size(),
               table.pushes.is_compressed()),
      norms_(world, table, updater_.norms().size()),
      checkpointer_(make_checkpointer(world, table, table.roles.rank)) {
  region_.also_needs(table.roles.others());
  std::memset(buffer_.data(), 0, buffer_.bytes());
  region_.publish().or_throw();
  if (table.options.wire != DType::f32)
    master_.resize(static_cast<std::size_t>(buffer_.shape().elements()));
  for (const ShardPiece& piece : table.pieces)
    if (piece.server == table.roles.rank)
      runs_.push_back({piece.tensor, piece.shard_offset, piece.count, piece.first});
}

void BspShard::attach(World& world, std::span<const int> needs, Deadline deadline) {
  const PublishedSpec expected = table_.gradients();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].gradients = world.attach_published(table_.roles.workers[i], expected, deadline);
    workers_[i].gradients.also_needs(needs);
  }
  initial_.attach(world, table_, std::span(&table_.roles.rank, 1), needs, deadline);
  norms_.attach(world, table_, needs, deadline);
}

Status BspShard::round(Deadline deadline) noexcept {
  wait_until(deadline);
  const std::uint64_t begun = rounds_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].arrival) continue;
    if (Status status = take(i, deadline); !status) return status;
  }
  if (Status status = advance(); !status || rounds_ > begun) return status;
  for (std::size_t i = 0; i < norms_.peers(); ++i) {
    if (norms_.has(i)) continue;
    if (Status status = take_peer(i, deadline); !status) return status;
  }
  return advance();
}

Status BspShard::take(std::size_t worker, Deadline deadline) noexcept {
  if (rounds_ == 0 && worker == 0)
    if (Status status = initial_.take(deadline); !status) return status;
  BspWorker& from = workers_[worker];
  // Only the first worker's first push has values.
  const bool is_empty =
      rounds_ == 0 && (worker > 0 || initial_.has() || table_.restored() != nullptr);
  auto arrival = from.gradients.view(is_empty ? std::span<const SlotRun>() : cut_.runs(), deadline);
  if (!arrival) return arrival.status();
  const std::uint64_t expected = rounds_ + 1;
  if (arrival->sequence() != expected)
    return refuse(Code::flow_overrun, [&] {
      ErrorDetail detail =
          error_detail(Code::flow_overrun, "take gradients",
                       "a worker's gradients overtook the step that this shard is at",
                       "one Table per worker must push, and only after the last pull has returned");
      detail.peer = from.gradients.owner();
      detail.slot = from.gradients.spec().name;
      detail.sequence_expected = expected;
      detail.sequence_seen = arrival->sequence();
      return detail;
    });
  from.arrival = *std::move(arrival);
  ++taken_;
  return {};
}

Status BspShard::take_peer(std::size_t peer, Deadline deadline) noexcept {
  return norms_.take(peer, updater_.norms(), deadline);
}

Status BspShard::advance() noexcept {
  if (taken_ < workers_.size()) return {};
  if (rounds_ > 0 && !is_begun_)
    if (Status status = measure(); !status) return status;
  if (awaits_norms_ && !norms_.complete()) return {};
  auto buffer = region_.next(until());
  if (!buffer) return buffer.status();
  if (rounds_ > 0)
    update();
  else if (Status status = start(); !status)
    return status;
  // Release before publishing: workers write their next gradients as soon as they see the new
  // parameters.
  for (BspWorker& worker : workers_) worker.arrival = {};
  if (rounds_ == 0) initial_.drop();
  taken_ = 0;
  is_begun_ = false;
  if (awaits_norms_) norms_.end_round();
  awaits_norms_ = false;
  ++rounds_;
  if (Status status = region_.publish(); !status) return status;
  return save();
}

// Saves while the workers compute: the region stays unchanged until all have pushed again.
Status BspShard::save() noexcept {
  if (!checkpointer_ || rounds_ == 1) return {};
  return save_shard(*checkpointer_, table_, table_.roles.rank, version(), master(), updater_);
}

TableStatistics BspShard::statistics() const {
  TableStatistics statistics;
  statistics.applied = (version() - table_.first_version()) * workers_.size();
  statistics.staleness[0] = statistics.applied;
  statistics.skipped = updater_.skipped();
  return statistics;
}

ShardLoad BspShard::load() const noexcept {
  const std::uint64_t requests = rounds_ * workers_.size() + taken_;
  return {.requests = requests,
          .queue = taken_,
          .bytes_read = requests * table_.bytes_read(buffer_.shape().elements()),
          .bytes_written = rounds_ * buffer_.bytes(),
          .memory = buffer_.bytes() + master_.size() * sizeof(float) +
                    updater_.arrays().size() *
                        static_cast<std::size_t>(buffer_.shape().elements()) * sizeof(float)};
}

Status BspShard::measure() noexcept {
  updater_.begin(workers_.size());
  is_begun_ = true;
  awaits_norms_ = updater_.due() && updater_.measures();
  if (!awaits_norms_) return {};
  for (const Run& run : runs_) updater_.measure(run, master(), sources(run));
  return norms_.tell(updater_.norms(), until());
}

void BspShard::update() noexcept {
  updater_.settle();
  for (const Run& run : runs_) {
    if (!updater_.due()) {
      updater_.keep(run, sources(run));
      continue;
    }
    updater_.apply(run, master(), master(), sources(run));
    narrow(run);
  }
}

Status BspShard::start() noexcept {
  if (const Checkpoint* const from = table_.restored(); from != nullptr) {
    try {
      for (const ShardPiece& piece : table_.pieces)
        if (piece.server == table_.roles.rank)
          restore_piece(*from, table_, piece, master(), updater_);
    } catch (...) {
      return caught_status();
    }
    for (const Run& run : runs_) narrow(run);
    return {};
  }
  const DType wire = table_.options.wire;
  for (const Run& run : runs_) {
    float* const to = master() + run.offset;
    const std::byte* const from =
        initial_.has() ? initial_.data(table_.layout.offset(run.tensor) + run.first)
                       : cut_.source(workers_.front().arrival.tensor(), run.tensor, run.first).at;
    const auto count = static_cast<std::size_t>(run.count);
    if (wire == DType::f32)
      std::memcpy(to, from, count * sizeof(float));
    else
      weft::kernels::widen(to, from, wire, count);
    narrow(run);
  }
  return {};
}

Sources BspShard::sources(const Run& run) noexcept {
  for (std::size_t i = 0; i < workers_.size(); ++i)
    sources_[i] = cut_.source(workers_[i].arrival.tensor(), run.tensor, run.first);
  return sources_;
}

float* BspShard::master() noexcept {
  return master_.empty() ? reinterpret_cast<float*>(buffer_.data()) : master_.data();
}

void BspShard::narrow(const Run& run) noexcept {
  if (master_.empty()) return;
  const DType wire = table_.options.wire;
  std::byte* const to = buffer_.data() + static_cast<std::size_t>(run.offset) * size_of(wire);
  weft::kernels::narrow(to, wire, master_.data() + run.offset, static_cast<std::size_t>(run.count));
}

}  // namespace weft::pslib
