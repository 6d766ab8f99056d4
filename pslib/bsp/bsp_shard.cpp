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
      workers_(table.roles.workers.size()),
      sources_(workers_.size()),
      updater_(table.options, table.specs.size(), buffer_.shape().elements(), workers_.size(),
               table.pushes.is_compressed() ? &table.pushes : nullptr),
      norms_(world, table, updater_.norms().size()),
      checkpointer_(make_checkpointer(world, table, table.roles.rank)) {
  region_.also_needs(table.roles.others());
  std::memset(buffer_.data(), 0, buffer_.bytes());
  region_.publish().or_throw();
  if (table.options.wire != DType::f32)
    master_.resize(static_cast<std::size_t>(buffer_.shape().elements()));
  for (const ShardPiece& piece : table.pieces)
    if (piece.server == table.roles.rank)
      parts_.push_back({{piece.tensor, piece.shard_offset, piece.count, piece.first},
                        table.layout.offset(piece.tensor) + piece.first});
}

void BspShard::attach(World& world, std::span<const int> needs, Deadline deadline) {
  const PublishedSpec expected = table_.gradients();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].gradients = world.attach_published(table_.roles.workers[i], expected, deadline);
    workers_[i].gradients.also_needs(needs);
  }
  initial_.attach(world, table_, needs, deadline);
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
  auto arrival = from.gradients.view(deadline);
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
  for (const Part& part : parts_) updater_.measure(part.run, master(), sources(part));
  return norms_.tell(updater_.norms(), until());
}

void BspShard::update() noexcept {
  updater_.settle();
  for (const Part& part : parts_) {
    if (!updater_.due()) {
      updater_.keep(part.run, sources(part));
      continue;
    }
    updater_.apply(part.run, master(), master(), sources(part));
    narrow(part.run);
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
    for (const Part& part : parts_) narrow(part.run);
    return {};
  }
  const DType wire = table_.options.wire;
  for (const Part& part : parts_) {
    float* const to = master() + part.run.offset;
    const std::byte* const from =
        initial_.has() ? initial_.data() + static_cast<std::size_t>(part.from) * size_of(wire)
                       : sources(part).front();
    const auto count = static_cast<std::size_t>(part.run.count);
    if (wire == DType::f32)
      std::memcpy(to, from, count * sizeof(float));
    else
      weft::kernels::widen(to, from, wire, count);
    narrow(part.run);
  }
  return {};
}

Sources BspShard::sources(const Part& part) noexcept {
  const std::size_t skipped = table_.skipped(part.from);
  for (std::size_t i = 0; i < workers_.size(); ++i)
    sources_[i] = workers_[i].arrival.tensor().data() + skipped;
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
